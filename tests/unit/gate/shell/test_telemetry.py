"""What is told of requests is counted, under labels that no client chooses."""

import random
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from prometheus_client import generate_latest
from tests.unit.gate.shell.documents import CONFIG, config_bytes
from tests.unit.gate.shell.finished import finished

from tidegate.api.gate_config import GateConfig
from tidegate.core.monitoring.signals import LOST
from tidegate.gate.exchange import Ask, Caller, Outcome, Pod, Surface, Why
from tidegate.gate.shell.metrics import TTFT_BOUNDS, Metrics
from tidegate.gate.shell.telemetry import Telemetry

POD = Pod("engine-1", "10.0.0.1", 8000, "unified", "aaaa", "s")
SERIES = {"model": "qwen", "revision": "aaaa"}


def ask(model="qwen") -> Ask:
    return Ask(
        request_id="r-1",
        surface=Surface.COMPLETIONS,
        model=model,
        caller=Caller("team-a", 5),
        body=b"{}",
        headers=(),
        prompt_tokens=100,
        output_limit=20,
    )


class Gate:
    """A telemetry and what it shows."""

    def __init__(self, *listeners) -> None:
        self.metrics = Metrics()
        self.telemetry = Telemetry(self.metrics, listeners)
        self.telemetry.configure(GateConfig.model_validate_json(config_bytes()))

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(f"tidegate_gate_{name}", labels)

    def series(self) -> int:
        text = generate_latest(self.metrics.registry).decode()
        return sum(not line.startswith("#") for line in text.splitlines())


@pytest.fixture
def gate():
    return Gate()


@pytest.mark.parametrize(
    ("changes", "outcome", "reason"),
    [
        ({}, "finished", ""),
        ({"outcome": None, "status": 429, "why": Why.KV_BUDGET}, "refused", "kv-budget"),
        ({"outcome": Outcome.DEADLINE, "why": Why.STALLED}, "deadline", "stalled"),
        ({"outcome": Outcome.CLIENT_GONE}, "client-gone", ""),
        ({"outcome": None, "status": 0}, "client-gone", ""),
        ({"outcome": None, "status": 200}, "answered", ""),
        ({"outcome": None, "shifted_to": "other"}, "shifted", ""),
        ({"outcome": Outcome.CLIENT_GONE, "shifted_to": "other"}, "client-gone", ""),
        (
            {"outcome": Outcome.GATE_GONE, "shifted_to": "other", "why": Why.DRAINING},
            "gate-gone",
            "draining",
        ),
        (
            {"outcome": Outcome.TOTAL_DEADLINE, "why": Why.TOTAL_DEADLINE},
            "total-deadline",
            "total-deadline",
        ),
    ],
)
def test_each_request_is_counted_by_how_it_ended(gate, changes, outcome, reason):
    gate.telemetry.finished(finished(**changes))
    gate.telemetry.finished(finished(**changes))

    labels = {"model": "qwen", "surface": "/v1/completions", "class": "5", "revision": "aaaa"}
    assert gate.value("requests_total", **labels, outcome=outcome, reason=reason) == 2
    assert gate.value("request_seconds_count", model="qwen", outcome=outcome) == 2


def test_tokens_and_the_error_of_the_estimate_come_from_what_engines_counted(gate):
    gate.telemetry.finished(finished())

    kinds = {
        kind: gate.value("tokens_total", model="qwen", kind=kind)
        for kind in ("prompt", "cached", "output")
    }
    assert kinds == {"prompt": 100, "cached": 16, "output": 20}
    assert gate.value("prompt_estimate_ratio_bucket", model="qwen", le="1.1") == 0
    assert gate.value("prompt_estimate_ratio_bucket", model="qwen", le="1.2") == 1


def test_a_request_without_usage_has_no_estimate_and_no_tokens(gate):
    gate.telemetry.finished(finished(usage=None))

    assert gate.value("prompt_estimate_ratio_count", model="qwen") == 0
    assert gate.value("tokens_total", model="qwen", kind="output") == 0


def test_names_that_clients_make_up_share_one_label(gate):
    gate.telemetry.finished(finished(model="made-up-0", surface=""))
    before = gate.series()
    for number in range(1, 100):
        gate.telemetry.finished(finished(model=f"made-up-{number}", surface=""))
        gate.telemetry.admitted(ask(f"made-up-{number}"), POD, 0.1)
        gate.telemetry.pace(ask(f"made-up-{number}"), POD, 1, 0.1)

    assert (
        gate.value(
            "requests_total",
            **{"model": "other", "surface": "other", "class": "5"},
            outcome="finished",
            reason="",
            revision="aaaa",
        )
        == 100
    )
    assert gate.series() - before < 110


