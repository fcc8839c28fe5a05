"""Why an engine failed, read from its log: signatures as data, numbers taken out, a way to mend it.

`data/failures.json` lists signatures in order of priority:

- `pattern`: a regular expression over the cleaned log. Its named groups fill the message; those
  that end in `_gib`, `_mib`, `_size` (a number with its unit) and `_tokens` also become numbers.
- `message`: what happened and the fix, with the groups in braces.
- `after`: counts only where this was printed before; `notAfter`: only where it was not. They tell
  a GPU that ran out of memory at load from one at graph capture or while serving.
- `beforeShutdown`: counts only above the line of a requested stop, for what a stop prints too.

The last line of a log is never the cause: the API server's own error and teardown follow it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from string import Formatter

from tidegate.api.reasons import Reason
from tidegate.facts import package_data

_SHUTDOWN = "[shutdown] API server: shutdown triggered"
# Each line may start with the time (of kubectl), the process and the level with time and place.
_PREFIX = re.compile(
    r"^(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) )?"
    r"(?:\[rank\d+\]:? ?)?"
    r"(?:\([\w. -]+ pid=\d+(?:, ip=[\d.]+)?\) ?)?"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d [\d:.]+ \[[^\]]+\] ?)?"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EXCEPTION = re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b(?::.*)?$", re.MULTILINE)
# Errors that only report another one.
_FOLLOW_UP = re.compile(
    r"Engine core initialization failed|EngineDeadError|EngineCore encountered an issue|"
    r"CancelledError|KeyboardInterrupt|SystemExit|BrokenPipeError|Worker failed with error ''"
)
_DEATH = re.compile(r"EngineCore encountered a fatal error|EngineDeadError|died unexpectedly")
_STARTED = re.compile(r"Application startup complete")
_UNIT_BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"([\d.]+) ?(bytes|[KMGT]iB)?")

_LONGEST_LINE = 2000


@dataclass(frozen=True)
class Diagnosis:
    """The cause of a failure: its reason, the line of the log that says it, and what the line says.

    `numbers` are in the unit of their name (`needed_bytes`, `estimated_max_model_len_tokens`);
    `details` are the same and other parts as the engine wrote them.
    """

    reason: Reason
    cause: str
    signature: str
    numbers: Mapping[str, int]
    details: Mapping[str, str]


@dataclass(frozen=True)
class _Signature:
    name: str
    reason: Reason
    pattern: re.Pattern[str]
    message: str
    after: re.Pattern[str] | None
    not_after: re.Pattern[str] | None
    is_before_shutdown: bool

    def find(self, log: str, alive: str) -> re.Match[str] | None:
        """Return the first place that fits; `alive` is the log up to a requested stop."""
        text = alive if self.is_before_shutdown else log
        for match in self.pattern.finditer(text):
            is_late = self.after is None or self.after.search(text, 0, match.start())
            is_early = self.not_after is None or not self.not_after.search(text, 0, match.start())
            if is_late and is_early:
                return match
        return None


def diagnose(log: str) -> Diagnosis | None:
    """Return why the engine failed; None where the log shows no failure."""
    cleaned = clean(log)
    alive = cleaned.partition(_SHUTDOWN)[0]
    for signature in _signatures():
        if match := signature.find(cleaned, alive):
            details = {name: text.strip() for name, text in match.groupdict().items() if text}
            cause = _cause_line(cleaned, match)
            return Diagnosis(signature.reason, cause, signature.name, _numbers(details), details)
    return _diagnose_exception(alive)


def message(diagnosis: Diagnosis) -> str:
    """Return what happened and what to do, in one or two sentences with the engine's numbers."""
    template = _templates()[diagnosis.signature]
    names = (name for _, name, _, _ in Formatter().parse(template) if name)
    filled = {name: diagnosis.details.get(name, "?") for name in names}
    return template.format(**filled | {"cause": diagnosis.cause})


def shutdown_requested(log: str) -> bool:
    """Say whether the engine was asked to stop: a crashed one ends with exit code 0 as well."""
    return _SHUTDOWN in log


def clean(log: str) -> str:
    """Return the log without colours and without what vLLM and kubectl put before each line.

    Lines are cut: no cause is that long, and the time to search one grows with its square.
    """
    plain = _COLOUR.sub("", log)
    lines = re.split(r"[\r\n]+", plain)
    return "\n".join(_PREFIX.sub("", line[:_LONGEST_LINE].rstrip()) for line in lines)


_CRASHED = "crashed"
_UNKNOWN = "unknown"
_EXCEPTION_MESSAGES = {
    _CRASHED: "The engine died while serving: {cause}. Read the previous log.",
    _UNKNOWN: "The engine ended with an error that is not known: {cause}. Read the log.",
}


def _diagnose_exception(log: str) -> Diagnosis | None:
    """Fall back on the first exception that is no report of another one, or on a bare death."""
    started = _STARTED.search(log)
    lines = [match[0] for match in _EXCEPTION.finditer(log, started.end() if started else 0)]
    causes = [line for line in lines if not _FOLLOW_UP.search(line)]
    death = _DEATH.search(log)
    if not lines and death is None:
        return None
    is_crash = death is not None or started is not None
    cause = causes[0] if causes else _cause_line(log, death) if death else lines[0]
    if is_crash:
        return Diagnosis(Reason.ENGINE_CRASHED, cause, _CRASHED, {}, {})
    return Diagnosis(Reason.CRASH_LOOPING, cause, _UNKNOWN, {}, {})


def _cause_line(log: str, match: re.Match[str]) -> str:
    start = log.rfind("\n", 0, match.start()) + 1
    end = log.find("\n", match.end())
    return " ".join(log[start : end if end >= 0 else len(log)].split())


def _numbers(details: Mapping[str, str]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for name, text in details.items():
        stem, _, unit = name.rpartition("_")
        if unit == "tokens":
            numbers[name] = int(text)
        elif unit in ("gib", "mib"):
            factor = _UNIT_BYTES["GiB" if unit == "gib" else "MiB"]
            numbers[f"{stem}_bytes"] = round(float(text) * factor)
        elif unit == "size" and (size := _SIZE.fullmatch(text)):
            numbers[f"{stem}_bytes"] = round(float(size[1]) * _UNIT_BYTES[size[2] or "bytes"])
    return numbers


@cache
def _signatures() -> tuple[_Signature, ...]:
    def compiled(text: str | None) -> re.Pattern[str] | None:
        return None if text is None else re.compile(text, re.MULTILINE)

    return tuple(
        _Signature(
            name=row["name"],
            reason=Reason(row["reason"]),
            pattern=re.compile(row["pattern"], re.MULTILINE),
            message=row["message"],
            after=compiled(row.get("after")),
            not_after=compiled(row.get("notAfter")),
            is_before_shutdown=row.get("beforeShutdown", False),
        )
        for row in package_data.load("failures.json")["signatures"]
    )


@cache
def _templates() -> dict[str, str]:
    return {s.name: s.message for s in _signatures()} | _EXCEPTION_MESSAGES
