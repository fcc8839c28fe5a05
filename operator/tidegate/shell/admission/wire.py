"""AdmissionReview v1, as the API server sends it and reads the answer. Pure."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tidegate.api.llmdeployment import GROUP, KIND
from tidegate.core.admission.finding import Finding

API_VERSION = "admission.k8s.io/v1"
REVIEWED = ("CREATE", "UPDATE")
"""The operations of which there is something to say."""
_LONGEST_UID = 128


class Malformed(Exception):
    """The body is no AdmissionReview that can be answered; the message says why."""


@dataclass(frozen=True)
class User:
    """Who asks, as the API server has authenticated them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Request:
    """One question. `old` is None for a creation; a document may be anything but a list."""

    uid: str
    operation: str
    is_of_our_kind: bool
    namespace: str
    name: str
    user: User
    new: dict[str, Any]
    old: dict[str, Any] | None

    @property
    def is_reviewed(self) -> bool:
        """Say whether there is anything to say; all else is let through."""
        return self.is_of_our_kind and self.operation in REVIEWED

    @property
    def called(self) -> str:
        """The name for a sentence: one that is to be generated is not known yet."""
        return self.name or "of a generated name"


@dataclass(frozen=True)
class Denial:
    """Why not: an HTTP status with its reason, a message, and the faults one by one."""

    code: int
    reason: str
    message: str
    faults: tuple[Finding, ...] = ()


def read(body: bytes) -> Request:
    """Read a review.

    Raises:
        Malformed: It is none, or of another version.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("kind") != "AdmissionReview":
        raise Malformed("the body must be an AdmissionReview")
    if document.get("apiVersion") != API_VERSION:
        raise Malformed(f"apiVersion must be {API_VERSION}")
    request = _mapping(document, "request")
    uid = _text(request, "uid")
    if not 0 < len(uid) <= _LONGEST_UID:
        raise Malformed("request.uid must be a text of 1 to 128 characters")
    operation = _text(request, "operation")
    kind = _mapping(request, "kind")
    ours = (kind.get("group"), kind.get("kind")) == (GROUP, KIND)
    is_judged = ours and operation in REVIEWED
    return Request(
        uid=uid,
        operation=operation,
        is_of_our_kind=ours,
        namespace=_text(request, "namespace"),
        name=_text(request, "name"),
        user=_user(_mapping(request, "userInfo")),
        new=_mapping(request, "object") if is_judged else {},
        old=_mapping(request, "oldObject") if ours and operation == "UPDATE" else None,
    )


def allowed(
    uid: str, warnings: Sequence[str] = (), patch: Sequence[Mapping[str, Any]] = ()
) -> bytes:
    """Return the answer that lets the object in, changed by a JSON patch where there is one."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {
            "patchType": "JSONPatch",
            "patch": base64.b64encode(orjson.dumps(list(patch))).decode(),
        }
    return _answer(response, warnings)


def denied(request: Request, denial: Denial, warnings: Sequence[str] = ()) -> bytes:
    """Return the answer that keeps the object out."""
    details: dict[str, Any] = {"name": request.name, "group": GROUP, "kind": KIND}
    if denial.faults:
        details["causes"] = list(map(_cause, denial.faults))
    status = {
        "status": "Failure",
        "code": denial.code,
        "reason": denial.reason,
        "message": denial.message,
        "details": details,
    }
    return _answer({"uid": request.uid, "allowed": False, "status": status}, warnings)


def _answer(response: dict[str, Any], warnings: Sequence[str]) -> bytes:
    if warnings:
        response["warnings"] = list(warnings)
    return orjson.dumps(
        {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
    )


def _cause(fault: Finding) -> dict[str, str]:
    """Return one fault for `status.details`; kubectl puts the field before the message."""
    rest = fault.line.removeprefix(f"{fault.reason}: {fault.field}").lstrip(": ")
    return {
        "reason": str(fault.reason),
        "field": fault.field,
        "message": f"{fault.reason}: {rest}",
    }


def _user(info: Mapping[str, Any]) -> User:
    groups, extra = info.get("groups") or [], info.get("extra") or {}
    if not _are_texts(groups):
        raise Malformed("request.userInfo.groups must be texts")
    if not isinstance(extra, dict) or not all(map(_are_texts, extra.values())):
        raise Malformed("request.userInfo.extra must be lists of texts by name")
    return User(
        name=_text(info, "username"),
        uid=_text(info, "uid"),
        groups=tuple(groups),
        extra=tuple((key, tuple(extra[key])) for key in sorted(extra)),
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _mapping(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = document.get(key)
    if not isinstance(found, dict):
        raise Malformed(f"{key} must be an object")
    return found


def _text(document: Mapping[str, Any], key: str) -> str:
    found = document.get(key, "")
    if not isinstance(found, str):
        raise Malformed(f"{key} must be a text")
    return found