def test_lumps_of_tokens_count_for_each_token(gate):
    gate.telemetry.pace(ask(), POD, 10, 0.2)
    gate.telemetry.pace(ask(), POD, 0, 0.2)

    assert gate.value("inter_token_seconds_count", **SERIES) == 10
    assert gate.value("inter_token_seconds_sum", **SERIES) == pytest.approx(0.2)


def test_seats_first_tokens_pairs_and_retries_are_counted(gate):
    gate.telemetry.admitted(ask(), POD, 0.3)
    gate.telemetry.first_token(ask(), POD.revision, 0.4)
    gate.telemetry.prefilled(POD, 0.1)
    gate.telemetry.transferred(POD, 0.05)
    gate.telemetry.retried(POD, Outcome.UNREACHABLE)
    gate.telemetry.connections(7)

    assert gate.value("admitted_total", **SERIES) == 1
    assert gate.value("queue_wait_seconds_sum", model="qwen") == 0.3
    assert gate.value("ttft_seconds_sum", **SERIES) == 0.4
    assert gate.value("prefill_step_seconds_count") == 1
    assert gate.value("transfer_wait_seconds_count") == 1
    assert gate.value("retries_total", outcome="unreachable") == 1
    assert gate.value("client_connections") == 7


def test_what_reached_no_pod_has_no_revision(gate):
    gate.telemetry.finished(finished(outcome=None, status=429, why=Why.SHED, revision=""))

    labels = {"model": "qwen", "surface": "/v1/completions", "class": "5", "reason": "shed"}
    assert gate.value("requests_total", **labels, outcome="refused", revision="") == 1


def test_revisions_are_told_apart_and_go_with_their_slices(gate):
    canary = replace(POD, revision="bbbb")
    for pod in (POD, canary):
        gate.telemetry.admitted(ask(), pod, 0.0)
        gate.telemetry.first_token(ask(), pod.revision, 0.1)
        gate.telemetry.pace(ask(), pod, 4, 0.1)
        gate.telemetry.visited(pod, Outcome.FINISHED, is_first=True, is_answered=True)
        gate.telemetry.finished(finished(revision=pod.revision))
    assert revisions(gate) == {"aaaa", "bbbb"}

    gate.telemetry.configure(GateConfig.model_validate_json(config_bytes()))
    assert revisions(gate) == {"aaaa"}
    assert gate.value("ttft_seconds_count", **SERIES) == 1

    gate.telemetry.finished(finished())
    gate.telemetry.admitted(ask(), POD, 0.0)
    assert gate.value("admitted_total", **SERIES) == 2, "what stays is counted on"


def revisions(gate):
    families = list(gate.metrics.registry.collect())
    labels = [sample.labels for family in families for sample in family.samples]
    return {told["revision"] for told in labels if told.get("revision")}


@pytest.mark.parametrize("slower", [1.1, 1.2])
@pytest.mark.parametrize("usual", [0.012, 0.025, 0.04, 0.3, 0.7])
def test_the_buckets_show_a_canary_that_is_a_little_slower(gate, usual, slower):
    """Half of a spread of 10 % around the usual time is in another bucket than before."""
    dice = random.Random(1)
    times = [usual * dice.uniform(0.9, 1.1) for _ in range(1000)]
    for name in ("inter_token", "ttft"):
        stable, canary = (getattr(gate.metrics, name).labels("qwen", r) for r in ("a", "b"))
        for seconds in times:
            stable.observe(seconds)
            canary.observe(seconds * slower)

        moved = [abs(a - b) for a, b in zip(stable.counts, canary.counts, strict=True)]
        assert sum(moved) / 2 > 300, name


def test_bounds_of_first_tokens_are_at_most_a_quarter_apart_however_long_they_take():
    bounds = [bound for bound in TTFT_BOUNDS if bound >= 0.01]

    assert (bounds[0], bounds[-1]) == (0.01, 160)
    assert all(1 < above / below <= 1.25 + 1e-9 for below, above in pairwise(bounds))


def test_listeners_hear_of_each_request_that_is_over():
    heard = []
    Gate(heard.append).telemetry.finished(finished())

    assert [request.request_id for request in heard] == ["r-1"]


def test_what_is_told_for_each_token_costs_little(gate):
    asked = ask()
    started = time.perf_counter()
    for _ in range(20_000):
        gate.telemetry.pace(asked, POD, 1, 0.02)

    assert (time.perf_counter() - started) / 20_000 < 20e-6


