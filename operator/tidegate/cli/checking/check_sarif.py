"""The answers of `tidegate check` as SARIF 2.1.0, which code hosts show beside the lines."""

from collections.abc import Sequence
from typing import Any

from tidegate import __version__
from tidegate.api.explanations import EXPLANATIONS
from tidegate.api.reasons import Reason
from tidegate.cli.checking.check_answer import Answer
from tidegate.core.admission import Finding
from tidegate.core.checks import Severity

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.REFUSE: "error", Severity.WARN: "warning", Severity.INFORM: "note"}


def document(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the log: one run, a rule for each reason that was met, a result for each finding."""
    met = sorted({finding.reason for answer in answers for finding in answer.findings})
    driver = {"name": "tidegate", "version": __version__, "rules": [_rule(r) for r in met]}
    results = [_result(answer, f) for answer in answers for f in answer.findings]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _rule(reason: Reason) -> dict[str, Any]:
    known = EXPLANATIONS[reason]
    return {
        "id": str(reason),
        "shortDescription": {"text": known.meaning},
        "help": {"text": known.action},
    }


def _result(answer: Answer, finding: Finding) -> dict[str, Any]:
    return {
        "ruleId": str(finding.reason),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{answer.name}: {finding.told}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": answer.source.path},
                    "region": {"startLine": answer.line_of(finding)},
                }
            }
        ],
    }
