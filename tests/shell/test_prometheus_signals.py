"""A real Prometheus that scrapes engines and gates: what it tells becomes signals, or why not."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.overload.load import Load
from tidegate.core.overload.signal import Key, Signal, Signals, Unknown
from tidegate.flow.ports import Ref
from tidegate.shell.prometheus import PrometheusMetrics
from tidegate.shell.settings import Prometheus

from .prometheus_server import Exposition, PrometheusServer, Target

SCRAPE_SECONDS = 1.0
KV: Key = ("unified", Signal.KV_USAGE)
MEAN: Key = ("unified", Signal.KV_USAGE_MEAN)
BACKLOG: Key = ("unified", Signal.PREFILL_BACKLOG)


def engine(usage: object, name: str = "vllm:kv_cache_usage_perc", number: int = 1) -> str:
    """Return what an engine exports; its counters have grown `number` times."""
    labels = '{model_name="m",engine="0"}'
    return "\n".join(
        (
            f"{name}{labels} {usage}",
            f"vllm:num_requests_waiting{labels} 6",
            f"vllm:num_preemptions_total{labels} {number}",
            f"vllm:prefix_cache_queries_total{labels} {100 * number}",
            f"vllm:prefix_cache_hits_total{labels} {25 * number}",
            f"vllm:request_prefill_time_seconds_sum{labels} {number}",
            f"vllm:request_prefill_time_seconds_count{labels} {2 * number}",
            "",
        )
    )


def gate(number: int = 1, gates: int = 1) -> str:
    """Return what a gate exports; honour its own label `pod`, which is an engine's."""
    of_pod = '{pod="p1",pool="unified",revision="r1"}'
    buckets = "".join(
        f'tidegate_gate_ttft_seconds_bucket{{model="m",le="{le}"}} {count * number}\n'
        for le, count in (("0.5", 90), ("1", 100), ("+Inf", 100))
    )
    return buckets + "\n".join(
        (
            f'tidegate_gate_ttft_seconds_count{{model="m"}} {100 * number}',
            f"tidegate_gate_prefill_backlog_tokens{of_pod} 3000",
            'tidegate_gate_queued_prompt_tokens{pool="unified"} 1000',
            f"tidegate_gate_prefill_tokens_per_second{of_pod} 2000",
            f"tidegate_gate_tokens_reserved{of_pod} 500",
            f"tidegate_gate_tokens_capacity{of_pod} 1000",
            f"tidegate_gate_gates {gates}",
            f'tidegate_gate_requests_total{{model="m",outcome="finished"}} {60 * number}',
            f'tidegate_gate_admitted_total{{model="m"}} {30 * number}',
            "",
        )
    )


@dataclass
class Scene:
    """Expositions by the deployment that they are of, all scraped by one Prometheus."""

    server: PrometheusServer
    expositions: dict[str, Exposition]

    async def signals(self, skew_seconds: float = 0.0) -> dict[str, Signals]:
        metrics = PrometheusMetrics(
            self.server.url,
            Prometheus.model_validate({"scrapeInterval": "10s"}),
            lambda *told: None,
        )
        found = await metrics.signals(time.time() + skew_seconds)
        assert metrics.why_silent() is None
        self.loads, self.has_sample = metrics.loads(), metrics.has_sample
        metrics.close()
        return {ref.name: signals for ref, signals in found.items()}


ENGINES = {
    "honest": engine(0.5),
    "no-gate": engine(0.5),
    "older": engine(0.25, name="vllm:gpu_cache_usage_perc"),
    "nan": engine("NaN"),
    "infinite": engine("+Inf"),
    "percent": engine(87),
    "both-names": engine(0.5) + engine(0.9, name="vllm:gpu_cache_usage_perc").split("\n")[0] + "\n",
}
AT = {"stale": -100.0}
"""Engines that tell times of their own, in seconds from now."""


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """Prometheus after the first scrapes of one engine of each kind, and of one gate."""
    expositions = {name: Exposition(text) for name, text in ENGINES.items()}
    for name, seconds in AT.items():
        milliseconds = round(1000 * (time.time() + seconds))
        line = f'vllm:kv_cache_usage_perc{{model_name="m",engine="0"}} 0.5 {milliseconds}\n'
        expositions[name] = Exposition(line)
    expositions["gate"] = Exposition(gate())
    expositions["unasked-gate"] = Exposition(
        "".join(line for line in gate().splitlines(True) if "_total{" not in line)
    )
    for exposition in expositions.values():
        exposition.__enter__()
    targets = [
        target(name, exposition)
        for name, exposition in expositions.items()
        if name not in ("gate", "unasked-gate")
    ]
    for name in ("twice", "twice"):  # two scrape jobs' worth of targets for one pod
        targets.append(target(name, expositions["honest"], instance=f"i{len(targets)}"))
    targets.append(target("two-pods", expositions["honest"], pod="p1", instance="a"))
    targets.append(target("two-pods", expositions["older"], pod="p2", instance="b"))
    targets.append(Target("tidegate-engines", expositions["honest"].port, {"pod": "unlabelled"}))
    for gate_name, name in (("gate", "honest"), ("unasked-gate", "older")):
        labels = {"namespace": "default", "llmdeployment": name}
        targets.append(Target("tidegate-gates", expositions[gate_name].port, labels))
    try:
        with PrometheusServer(targets, SCRAPE_SECONDS) as server:
            server.wait_for_series('up{job="tidegate-engines"} == 1', len(targets) - 2)
            server.wait_for_series('up{job="tidegate-gates"} == 1', 2)
            for number in range(2, 5):  # counters grow: rates need two scrapes
                for name in ("honest", "no-gate"):
                    expositions[name].text = engine(0.5, number=number)
                expositions["gate"].text = gate(number)
                wait_for_scrapes(server, expositions["gate"], 2)
            yield Scene(server, expositions)
    finally:
        for exposition in expositions.values():
            exposition.__exit__()


