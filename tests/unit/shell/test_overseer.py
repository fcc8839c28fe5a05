"""The slow loop's task: it ticks on whatever happens, and shows what it came to."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from tidegate.api.reasons import Reason
from tidegate.core.overload.decision import Decision, Tick, Timers
from tidegate.core.overload.signal import Sample, Signal, Unknown
from tidegate.core.status.conditions import Verdict
from tidegate.flow.memory import Memory
from tidegate.flow.overload_memory import Overseen
from tidegate.flow.ports import Ref, Settings
from tidegate.shell import prometheus
from tidegate.shell.operate import SystemClock
from tidegate.shell.overload_metrics import OverloadMetrics
from tidegate.shell.overseer import Overseer
from tidegate.shell.settings import OperatorSettings, Prometheus

CHAT = Ref("default", "chat")
LABELS = {"namespace": "default", "llmdeployment": "chat"}
FRESH = Verdict("MetricsAvailable", "True", Reason.METRICS_FRESH, "Known.")


def seen(decision: Decision | None, signals=None) -> Overseen:
    return Overseen(decision, Timers(), signals or {}, FRESH, at=100.0, uid="uid-1")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_what_holds_is_shown_and_what_is_unknown_is_absent(registry):
    shown = OverloadMetrics(registry)
    signals = {
        ("unified", Signal.KV_USAGE): Sample(0.9, 93.0),
        ("unified", Signal.PREFILL_BACKLOG): Unknown(Reason.METRICS_MISSING, "none"),
    }
    shown.tell(CHAT, seen(Decision("Overloaded", shed_percent=40), signals))

    value = registry.get_sample_value
    assert value("tidegate_overload_shed_percent", LABELS) == 40
    assert value("tidegate_overload_shift_percent", {**LABELS, "to": ""}) == 0
    assert value("tidegate_overload_state", {**LABELS, "state": "Overloaded"}) == 1
    assert value("tidegate_overload_state", {**LABELS, "state": "Normal"}) == 0
    assert value("tidegate_overload_override_active", LABELS) == 0
    age = "tidegate_overload_metric_age_seconds"
    assert value(age, {**LABELS, "pool": "unified", "signal": "kvUsage"}) == 7
    assert value(age, {**LABELS, "pool": "unified", "signal": "prefillBacklog"}) is None


def test_a_shift_that_ended_and_a_deployment_that_is_gone_leave_no_series(registry):
    shown = OverloadMetrics(registry)
    shown.tell(CHAT, seen(Decision("Overloaded", shift_percent=10, shift_to="other")))
    shown.tell(CHAT, seen(Decision()))
    to_other = {**LABELS, "to": "other"}
    assert registry.get_sample_value("tidegate_overload_shift_percent", to_other) is None

    shown.keep_only(set())
    left = [
        sample
        for family in registry.collect()
        for sample in family.samples
        if "llmdeployment" in sample.labels
    ]
    assert left == []


def test_questions_are_counted_by_name(registry):
    shown = OverloadMetrics(registry)
    shown.asked("kv", 0.01, True)
    shown.asked("kv", 5.0, False)

    query = {"query": "kv"}
    assert registry.get_sample_value("tidegate_overload_query_seconds_count", query) == 2
    assert registry.get_sample_value("tidegate_overload_query_failures_total", query) == 1


@dataclass
class NoCluster:
    """A cluster without deployments; broken for as many looks as a test says."""

    broken: int = 0
    looks: int = 0

    def refs(self) -> list[Ref]:
        self.looks += 1
        if self.looks <= self.broken:
            raise RuntimeError("a bug")
        return []


@dataclass
class Slow(prometheus.Unconfigured):
    """A Prometheus that never answers."""

    asked: list[float] = field(default_factory=list)

    async def signals(self, now: float):
        self.asked.append(now)
        await asyncio.Event().wait()


def overseer(
    cluster: NoCluster, metrics, registry: CollectorRegistry, interval_seconds: float = 0.01
) -> Overseer:
    settings = Settings(tick=Tick(interval_seconds=interval_seconds))
    shown = OverloadMetrics(registry)
    return Overseer(cluster, metrics, SystemClock(), settings, shown, lambda ref: None)


async def run_until(task: Overseer, is_so) -> None:
    running = asyncio.ensure_future(task.run(Memory()))
    try:
        async with asyncio.timeout(30):
            while not is_so():
                await asyncio.sleep(0.005)
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_a_bug_in_a_tick_is_logged_and_counted_and_the_next_tick_comes(registry, caplog):
    cluster = NoCluster(broken=2)
    await run_until(
        overseer(cluster, prometheus.Unconfigured(), registry), lambda: cluster.looks > 3
    )

    failed = registry.get_sample_value("tidegate_overload_ticks_total", {"result": "failed"})
    assert failed == 2
    assert "a tick of the overload loop failed" in caplog.text


async def test_a_prometheus_that_never_answers_keeps_only_the_ticks_waiting(registry):
    slow, cluster = Slow(), NoCluster()
    await run_until(overseer(cluster, slow, registry), lambda: bool(slow.asked))

    assert len(slow.asked) == 1
    assert cluster.looks == 0


@dataclass
class OneDeployment(NoCluster):
    """A cluster with one deployment, whose spec changes with its generation."""

    generation: int = 1

    def refs(self) -> list[Ref]:
        return [*super().refs(), CHAT]

    def deployment(self, ref: Ref):
        return {"metadata": {"uid": "u", "generation": self.generation}, "spec": {}}


async def test_a_changed_spec_is_decided_on_before_the_next_tick_is_due(registry):
    cluster = OneDeployment()
    task = overseer(cluster, prometheus.Unconfigured(), registry, interval_seconds=3600.0)
    noticed = []

    def second_look():
        if cluster.looks == 1 and not noticed:
            task.notice(CHAT)  # an event that changed nothing: status, say
            noticed.append(cluster.generation)
            cluster.generation += 1
            task.notice(CHAT)
        return cluster.looks > 1

    await run_until(task, second_look)


async def test_an_operator_without_a_prometheus_says_so_once_and_not_as_a_fault(registry, caplog):
    caplog.set_level("INFO")
    cluster = NoCluster()
    await run_until(
        overseer(cluster, prometheus.Unconfigured(), registry), lambda: cluster.looks > 5
    )

    told = [record for record in caplog.records if record.name == "tidegate.shell.overseer"]
    assert [record.levelname for record in told] == ["INFO"]
    assert "prometheus.url" in told[0].getMessage()


def test_shares_outlive_some_ticks_that_fail_and_a_restart():
    assert Prometheus().for_tick() == Tick(5.0, 15.0, ttl_seconds=60.0)
    slow = Prometheus.model_validate({"tick": "30s", "timeout": "10s", "scrapeInterval": "60s"})
    assert slow.for_tick() == Tick(30.0, 60.0, ttl_seconds=160.0)


def test_an_operator_without_an_address_asks_nobody():
    port = prometheus.make(OperatorSettings().prometheus, lambda *told: None)

    assert port.why_silent().reason is Reason.METRICS_UNCONFIGURED
