"""docs/reference/cli.md says what the commands do."""

import json
import re
from pathlib import Path

import pytest
from tests.unit.cli.command import run

from tidegate.cli import plan
from tidegate.core.what_if import axes, rows

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def test_the_case_of_the_page_has_the_answer_of_the_page():
    shown = PAGE[PAGE.index("<!-- example: a case and its answer -->") :]
    case, answer = (
        json.loads(block) for block in re.findall(r"```json\n(.*?)```", shown, re.S)[:2]
    )
    code, out, _ = run("plan", "--batch", "-", stdin=json.dumps(case))
    got = json.loads(out)

    assert code == 0
    assert got.pop("because")
    assert answer.pop("because") == ["..."]
    assert got == answer


@pytest.mark.parametrize("parameter", plan.command.params, ids=lambda parameter: parameter.name)
def test_every_option_of_plan_is_on_the_page(parameter):
    assert any(spelling in PAGE for spelling in parameter.opts)


def test_the_measures_and_the_bound_of_what_ifs_are_on_the_page():
    for key in rows.SORT_KEYS:
        assert f"`{key}`" in PAGE
    assert f"At most {axes.MOST} combinations" in PAGE
