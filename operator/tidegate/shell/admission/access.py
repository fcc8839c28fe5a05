"""May who writes the resource do this themselves? SubjectAccessReviews, remembered for seconds."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core.admission.references import AccessQuestion
from tidegate.flow.ports import Document
from tidegate.shell.admission.wire import User
from tidegate.shell.api_server import ApiServer, NoAnswer, message_of
from tidegate.shell.resources import BY_KIND

TTL_SECONDS = 10.0
"""Of an answer: a right that was taken away is gone after this."""
MOST_ANSWERS = 4096
CALL_SECONDS = 3.0

_Key = tuple[User, tuple[str, str, str, str, str]]


class Unanswered(Exception):
    """The API server did not say; so the resource is not let in. The message says why."""


@dataclass(frozen=True)
class _Answer:
    is_yes: bool
    until: float


class Access:
    """Asks, and remembers answers by user, groups and question; nothing grows without bound."""

    def __init__(
        self,
        api: ApiServer,
        monotonic: Callable[[], float] = time.monotonic,
        most: int = MOST_ANSWERS,
    ) -> None:
        self._api = api
        self._monotonic = monotonic
        self._most = most
        self._known: OrderedDict[_Key, _Answer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    async def refused(
        self, user: User, questions: Sequence[AccessQuestion]
    ) -> tuple[AccessQuestion, ...]:
        """Return the questions that are answered with no; asked at once, not one by one.

        Raises:
            Unanswered: One could not be asked.
        """
        answers = await asyncio.gather(*(self._may(user, question) for question in questions))
        return tuple(q for q, is_yes in zip(questions, answers, strict=True) if not is_yes)

    async def _may(self, user: User, question: AccessQuestion) -> bool:
        key = (user, question.key)
        known = self._known.get(key)
        if known is not None and self._monotonic() < known.until:
            self._known.move_to_end(key)
            return known.is_yes
        is_yes = await self._ask(user, question)
        self._known[key] = _Answer(is_yes, self._monotonic() + TTL_SECONDS)
        self._known.move_to_end(key)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return is_yes

    async def _ask(self, user: User, question: AccessQuestion) -> bool:
        what = f"whether {user.name} may {question.verb} {question.resource} could not be asked"
        path = BY_KIND["SubjectAccessReview"].path()
        try:
            status, answer = await self._api.call(
                "POST", path, body=_review(user, question), verb="create", seconds=CALL_SECONDS
            )
        except NoAnswer as error:
            raise Unanswered(f"{what}: {error}") from error
        verdict = answer.get("status") if isinstance(answer, dict) and status < 400 else None
        if not isinstance(verdict, dict):
            raise Unanswered(f"{what}: {status}: {message_of(answer)}")
        return verdict.get("allowed") is True and verdict.get("denied") is not True


def _review(user: User, question: AccessQuestion) -> Document:
    attributes: dict[str, Any] = {
        "verb": question.verb,
        "group": question.group,
        "resource": question.resource,
        "namespace": question.namespace,
    }
    if question.name:
        attributes["name"] = question.name
    return {
        "apiVersion": BY_KIND["SubjectAccessReview"].api_version,
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            "resourceAttributes": attributes,
        },
    }
