"""Rights that callers of the API server have, and those that they used, by its audit log."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.kube import Document

ACCOUNT = re.compile(r"system:serviceaccount:(?P<namespace>[^:]+):(?P<name>[^:]+)")


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource; `namespace` is empty for the cluster, `name` for any object."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it as kubectl would say it."""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        place = f" -n {self.namespace}" if self.namespace else ""
        return f"{self.verb} {kind}{place}{f' {self.name}' if self.name else ''}"

    def covers(self, used: "Right") -> bool:
        """Say whether a right that is given allows what was done."""
        return (
            (self.group, self.resource, self.verb) == (used.group, used.resource, used.verb)
            and self.namespace in ("", used.namespace)
            and self.name in ("", used.name)
        )


@dataclass(frozen=True)
class Call:
    """A call that an account made: what it needed, and whether it was let."""

    namespace: str
    account: str
    right: Right
    is_allowed: bool


def read(log: Path, offset: int = 0) -> Iterator[Call]:
    """Yield the calls of accounts that the log has after an offset; a half last line is left out.

    Calls for what is no object (`/healthz`, the list of APIs) need no right that is given here.
    """
    with log.open("rb") as file:
        file.seek(offset)
        for line in file:
            if line.endswith(b"\n"):
                yield from _calls(json.loads(line))


def _calls(event: Document) -> Iterator[Call]:
    account = ACCOUNT.fullmatch(event["user"]["username"])
    about = event.get("objectRef")
    if account is None or about is None:
        return
    sub = about.get("subresource")
    resource = f"{about['resource']}/{sub}" if sub else about["resource"]
    verbs = [event["verb"]]
    if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == 201:
        verbs.append("create")  # an apply that made the object is asked for both rights
    decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
    for verb in verbs:
        named = "" if verb == "create" else about.get("name", "")  # a body has the name, no path
        right = Right(about.get("apiGroup", ""), resource, verb, about.get("namespace", ""), named)
        yield Call(account["namespace"], account["name"], right, decision != "forbid")


def given(rules: Iterable[Document], namespace: str = "") -> set[Right]:
    """Return what the rules of a Role in a namespace, or of a ClusterRole, give."""
    return {
        Right(group, resource, verb, namespace, name)
        for rule in rules
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or [""]
    }


def idle(rights: Iterable[Right], used: Iterable[Right]) -> set[Right]:
    """Return the rights that nothing that was done needed."""
    done = list(used)
    return {right for right in rights if not any(right.covers(one) for one in done)}


def uncovered(rights: Iterable[Right], used: Iterable[Right]) -> set[Right]:
    """Return what was done, or tried, without a right for it."""
    held = list(rights)
    return {one for one in used if not any(right.covers(one) for right in held)}
