"""`tidegate runbook` prints what the repository's runbooks say, and helps with a name."""

from pathlib import Path

import pytest

from tidegate import assets

FOLDER = Path(__file__).parents[3] / "docs" / "runbooks"
ALERTS = sorted(file.stem for file in FOLDER.glob("*.md"))


def test_without_a_name_it_lists_every_runbook(tidegate):
    assert tidegate("runbook") == (0, "".join(f"{name}\n" for name in ALERTS), "")


def test_a_name_gives_the_runbook_in_any_case_of_letters(tidegate):
    code, out, _ = tidegate("runbook", ALERTS[0].lower())

    assert (code, out) == (0, (FOLDER / f"{ALERTS[0]}.md").read_text(encoding="utf-8"))


def test_a_name_that_is_nearly_right_gets_the_right_one(tidegate):
    code, out, errors = tidegate("runbook", ALERTS[0][:-1])

    assert (code, out) == (1, "")
    assert f"did you mean {ALERTS[0]}" in errors


@pytest.mark.parametrize("name", ["Nonsense", "../reference/cli", "..", "/etc/passwd"])
def test_what_is_no_alert_opens_no_file(tidegate, name):
    code, out, errors = tidegate("runbook", name)

    assert (code, out) == (1, "")
    assert "there is no runbook for" in errors
    assert "tidegate runbook lists those there are" in errors, "and nothing far-fetched"


def test_the_package_ships_them():
    assert assets.runbooks() == ALERTS
