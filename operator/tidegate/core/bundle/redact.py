"""Taking secrets out of documents and texts, by where they stand and by what they look like.

It errs on the side of taking out: a bug report that lacks a harmless value is still one.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

GONE = "REDACTED"
_DROPPED_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration",)
"""They repeat the whole object, as text."""
_DROPPED_METADATA = ("managedFields",)

_SECRET_NAME = re.compile(
    r"(?:pass(?:word|wd|phrase)?|pwd|secrets?|tokens?|credentials?|authorization|cookie|"
    r"(?:api|access|private|signing|encryption|auth|account|master|session)[-_.]?key|apikey|"
    r"(?:^|[-_.])(?:key|auth|pat|dsn|sas))(?:[-_.]?(?:id|value|data|base64|b64))?$",
    re.IGNORECASE,
)
"""A name of an environment variable, an annotation, a flag or a key whose value is a secret."""
_NAMES_A_KEY = "key"
"""In Kubernetes' objects it is the name of a key: of a Secret, a label, a taint."""
_HARMLESS_NAME = re.compile(r"(?:tokens|num[-_].*tokens?|max[-_].*|.*[-_]tokens?|topologyKey)$")
"""Numbers of tokens are no tokens; only believed where the value is a number."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[kKmMgGtT]i?)?")

_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_JWT = r"eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*"
_KNOWN = (
    r"hf_[A-Za-z0-9]{8,}",
    r"sk-[\w-]{8,}",
    r"gh[pousr]_[A-Za-z0-9]{16,}",
    r"github_pat_\w{16,}",
    r"glpat-[\w-]{12,}",
    r"xox[abprs]-[\w-]{8,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"AIza[\w-]{30,}",
    r"nvapi-[\w-]{16,}",
    r"ya29\.[\w-]{16,}",
)
"""Beginnings that vendors give their keys, so that they are found wherever they stand."""
_LOOKS_SECRET = re.compile(rf"(?<![\w-])(?:{_JWT}|{'|'.join(_KNOWN)})")
_IN_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^\s/@\"']+@", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"(?P<name>[\"']?[\w.-]*(?:pass(?:word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|"
    r"private[-_]?key|credentials?|signature|sig|auth|x-amz-[\w-]+)[\"']?\s*(?:[=:]|%3[dD])\s*)"
    r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"',;&}\])]+)",
    re.IGNORECASE,
)
_NO_VALUES = (GONE, "null", "None", "true", "false", "{", "[")
_SCHEME = re.compile(r"\b(?P<scheme>Bearer|Basic|Negotiate)\s+[\w.~+/=-]{6,}", re.IGNORECASE)
_HEADER = re.compile(
    r"(?P<name>\b(?:proxy-)?authorization|\bset-cookie|\bcookie|\bx-api-key)\b"
    r"(?P<between>[\"']?\s*[:=]\s*[\"']?)[^\"'\r\n]+",
    re.IGNORECASE,
)
_LONG = re.compile(r"(?<![\w+/=.-])[A-Za-z0-9+/_-]{32,}={0,2}(?![\w+/=.-])")
_HEX = re.compile(r"[0-9a-f-]+", re.IGNORECASE)


def text(told: str) -> str:
    """Take secrets out of a text: a log, an exposition, a message."""
    told = _PEM.sub(GONE, told)
    told = _HEADER.sub(rf"\g<name>\g<between>{GONE}", told)
    told = _SCHEME.sub(rf"\g<scheme> {GONE}", told)
    told = _IN_URL.sub(rf"\g<scheme>{GONE}@", told)
    told = _ASSIGNED.sub(_assigned, told)
    return _LOOKS_SECRET.sub(GONE, told)


def document(found: Mapping[str, Any]) -> dict[str, Any]:
    """Take secrets out of an object of Kubernetes.

    A Secret is emptied whole: it should never have been read.
    """
    if found.get("kind") == "Secret":
        return {"kind": "Secret", "data": GONE}
    cleaned = _value("", dict(found))
    assert isinstance(cleaned, dict)
    return cleaned


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, str):
        return GONE if value and name != _NAMES_A_KEY and _is_secret(name, value) else text(value)
    if isinstance(value, Sequence):
        return (
            _flags(value)
            if name in ("args", "command", "extraArgs")
            else [_value(name, each) for each in value]
        )
    return value


def _mapping(value: Mapping[str, Any]) -> dict[str, Any]:
    if "name" in value and isinstance(value.get("value"), str):  # an environment variable
        return {**value, "value": _environment(str(value["name"]), str(value["value"]))}
    return {
        key: _annotations(each) if key == "annotations" else _value(key, each)
        for key, each in value.items()
        if key not in _DROPPED_METADATA
    }


def _annotations(found: Any) -> Any:
    if not isinstance(found, Mapping):
        return _value("annotations", found)
    return {
        key: GONE if _is_secret(key, str(value)) or _is_random(str(value)) else text(str(value))
        for key, value in found.items()
        if key not in _DROPPED_ANNOTATIONS
    }


def _environment(name: str, value: str) -> str:
    return GONE if _is_secret(name, value) or _is_random(value) else text(value)


def _flags(words: Sequence[Any]) -> list[Any]:
    """Take out what follows a flag that names a secret, also as the next word."""
    cleaned: list[Any] = []
    for index, word in enumerate(words):
        before = str(words[index - 1]) if index else ""
        flag, equals, value = str(word).partition("=")
        if equals and flag.startswith("-") and _is_secret(flag.lstrip("-"), value):
            cleaned.append(f"{flag}={GONE}")
        elif before.startswith("--") and "=" not in before and _is_secret(before[2:], str(word)):
            cleaned.append(GONE)
        else:
            cleaned.append(text(word) if isinstance(word, str) else _value("", word))
    return cleaned


def _is_secret(name: str, value: str) -> bool:
    if not _SECRET_NAME.search(name):
        return False
    return not (_NUMBER.fullmatch(value) and _HARMLESS_NAME.search(name.lower()))


def _is_random(value: str) -> bool:
    """Tell whether a value has a long word such as only machines make; hashes are let be."""
    return any(
        not _HEX.fullmatch(word)
        and any(letter.isdigit() for letter in word)
        and any(letter.isupper() for letter in word)
        and any(letter.islower() for letter in word)
        for word in _LONG.findall(value)
    )


def _assigned(match: re.Match[str]) -> str:
    value = match["value"].strip("\"'")
    if not value or value in _NO_VALUES or _NUMBER.fullmatch(value):
        return match[0]  # a number after a word such as `token` is a count or an id
    return f"{match['name']}{GONE}"
