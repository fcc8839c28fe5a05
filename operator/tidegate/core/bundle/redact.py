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
    r"(?:pass(?:word|wd|phrase)?s?|pwd|secrets?|tokens?|credentials?|authorization|cookie|"
    r"(?:api|access|private|signing|encryption|auth|account|master|session|secret)[-_.]?keys?|"
    r"(?:^|[-_.])(?:key|auth|pat|dsn|sas))(?:[-_.]?(?:id|value|data|base|base64|b64))?$",
    re.IGNORECASE,
)
"""A name of an environment variable, an annotation, a flag or a key whose value is a secret."""
_NAMES_A_KEY = "key"
"""In Kubernetes' objects it is the name of a key: of a Secret, a label, a taint."""
_ORDINARY_NAME = re.compile(r"(?:^|[-_.])key[-_.]?value$", re.IGNORECASE)
"""The keys and values of attention."""
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
_IN_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]{0,31}://)[^\s/\"']+@", re.IGNORECASE)
_QUOTED = (
    r"(?:\\+[\"'](?:(?!\\+[\"']).)*\\+[\"']|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"  # \"escaped\"
)
_EQUALS = r"(?:\\*[\"'])?\s*(?:[=:]|%3[dD])\s*"
_ASSIGNED = re.compile(
    r"(?P<name>(?:\\*[\"'])?(?<![\w.-])[\w.-]*(?:pass(?:word|wd|phrase)?s?|secret|token|"
    r"(?:api|access|account|private|secret)[-_]?keys?|credentials?|signature|sig|auth|"
    rf"x-amz-[\w-]+){_EQUALS})"
    rf"(?P<value>{_QUOTED}|\[(?![{{\[])[^\]\r\n]*\]?|[^\s\"',;&}}\])]+)",
    re.IGNORECASE,
)
_PASSPHRASE = re.compile(
    r"(?P<name>(?<![\w.-])[\w.-]*(?:password|passwd|passphrase|pwd)s?(?:=|:[ \t]+))"
    r"(?P<value>(?<==)[^\s\"'&}\])]+|(?<!=)[^\s\"',;&}\])\[{][^\"',;&}\])\r\n]*)",
    re.IGNORECASE,
)
"""Of several words behind a colon, with any sign behind `=`."""
_WORD = rf"(?:{_QUOTED}|[^\s\"';&|,\-][^\s\"';&|]*)"
_BETWEEN = r"(?:(?:\\*[\"'])?,\s*|[ \t]+)"
_FLAG = re.compile(
    rf"(?P<flag>(?<![\w-])--(?P<name>[A-Za-z][\w.-]*){_BETWEEN})"
    rf"(?P<values>(?!\\*[\"']?-){_WORD}(?:(?:,[ \t]*|[ \t]+)(?!\\*[\"']?-){_WORD})*)"
)
"""A flag with the words that follow it, in a command line or a list of its words."""
_NO_VALUES = (GONE, "null", "None", "true", "false")
_ITEM = re.compile(r"[^\s\"'\\,\[\]{}]+")
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
    told = _FLAG.sub(_flagged, told)
    told = _PASSPHRASE.sub(_assigned, told)
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
    """Take out what follows a flag that names a secret, up to the next flag."""
    cleaned: list[Any] = []
    of = ""
    for word in words:
        if not isinstance(word, str):
            cleaned.append(_value("", word))
            continue
        flag, equals, value = word.partition("=")
        if word.startswith("-"):
            of = "" if equals else flag.lstrip("-")
        if equals and flag.startswith("-") and _is_secret(flag.lstrip("-"), value):
            cleaned.append(f"{flag}={GONE}")
        elif of and not word.startswith("-") and _is_secret(of, word):
            cleaned.append(GONE)
        else:
            cleaned.append(text(word))
    return cleaned


def _is_secret(name: str, value: str) -> bool:
    if not _SECRET_NAME.search(name) or _ORDINARY_NAME.search(name):
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
    return match[0] if _says_nothing(match["value"]) else f"{match['name']}{GONE}"


def _flagged(match: re.Match[str]) -> str:
    is_secret = _is_secret(match["name"], match["values"]) and not _says_nothing(match["values"])
    return f"{match['flag']}{GONE}" if is_secret else match[0]


def _says_nothing(value: str) -> bool:
    """Tell whether a value is none, or numbers: behind a word such as `token` a count or an id."""
    words = _ITEM.findall(value)
    return all(word in _NO_VALUES or _NUMBER.fullmatch(word) for word in words)