def ended(gate):
    """The counts by which alerts and canaries go: class, outcome, reason and revision of each."""
    [family] = [f for f in gate.metrics.registry.collect() if f.name == "tidegate_gate_ended"]
    return {
        tuple(sample.labels[name] for name in ("class", "outcome", "reason", "revision")): (
            sample.value
        )
        for sample in family.samples
    }


def test_what_may_fail_is_shown_at_zero_before_it_does():
    told = ended(Gate())

    for outcome in ("finished", *LOST.split("|")):
        assert told["other", outcome, "", "aaaa"] == told["9", outcome, "", "aaaa"] == 0
    assert told["9", "refused", "shed", ""] == told["other", "refused", "no-endpoints", ""] == 0
    assert told["other", "shifted", "", ""] == told["9", "gate-gone", "", ""] == 0


def test_what_is_shown_at_zero_is_little():
    gate = Gate()
    document = config_bytes(
        models=[f"model-{number}" for number in range(50)],
        revisions=[{"name": "aaaa", "weight": 9}, {"name": "bbbb", "weight": 1}],
    )
    gate.telemetry.configure(GateConfig.model_validate_json(document))

    assert len(ended(gate)) == 66


def test_a_request_that_is_over_is_counted_once_for_alerts_by_class_and_revision(gate):
    for _ in range(2):
        gate.telemetry.finished(finished())
    lost = {"outcome": Outcome.ENGINE_FAILED, "why": Why.ENGINE_ERROR, "priority": 9}
    gate.telemetry.finished(finished(**lost))
    away = {"outcome": None, "status": 429, "why": Why.SHED, "revision": ""}
    gate.telemetry.finished(finished(**away))
    gate.telemetry.finished(finished(**away, model="made-up", priority=None))

    assert {key: count for key, count in ended(gate).items() if count} == {
        ("other", "finished", "", "aaaa"): 2,
        ("9", "engine-failed", "", "aaaa"): 1,
        ("other", "refused", "shed", ""): 2,
    }


def test_counts_for_alerts_go_with_their_revision(gate):
    gate.telemetry.finished(finished())
    document = config_bytes(
        slices=[{**CONFIG["slices"][0], "revision": "bbbb", "name": "qwen-unified-bbbb-h100"}],
        revisions=[{"name": "bbbb", "weight": 1}],
    )
    gate.telemetry.configure(GateConfig.model_validate_json(document))

    assert {revision for *_, revision in ended(gate)} == {"", "bbbb"}


def visits(gate):
    """What pods made of requests: outcome, attempt and revision of each."""
    [family] = [f for f in gate.metrics.registry.collect() if f.name == "tidegate_gate_visits"]
    return {
        tuple(sample.labels[name] for name in ("outcome", "attempt", "revision")): sample.value
        for sample in family.samples
    }


def test_what_pods_may_make_of_requests_is_shown_at_zero_before_they_do():
    told = visits(Gate())

    assert set(told.values()) == {0}
    assert told.keys() == {
        (outcome, attempt, "aaaa")
        for outcome in (*({each.value for each in Outcome} - {"gate-gone"}), "abandoned")
        for attempt in ("first", "again")
    }


@pytest.mark.parametrize(
    ("outcome", "is_first", "is_answered", "told"),
    [
        (Outcome.FINISHED, True, True, ("finished", "first")),
        (Outcome.ENGINE_FAILED, True, False, ("engine-failed", "first")),
        (Outcome.FINISHED, False, True, ("finished", "again")),
        (Outcome.CLIENT_GONE, True, True, ("client-gone", "first")),
        (Outcome.CLIENT_GONE, True, False, ("abandoned", "first")),
        (Outcome.DEADLINE, True, False, ("deadline", "first")),
        (Outcome.TOTAL_DEADLINE, True, True, ("total-deadline", "first")),
        (Outcome.TOTAL_DEADLINE, True, False, ("abandoned", "first")),  # it hung for all that time
    ],
)
def test_each_visit_is_counted_for_the_revision_of_its_pod(
    gate, outcome, is_first, is_answered, told
):
    gate.telemetry.visited(POD, outcome, is_first=is_first, is_answered=is_answered)

    assert {key: count for key, count in visits(gate).items() if count} == {(*told, "aaaa"): 1}


def test_a_time_in_which_pods_of_two_revisions_had_the_request_is_that_of_none(gate):
    gate.telemetry.first_token(ask(), "", 4.0)

    assert gate.value("ttft_seconds_count", model="qwen", revision="") == 1
    assert gate.value("ttft_seconds_count", **SERIES) is None
