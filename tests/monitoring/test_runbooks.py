"""Runbooks: one for each alert, and all that they say to type is right."""

import re
import shlex
import subprocess

import pytest
from e2e import runbook_pages
from tests.monitoring import promtool

from tidegate import cli
from tidegate.api import explain
from tidegate.api.reasons import Reason
from tidegate.core.monitoring import rules

PAGES = runbook_pages.pages()
EACH = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
DOCS = runbook_pages.FOLDER.parent
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_VARIABLE = re.compile(r"\$(\w+)|\$\((.*?)\)")


def words(command):
    """The words of a command, with every variable set to what is a name and a number alike."""
    return shlex.split(_VARIABLE.sub("20", command))


def test_each_alert_has_one_and_each_has_its_alert():
    assert {page.name for page in PAGES} == {alert.name for alert in rules.alerts()}


@EACH
def test_it_has_the_four_sections_in_order(page):
    assert page.text.startswith(f"# {page.name}\n")
    assert page.headings == ["Meaning", "Impact", "Diagnosis", "Mitigation"]
    assert all(page.section(heading).strip() for heading in page.headings)
    assert page.kinds == {"sh", "promql"}, "there is something to type and something to ask"


@EACH
def test_it_says_how_to_see_that_it_worked_and_what_a_lever_costs(page):
    mitigation = page.section("Mitigation")
    pulls = re.search(r"kubectl tidegate (shed|shift|drain|open)", mitigation)

    assert "worked when" in mitigation or page.name == "BudgetDrift", page.name
    assert not pulls or re.search(r"\b[Ii]t costs|\bcosts the\b|it costs\b", mitigation)


@EACH
def test_every_query_parses(page, tmp_path):
    wrong = promtool.wrong_queries(tmp_path, page.queries)
    assert not wrong, wrong


@pytest.mark.parametrize("file", sorted(DOCS.rglob("*.md")), ids=lambda file: file.stem)
def test_no_rate_is_over_less_than_four_scrapes_of_a_minute(file):
    """Over less there may be no two samples, and nothing reads as zero."""
    windows = re.findall(r"\[(\d+)([smhd])(?::\w*)?\]", file.read_text(encoding="utf-8"))
    seconds = [int(number) * _SECONDS[unit] for number, unit in windows]

    assert all(each >= 300 for each in seconds), windows


@EACH
def test_every_command_is_one_that_a_shell_takes(page):
    script = "\n".join(page.commands)
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert {words(line)[0] for line in page.commands} <= {"kubectl", "export"}


@EACH
def test_every_command_of_ours_is_in_the_command_line(page):
    for line in page.commands:
        if line.startswith("kubectl tidegate "):
            name, *arguments = words(line)[2:]
            command = cli.command_named(name)
            command.make_context(name, arguments)


@EACH
def test_every_variable_is_set_before_it_is_used(page):
    known = set()
    for line in page.commands:
        used = set(re.findall(r"\$\{?([A-Z]+)\}?", line))
        if line.startswith("export "):
            known |= {word.partition("=")[0] for word in shlex.split(line)[1:]}
            used -= known
        assert used <= known, line


# at three in the morning: nothing that makes it worse


@EACH
def test_no_command_takes_several_pods_at_once(page):
    """`kubectl delete -l` passes the disruption budget: all go together."""
    assert [line for line in page.commands if line.startswith("kubectl delete ")] == []


@EACH
def test_no_command_takes_a_pod_that_nobody_chose(page):
    assert [line for line in page.commands if ".items[0]" in line] == []


@EACH
def test_a_lever_takes_off_no_less_than_the_loop_does(page):
    """It takes the place of the loop's shares: a number alone may let requests in again."""
    levers = [line for line in page.commands if re.match("kubectl tidegate (shed|shift) ", line)]
    shares = [line for line in page.commands if line.startswith("export SHARE=")]

    is_no_less = re.compile(r' (\+[0-9]+|"\$SHARE"|100) ')
    assert all(is_no_less.search(line) for line in levers), levers
    assert all("{.status.overload.sh" in line for line in shares), shares
    assert shares or not any("$SHARE" in line for line in levers)


@EACH
def test_a_pool_grows_from_what_it_has(page):
    sized = [line for line in page.commands if '\\"replicas\\":' in line or '"replicas":' in line]
    read = [line for line in page.commands if ".replicas}" in line]

    assert all('\\"$POOL\\"' in line and "$REPLICAS" in line for line in sized), sized
    assert len(read) == len(sized)


@EACH
def test_logs_of_the_operator_are_of_every_replica(page):
    """By its Deployment one is picked, which need not be the one that leads."""
    assert [line for line in page.commands if "logs" in line and "deployment/" in line] == []


@EACH
def test_every_field_that_it_names_is_one(page):
    fields = set(re.findall(r"(?<![.{])\bspec\.([a-zA-Z]+(?:\.[a-zA-Z]+)*)", page.text))
    unknown = {field for field in fields if isinstance(explain.explain(field), explain.Unknown)}

    assert unknown == set()


@EACH
def test_every_reason_in_its_tables_is_one(page):
    first_cells = re.findall(r"^\| `([A-Z]\w+)` \|", page.text, re.MULTILINE)

    assert {name for name in first_cells if name not in set(Reason)} == set()
