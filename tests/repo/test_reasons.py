"""Every reason that a user can meet is a documented constant."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.api.explanations import EXPLANATIONS
from tidegate.api.reasons import Reason

TOP = Path(__file__).resolve().parents[2]
VERDICTS = {"Refused", "Wait"}
SOURCES = sorted((TOP / "operator" / "tidegate").rglob("*.py"))


def undocumented(source: str) -> Iterator[str]:
    """Yield each reason that is written as text and is no `Reason`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        named = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        first = node.args[:1] if name in VERDICTS else []
        for value in (*named, *first):
            if isinstance(value, ast.Constant) and value.value not in set(Reason):
                yield f"line {value.lineno}: {value.value!r}"


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_says_what_it_means_and_what_to_do(reason):
    known = EXPLANATIONS[reason]

    assert known.meaning.endswith(".")
    assert known.action.endswith(".")
    assert f"## {reason.value}\n\n{known.meaning}\n" in (
        TOP / "docs" / "reference" / "reasons.md"
    ).read_text(encoding="utf-8")


def test_nothing_else_is_explained():
    assert set(EXPLANATIONS) == set(Reason)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_each_reason_in_the_code_is_a_documented_one(source):
    assert list(undocumented(source.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "code",
    ["raise Refused('Nope', 'a')", "raise errors.Wait('Nope', 'a')", "Condition(reason='Nope')"],
)
def test_an_undocumented_reason_is_found(code):
    assert list(undocumented(code)) == ["line 1: 'Nope'"]
