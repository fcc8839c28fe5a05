"""Failures that come at once are seen, though a gate or a revision had none before.

The series are those that a gate really shows at each scrape: before the burst, and after it.
"""

import json

import pytest
from prometheus_client import CollectorRegistry
from tests.monitoring import promtool
from tests.monitoring.alert_cases import OF, OPERATOR, objective
from tests.unit.gate.shell.documents import CONFIG, config_bytes
from tests.unit.gate.shell.finished import finished
from tests.unit.shell.test_webhook_server import review

from tidegate.api.gate_config import GateConfig
from tidegate.core.canary import questions
from tidegate.core.monitoring import objectives
from tidegate.gate.exchange import Outcome, Pod, Why
from tidegate.gate.shell.metrics import Metrics
from tidegate.gate.shell.telemetry import Telemetry
from tidegate.shell.admission import verdict, wire
from tidegate.shell.admission.metrics import AdmissionMetrics

BEFORE, AFTER = 20, 40
"""Scrapes, one a minute, before the burst and after it."""


def lost(**changes):
    """A stream that an engine's crash has ended."""
    return finished(outcome=Outcome.ENGINE_FAILED, why=Why.ENGINE_ERROR, usage=None, **changes)


def refused(why, **changes):
    """A request that the gate has turned away."""
    return finished(outcome=None, why=why, status=429, revision="", usage=None, **changes)


def shown(registry, prefix, target):
    """What a page has of our own metrics, by series; `target` is what a scrape adds."""
    page = {}
    for family in registry.collect():
        for sample in family.samples:
            if sample.name.startswith(prefix):
                labels = "".join(f',{key}="{text}"' for key, text in sample.labels.items())
                page[f"{sample.name}{{{target}{labels}}}"] = sample.value
    return page


def scraped(before, after):
    """All series, promtool's way."""
    return {
        name: f"{before.get(name, '_')}x{BEFORE} {value}x{AFTER}" for name, value in after.items()
    }


class ScrapedGate:
    """A gate as Prometheus sees it."""

    def __init__(self, instance, *revisions):
        self.instance = instance
        self.metrics = Metrics()
        self.telemetry = Telemetry(self.metrics)
        slices = [
            {**CONFIG["slices"][0], "revision": name, "name": f"unified-{name}-h100"}
            for name in revisions
        ]
        weights = [{"name": name, "weight": 1} for name in revisions]
        config = config_bytes(slices=slices, revisions=weights)
        self.telemetry.configure(GateConfig.model_validate_json(config))

    def page(self):
        """What a scrape gets, by series."""
        own = f'job="tidegate-gates",{OF},instance="{self.instance}"'
        return shown(self.metrics.registry, "tidegate_gate_", own)

    def series(self, *burst):
        """All series, promtool's way: the burst comes between two scrapes, and nothing more."""
        before = self.page()
        for request in burst:
            self.telemetry.finished(request)
            if request.outcome is not None:
                pod = Pod(request.pod, "10.0.0.1", 8000, "unified", request.revision, "s")
                self.telemetry.visited(pod, request.outcome, is_first=True, is_answered=True)
        return scraped(before, self.page())


def wrong(alert, series, folder, *, fires=True):
    """Try an alert some minutes after the burst; return what is not as it should be."""
    test = {
        "interval": "1m",
        "input_series": [{"series": key, "values": text} for key, text in series.items()],
        "promql_expr_test": [
            {
                "expr": f'sgn(count(ALERTS{{alertname="{alert}",alertstate="firing"}}))',
                "eval_time": "26m",
                "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
            }
        ],
    }
    return promtool.failures(folder, alert, {"evaluation_interval": "1m", "tests": [test]})


@pytest.mark.parametrize("alert", ["SurvivalLow", "AvailabilityBurn"])
def test_an_engine_that_crashes_with_all_its_streams_is_seen_by_gates_that_are_new(alert, tmp_path):
    series = {}
    for instance in ("gate-1", "gate-2"):
        series |= ScrapedGate(instance, "aaaa").series(*[lost()] * 100)

    assert not wrong(alert, series, tmp_path)


