"""docs/guides/monitoring.md tells every alert, metric of the operator, and dashboard."""

import re

from tests.monitoring import exported, promtool

from tidegate.core.monitoring import rules, scrape
from tidegate.core.monitoring.boards import boards

GUIDE = (promtool.TOP / "docs" / "guides" / "monitoring.md").read_text(encoding="utf-8")
_SUFFIX = re.compile(r"_(bucket|count|sum)$")


def test_it_tells_every_alert_with_its_severity():
    for alert in rules.alerts():
        (row,) = re.findall(rf"^\| \[{alert.name}\].*$", GUIDE, re.MULTILINE)
        assert alert.severity in row


def test_it_tells_every_metric_of_the_operator():
    told = set(re.findall(r"`(tidegate_\w+)`", GUIDE))
    missing = {_SUFFIX.sub("", name) for name in exported.of_operator()} - told

    assert missing == set()


def test_it_tells_the_labels_of_every_metric_of_the_operator():
    table = GUIDE.partition("| metric | labels | meaning |\n")[2].partition("\n\n")[0]
    told = {}
    for row in table.splitlines()[1:]:
        metrics, labels, _ = row.removeprefix("|").split("|", 2)
        told |= dict.fromkeys(re.findall(r"`(\w+)`", metrics), re.findall(r"`(\w+)`", labels))
    deployment = {"namespace", "llmdeployment"}

    assert told == {
        name: [label for label in labels if label not in deployment]
        for name, labels in exported.labels_of_operator().items()
    }


def test_it_tells_every_job_and_label():
    for job in scrape.JOBS:
        (row,) = re.findall(rf"^\| `{job.name}` .*$", GUIDE, re.MULTILINE)
        assert all(f"`{label}`" in row for label in job.labels)


def test_it_tells_every_dashboard_by_its_file():
    files = {file.stem for file in (promtool.FILES / "dashboards").glob("*.json")}

    assert files == {board.name for board in boards()}
    assert GUIDE.count("\n| fleet | ") == GUIDE.count("\n| rollout | ") == 1
