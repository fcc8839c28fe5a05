"""docs/reference/cli.md says what the commands do."""

import json
import re
from pathlib import Path
from typing import get_args

import click
import pytest
from pydantic import BaseModel
from tests.unit.cli.command import run

from tidegate.cli import _group, plan
from tidegate.core.what_if import axes, rows
from tidegate.shell.settings import OperatorSettings

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
COMMANDS = _group.list_commands(click.Context(_group))
SETTINGS = dict(
    re.findall(
        r"^\| `([\w.]+)(?:\[\])?` \| (.*) \|$",
        PAGE.partition("\n## Settings of the operator\n")[2],
        re.MULTILINE,
    )
)
"""The rest of the row of each key, without the brackets of a list."""


def keys_of(model, defaults, group=""):
    """Each key of the settings: its group, its name and its default."""
    for field in model.model_fields.values():
        inner = next(filter(is_model, (field.annotation, *get_args(field.annotation))), None)
        default = defaults.get(field.alias)
        if inner is None:
            yield group, field.alias, default
        else:
            yield from keys_of(inner, default if isinstance(default, dict) else {}, field.alias)


def is_model(annotation):
    """Say whether it has keys of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


KEYS = list(keys_of(OperatorSettings, OperatorSettings().model_dump(mode="json", by_alias=True)))


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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_on_the_page(name):
    assert re.search(rf"^\|.*`tidegate {name}\b", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("group", "key", "default"), KEYS, ids=lambda value: str(value))
def test_every_setting_of_the_operator_is_in_its_table_with_its_default(group, key, default):
    row = SETTINGS.get(f"{group}.{key}" if group else key)
    if row is None:
        assert f"`{key}`" in SETTINGS[group]
    elif isinstance(default, bool | int | float | str):
        assert row.partition(" | ")[0] == json.dumps(default).strip('"').removesuffix(".0")


def test_the_table_has_no_other_settings():
    known = {f"{group}.{key}" if group else key for group, key, _ in KEYS}

    assert SETTINGS.keys() <= known | {group for group, _, _ in KEYS}