@pytest.mark.parametrize("alert", ["SurvivalLow", "AvailabilityBurn"])
def test_a_new_revision_that_loses_its_first_streams_is_seen(alert, tmp_path):
    gate = ScrapedGate("gate-1", "aaaa", "bbbb")
    for _ in range(50):
        gate.telemetry.finished(finished())

    assert not wrong(alert, gate.series(*[lost(revision="bbbb")] * 60), tmp_path)


@pytest.mark.parametrize("why", objectives.FAULT_REASONS.split("|"))
def test_the_first_requests_that_find_no_service_are_seen(why, tmp_path):
    series = ScrapedGate("gate-1", "aaaa").series(*[refused(Why(why))] * 40)

    assert not wrong("AvailabilityBurn", series, tmp_path)


def test_requests_that_come_before_any_configuration_are_seen(tmp_path):
    gate = ScrapedGate("gate-1", "aaaa")
    gate.telemetry = Telemetry(gate.metrics)  # as a gate that is told nothing
    series = gate.series(*[refused(Why.NO_CONFIGURATION, model="", priority=None)] * 40)

    assert not wrong("AvailabilityBurn", series, tmp_path)


@pytest.mark.parametrize("why", objectives.LOAD_REASONS.split("|"))
def test_the_first_requests_of_the_top_class_that_are_turned_away_are_seen(why, tmp_path):
    series = ScrapedGate("gate-1", "aaaa").series(*[refused(Why(why), priority=9)] * 40)

    assert not wrong("SheddingTopClass", series, tmp_path)
    assert not wrong("AvailabilityBurn", series, tmp_path, fires=False)


def test_classes_below_the_top_are_shed_without_an_alert(tmp_path):
    series = ScrapedGate("gate-1", "aaaa").series(*[refused(Why.SHED, priority=8)] * 40)

    assert not wrong("SheddingTopClass", series, tmp_path, fires=False)


def test_a_canary_answers_for_its_first_requests(tmp_path):
    gate = ScrapedGate("gate-1", "aaaa", "bbbb")
    served = finished(revision="bbbb")
    series = gate.series(*[lost(revision="bbbb")] * 7, *[served] * 3)
    [asked] = [
        question.promql
        for question in questions.of("chat", "qwen", ("bbbb", "aaaa"), 300)
        if question.family == "requests"
    ]
    expected = {"engine-failed": 7, "finished": 3}

    test = {
        "interval": "1m",
        "input_series": [{"series": key, "values": text} for key, text in series.items()],
        "promql_expr_test": [
            {
                "expr": f"round({asked}) > 0",
                "eval_time": "23m",
                "exp_samples": [
                    {"labels": f'{{revision="bbbb",outcome="{outcome}"}}', "value": count}
                    for outcome, count in expected.items()
                ],
            }
        ],
    }
    failed = promtool.failures(tmp_path, "SurvivalLow", {"tests": [test]})
    assert not failed, failed


def test_first_tokens_that_meet_an_objective_of_half_a_minute_page_nobody(tmp_path):
    gate = ScrapedGate("gate-1", "aaaa")
    first = {}
    for _ in range(100):
        gate.metrics.ttft.labels("qwen", "aaaa").observe(21)
    for name, count in gate.page().items():
        if "ttft_seconds" in name:
            first[name] = f"0+{count}x100"

    for seconds, fires in ((30, False), (19, True)):
        series = first | objective("ttft", seconds)
        failed = wrong("TTFTBurn", series, tmp_path, fires=fires)
        assert not failed, failed


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_the_first_reviews_without_a_verdict_of_a_webhook_are_seen(operation, tmp_path):
    registry = CollectorRegistry()
    metrics = AdmissionMetrics(registry)
    metrics.serving.set(1)
    before = shown(registry, "tidegate_", OPERATOR)
    request = wire.read(json.dumps(review(operation=operation, oldObject=review())).encode())
    answer = verdict.failed(request, "a fault")
    metrics.admissions.labels(operation, answer.verdict, answer.reason).inc(4)
    after = shown(registry, "tidegate_", OPERATOR)

    failed = wrong("WebhookDown", scraped(before, after), tmp_path)
    assert not failed, failed
    quiet = wrong("WebhookDown", scraped(before, before), tmp_path, fires=False)
    assert not quiet, quiet
