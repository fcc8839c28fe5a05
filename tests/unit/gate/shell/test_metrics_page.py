"""docs/reference/gate-metrics.md names every metric, and no other."""

import re
from pathlib import Path

from tests.unit.gate.shell.finished import finished

from tidegate.gate.exchange import Outcome
from tidegate.gate.shell.endpoints import Endpoints
from tidegate.gate.shell.gate import Gate
from tidegate.gate.shell.metrics import Metrics
from tidegate.gate.shell.telemetry import outcome_of

PAGE = (Path(__file__).parents[4] / "docs/reference/gate-metrics.md").read_text(encoding="utf-8")


class Silent:
    """A source that has nothing to tell."""

    def endpoints(self, config):
        return Endpoints({}, 1)

    def silences(self):
        return {}


def test_every_metric_is_on_the_page_and_the_page_names_no_other():
    gate = Gate("chat", "qwen", Metrics(), lambda configuration, changed: Silent())
    exported = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in gate.metrics.registry.collect()
        if family.name.startswith("tidegate_")
    }
    told = set(re.findall(r"`(tidegate_gate_\w+)`", PAGE))

    assert told == exported


def test_every_outcome_is_on_the_page():
    ends = {outcome.value for outcome in Outcome}
    ends |= {
        outcome_of(finished(outcome=None)),
        outcome_of(finished(outcome=None, why="shed")),
        outcome_of(finished(outcome=None, shifted_to="other")),
    }
    assert all(f"`{end}`" in PAGE for end in ends)
