"""The answers of `tidegate check` as workflow commands, which GitHub turns into annotations."""

from collections.abc import Iterator, Sequence

from tidegate.cli.checking.check_answer import Answer
from tidegate.core.admission import Finding
from tidegate.core.checks import Severity

_COMMANDS = {Severity.REFUSE: "error", Severity.WARN: "warning", Severity.INFORM: "notice"}
_IN_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTIES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def lines(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield one command for each finding; its text is data and cannot begin another command."""
    for answer in answers:
        for finding in answer.findings:
            yield _command(answer, finding)


def _command(answer: Answer, finding: Finding) -> str:
    properties = {
        "file": answer.source.path,
        "line": str(answer.line_of(finding)),
        "title": str(finding.reason),
    }
    told = ",".join(f"{key}={text.translate(_IN_PROPERTIES)}" for key, text in properties.items())
    message = f"{answer.name}: {finding.told}".translate(_IN_MESSAGES)
    return f"::{_COMMANDS[finding.severity]} {told}::{message}"