def wait_for_scrapes(server: PrometheusServer, exposition: Exposition, count: int) -> None:
    enough = exposition.scrapes + count
    server.wait_for(lambda: exposition.scrapes >= enough, "more scrapes")


def target(name: str, exposition: Exposition, pod: str = "p1", **labels: str) -> Target:
    return Target(
        "tidegate-engines",
        exposition.port,
        {"namespace": "default", "llmdeployment": name, "pool": "unified", "pod": pod, **labels},
    )


async def test_an_honest_deployment_is_known_in_every_signal(scene):
    told = (await scene.signals())["honest"]

    assert told[KV].value == told[MEAN].value == 0.5
    assert abs(time.time() - told[KV].at) < 60
    assert told[BACKLOG].value == 2.0  # 3,000 tokens on the pod and 1,000 queued, at 2,000 a second
    assert told["unified", Signal.PREFIX_HIT_RATE].value == pytest.approx(0.25)
    assert told["unified", Signal.PREEMPTIONS].value > 0
    assert 0 < told["unified", Signal.TTFT].value <= 1


async def test_the_load_of_its_gates_is_known(scene):
    await scene.signals()
    load = scene.loads[Ref("default", "honest")]

    assert load.requests_per_second == pytest.approx(2 * load.admitted_per_second)
    assert load.requests_per_second > 0
    assert load == Load(load.requests_per_second, load.admitted_per_second, 500, 1000)


async def test_of_a_gate_that_was_asked_by_nobody_it_is_known_that_it_has_room(scene):
    """A counter has no series before the first request: that is none, and no gap in the data."""
    await scene.signals()

    assert scene.loads[Ref("default", "older")] == Load(0, 0, 500, 1000)


async def test_the_pods_that_were_seen_are_known(scene):
    await scene.signals()

    assert scene.has_sample(Ref("default", "two-pods"), "p2")
    assert not scene.has_sample(Ref("default", "two-pods"), "p3")
    assert not scene.has_sample(Ref("other", "two-pods"), "p2")


async def test_an_older_engine_is_known_by_its_older_name(scene):
    assert (await scene.signals())["older"][KV].value == 0.25


async def test_of_an_engine_that_exports_both_names_todays_is_taken(scene):
    assert (await scene.signals())["both-names"][KV].value == 0.5


async def test_the_fullest_of_two_pods_counts(scene):
    told = (await scene.signals())["two-pods"]

    assert (told[KV].value, told[MEAN].value) == (0.5, 0.375)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nan", Reason.METRICS_NOT_A_NUMBER),
        ("infinite", Reason.METRICS_NOT_A_NUMBER),
        ("percent", Reason.METRICS_NOT_A_NUMBER),
        ("stale", Reason.METRICS_STALE),
        ("twice", Reason.METRICS_AMBIGUOUS),
    ],
)
async def test_a_series_that_lies_is_unknown_with_its_reason(scene, name, reason):
    told = (await scene.signals())[name][KV]

    assert isinstance(told, Unknown)
    assert told.reason is reason


@pytest.mark.parametrize(("skew_seconds", "says"), [(-60, "in the future"), (90, "old, over 30 s")])
async def test_clocks_that_differ_make_samples_unknown(scene, skew_seconds, says):
    told = (await scene.signals(skew_seconds))["honest"][KV]

    assert told.reason is Reason.METRICS_STALE
    assert says in told.message


async def test_without_a_gate_the_engines_waiting_requests_tell_the_backlog(scene):
    told = (await scene.signals())["no-gate"][BACKLOG]

    assert told.value == pytest.approx(3.0)  # six requests wait, half a second each of late


async def test_series_without_our_labels_are_of_no_deployment(scene):
    assert set(await scene.signals()) == {*ENGINES, *AT, "twice", "two-pods"}


async def test_a_target_that_fails_is_not_zero(scene):
    exposition = scene.expositions["older"]
    before, exposition.text = exposition.text, None
    scene.server.wait_for_series('up{llmdeployment="older"} == 0')
    try:
        told = await scene.signals()
    finally:
        exposition.text = before

    assert "older" not in told or told["older"][KV].reason is Reason.METRICS_MISSING
