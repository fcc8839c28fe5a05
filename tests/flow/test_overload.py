"""The slow loop: an overload becomes shares at the gates, words in status, and goes again."""

import itertools
import json
from datetime import UTC, datetime

import pytest

from tidegate.api.gate_config import GateConfig
from tidegate.api.reasons import Reason
from tidegate.core.overload.load import Load
from tidegate.core.overload.signal import Unknown
from tidegate.flow.ports import Ref

from .metrics import KV
from .world import A100, World

CHAT, OTHER = Ref("default", "chat"), Ref("default", "other")
UNREACHABLE = Unknown(Reason.METRICS_UNREACHABLE, "Prometheus gave no answer within 5 s")
UNCONFIGURED = Unknown(Reason.METRICS_UNCONFIGURED, "no Prometheus")
CALM, FULL = 0.3, 0.97


def config(world: World, name: str = "chat") -> GateConfig:
    found = world.api.objects["ConfigMap", "default", f"{name}-gate"]
    return GateConfig.model_validate_json(found["data"]["gate.json"])


def shed(world: World) -> float:
    share = config(world).shed
    return share.percent if share else 0


def loop_events(world: World) -> list[tuple[str, str]]:
    known = {str(reason) for reason in Reason if reason.value in _LOOP}
    return [(kind, reason) for kind, reason, _ in world.api.events if reason in known]


_LOOP = (
    "WithinThresholds",
    "OverThreshold",
    "LettingGo",
    "OverrideActive",
    "OverrideRefused",
    "MetricsUnreachable",
    "MetricsFresh",
    "MetricsStale",
)


async def serving(**spec) -> World:
    """Return a world whose deployment serves and whose loop has looked at it."""
    world = World()
    world.engines.is_silent = True
    world.node("a1", A100, 8)
    world.apply(**spec)
    world.metrics.tell(CALM)
    await world.run()
    await world.oversee(10)
    world.api.events.clear()
    return world


async def overloaded(**spec) -> World:
    world = await serving(**spec)
    world.metrics.tell(FULL)
    await world.oversee(120)
    assert shed(world) > 0
    return world


def until(world: World, seconds: float) -> str:
    return datetime.fromtimestamp(world.clock.wall + seconds, UTC).isoformat()


class TestAnOverload:
    async def test_becomes_a_share_at_the_gates_a_status_conditions_and_an_event(self):
        world = await serving()
        world.metrics.tell(FULL)
        await world.oversee(120)

        share, status = config(world).shed, world.status()["overload"]
        assert share.percent == status["shedPercent"] > 0
        assert share.until.timestamp() > world.clock.now()
        assert share.floor == 9
        assert status["state"] == "Overloaded"
        assert (status["signal"], status["pool"], status["value"]) == ("kvUsage", "unified", "0.97")
        assert world.condition("Overloaded")["status"] == "True"
        assert world.condition("MetricsAvailable")["status"] == "True"
        assert ("Warning", "OverThreshold") in loop_events(world)

    async def test_that_is_short_changes_nothing(self):
        world = await serving()
        writes = len(world.api.writes)
        world.metrics.tell(FULL)
        await world.oversee(5)
        world.metrics.tell(CALM)
        await world.oversee(60)

        assert len(world.api.writes) == writes

    async def test_goes_by_itself_and_each_turn_is_told_once(self):
        world = await overloaded()
        world.metrics.tell(CALM)
        await world.oversee(900)

        assert config(world).shed is None
        assert world.status()["overload"]["state"] == "Normal"
        assert world.condition("Overloaded")["status"] == "False"
        told = loop_events(world)
        assert told[0] == ("Warning", "OverThreshold")
        assert ("Normal", "LettingGo") in told
        assert told[-1] == ("Normal", "WithinThresholds")
        assert len(told) <= 4

    async def test_of_a_queue_stays_shed_while_as_many_requests_come_and_goes_with_them(self):
        world = await serving()
        world.metrics.carried[CHAT] = Load(10.0, 5.0, 0.0, 1000.0)
        world.metrics.tell(CALM, backlog=9.0)
        await world.oversee(30)
        world.metrics.tell(CALM, backlog=0.0)
        await world.oversee(300)
        held = shed(world)
        assert held > 0

        world.metrics.carried[CHAT] = Load(1.0, 1.0, 0.0, 1000.0)
        await world.oversee(300)
        assert shed(world) == 0

    async def test_is_written_again_only_to_renew_it_while_it_stays_the_same(self):
        world = await serving(overload={"shed": {"maxPercent": 30}})
        world.metrics.tell(1.0)
        await world.oversee(200)
        status, writes = world.status(), len(world.api.writes)
        before = config(world).shed
        await world.oversee(300)

        assert shed(world) == 30
        assert config(world).shed.until > before.until
        # two writes for each half of the shares' life: the gates' configuration and the status
        assert len(world.api.writes) - writes <= 2 * (
            300 / (world.settings.tick.ttl_seconds / 2) + 1
        )
        changed = {
            key
            for key, value in status["overload"].items()
            if value != world.status()["overload"][key]
        }
        assert changed <= {"until"}

    async def test_of_one_deployment_is_not_seen_at_another(self):
        world = await serving()
        world.apply("other")
        world.metrics.tell(CALM, name="other")
        await world.run()
        world.metrics.tell(FULL)
        await world.oversee(120)

        assert shed(world) > 0
        assert config(world, "other").shed is None


class TestAtRest:
    async def test_the_loop_writes_nothing_and_wakes_nobody(self):
        world = await serving()
        writes, reads = len(world.api.writes), len(world.api.reads)
        for number in range(100):
            world.metrics.tell(CALM + number / 1000)
            world.metrics.age_seconds = number % 15
            assert await world.tick() == []
            world.clock.pass_by(5)
        await world.reconcile()

        assert len(world.api.writes) == writes
        assert len(world.api.reads) == reads

    async def test_fifty_deployments_are_one_question(self):
        world = World()
        world.engines.is_silent = True
        world.node("a1", A100, 64)
        for number in range(50):
            world.apply(f"d{number}", pools={"unified": {"replicas": 1}})
            world.metrics.tell(CALM, name=f"d{number}")
        asked = world.metrics.asked
        assert len(await world.tick()) == 50

        assert world.metrics.asked == asked + 1

    async def test_a_deployment_that_cannot_be_read_stops_no_other(self):
        world = await serving()
        world.apply("other")
        await world.run()
        seen = world.memory.overload.seen
        seen.clear()
        world.metrics.values[OTHER] = {KV: "no number"}
        await world.tick()

        assert set(world.ticks_failed) == {OTHER}
        assert set(seen) == {CHAT}

    async def test_what_is_gone_is_forgotten(self):
        world = await serving()
        world.api.remove(("LLMDeployment", "default", "chat"))
        await world.tick()

        assert world.memory.overload.seen == {}
        assert world.memory.overload.specs == {}


class TestWithoutData:
    @pytest.mark.parametrize("usage", [CALM, FULL])
    async def test_shares_are_held_and_then_given_back_but_never_opened_at_once(self, usage):
        world = await serving()
        world.metrics.tell(usage)
        await world.oversee(120)
        held = shed(world)
        world.metrics.silence = UNREACHABLE
        await world.oversee(290)
        assert shed(world) == held
        condition = world.condition("MetricsAvailable")
        assert (condition["status"], condition["reason"]) == ("False", "MetricsUnreachable")
        assert ("holdFor" in condition["message"]) == (held > 0), (
            "nothing to hold, nothing said of it"
        )

        steps = []
        for _ in range(60):
            await world.oversee(10)
            steps.append(shed(world))
        assert steps[-1] == 0
        assert all(0 <= a - b <= 10 for a, b in zip([held, *steps], steps, strict=False))

    async def test_it_is_told_once_and_so_is_the_return(self):
        world = await serving()
        world.metrics.silence = UNREACHABLE
        await world.oversee(100)
        world.metrics.silence = None
        await world.oversee(100)

        assert loop_events(world) == [("Warning", "MetricsUnreachable"), ("Normal", "MetricsFresh")]

    @pytest.mark.parametrize("seconds", [5, 15, 30])
    async def test_a_scrape_or_an_answer_that_is_missed_is_no_news(self, seconds):
        world = await overloaded()
        held, writes = shed(world), len(world.api.writes)
        world.api.events.clear()
        missed = Unknown(Reason.METRICS_MISSING, "kvUsage: Prometheus has no series of it")
        world.metrics.tell(missed, missed)
        await world.oversee(seconds)
        world.metrics.silence = UNREACHABLE
        await world.oversee(5)

        assert world.condition("MetricsAvailable")["status"] == "True"
        assert (shed(world), loop_events(world)) == (held, [])
        assert len(world.api.writes) - writes <= 4, "the shares are renewed, and nothing else"

        await world.oversee(45)
        assert world.condition("MetricsAvailable")["status"] == "False"
        assert shed(world) == held, "and now they are held without data"

    @pytest.mark.parametrize(
        "reason", [Reason.METRICS_NOT_A_NUMBER, Reason.METRICS_AMBIGUOUS, Reason.METRICS_STALE]
    )
    async def test_a_series_that_lies_is_told_at_once(self, reason):
        world = await serving()
        world.metrics.tell(Unknown(reason, "it is wrong"))
        await world.oversee(5)

        condition = world.condition("MetricsAvailable")
        assert (condition["status"], condition["reason"]) == ("False", reason)

    async def test_ages_that_move_are_no_news(self):
        world = await serving()
        writes = []
        for age in range(60, 200, 5):
            stale = Unknown(Reason.METRICS_STALE, f"its sample is {age} s old, over 45 s")
            world.metrics.tell(stale)
            await world.oversee(5)
            await world.reconcile()
            writes.append(len(world.api.writes))

        assert len(set(writes)) == 1
        assert world.condition("MetricsAvailable")["reason"] == "MetricsStale"

    async def test_another_signal_that_is_lost_is_news_and_so_is_that_shares_hold(self):
        world = await serving()
        stale = Unknown(Reason.METRICS_STALE, "its sample is 47 s old")
        world.metrics.tell(stale, 0.0)
        await world.oversee(60)
        assert "kvUsage of pool unified" in world.condition("MetricsAvailable")["message"]

        world.metrics.tell(FULL, stale)
        await world.oversee(60)

        told = world.condition("MetricsAvailable")["message"]
        assert "prefillBacklog of pool unified" in told
        assert "kvUsage" not in told
        assert "shares hold for" in told

    async def test_a_pool_without_a_ready_pod_has_nothing_to_measure(self):
        world = await serving(pools={"unified": {"replicas": 0}})
        del world.metrics.values[CHAT]
        await world.oversee(30)

        assert world.condition("MetricsAvailable")["status"] == "Unknown"

    async def test_a_pod_that_is_not_scraped_may_be_the_fullest_so_its_pool_is_unknown(self):
        world = await serving()
        world.metrics.unsampled = {world.ready("unified")[0]["metadata"]["name"]}
        await world.oversee(120)

        condition = world.condition("MetricsAvailable")
        assert (condition["status"], condition["reason"]) == ("False", "MetricsMissing")
        assert "is ready and Prometheus has no sample of it" in condition["message"]

        world.metrics.tell(FULL)  # the others are over the threshold: so is the pool
        await world.oversee(60)
        assert shed(world) > 0

    async def test_a_pod_that_has_just_become_ready_was_not_scraped_yet(self):
        world = await serving()
        world.metrics.unsampled = {pod["metadata"]["name"] for pod in world.ready("unified")}
        await world.tick()

        assert world.memory.overload.seen[CHAT].metrics.status == "True"

    async def test_without_a_prometheus_the_loop_is_off_and_says_so_once(self):
        world = World()
        world.engines.is_silent = True
        world.node("a1", A100)
        world.apply()
        world.metrics.silence = UNCONFIGURED
        await world.run()
        await world.oversee(10)
        writes = len(world.api.writes)
        await world.oversee(600)

        condition = world.condition("MetricsAvailable")
        assert (condition["status"], condition["reason"]) == ("Unknown", "MetricsUnconfigured")
        assert "overload" not in world.status()
        assert len(world.api.writes) == writes


class TestALever:
    @pytest.mark.parametrize("silence", [None, UNCONFIGURED, UNREACHABLE])
    async def test_holds_with_and_without_prometheus_until_it_lapses(self, silence):
        world = await serving()
        world.metrics.silence = silence
        await world.oversee(60)
        world.api.events.clear()
        lever = {"action": "Shed", "percent": 40, "until": until(world, 300), "reason": "INC-1"}
        world.apply(overload={"override": lever})
        await world.oversee(10)

        assert shed(world) == 40
        assert config(world).shed.until.timestamp() >= world.clock.now() + 280
        status = world.status()["overload"]
        assert (status["state"], status["override"]["reason"]) == ("Override", "INC-1")
        assert ("Warning", "OverrideActive") in loop_events(world)

        await world.oversee(900)
        assert config(world).shed is None
        assert world.status().get("overload", {}).get("state", "Normal") == "Normal"
        assert [reason for _, reason in loop_events(world)].count("OverrideActive") == 1
        assert 2 <= len(loop_events(world)) <= 4

    @pytest.mark.parametrize("silence", [None, UNCONFIGURED, UNREACHABLE])
    @pytest.mark.parametrize("ends", ["lapses", "is taken away"])
    async def test_that_ends_gives_back_step_by_step_what_it_kept_out(self, silence, ends):
        world = await serving()
        world.apply("other")
        world.metrics.tell(CALM, name="other")
        await world.run()
        world.metrics.silence = silence
        await world.oversee(60)
        lever = {"action": "Shift", "percent": 80, "to": "other", "reason": "INC-1"}
        lever["until"] = until(world, 20 if ends == "lapses" else 600)
        world.apply(overload={"override": lever})
        await world.oversee(20)
        if ends == "is taken away":
            world.apply()

        shifted = [80.0]
        for _ in range(180):
            await world.oversee(5)
            share = config(world).shift
            assert share is None or (
                share.to == "other" and share.until.timestamp() > world.clock.now()
            )
            assert shed(world) == 0
            shifted.append(share.percent if share else 0)
        assert all(0 <= a - b <= 10 for a, b in itertools.pairwise(shifted))
        assert shifted[-1] == 0

    async def test_that_has_lapsed_is_given_back_step_by_step_by_another_process_too(self):
        world = await serving(overload={"shed": {"maxPercent": 20}})
        lever = {"action": "Shed", "percent": 80, "until": until(world, 20), "reason": "INC-1"}
        world.apply(overload={"shed": {"maxPercent": 20}, "override": lever})
        await world.oversee(30)
        before = shed(world)
        assert before >= 70
        for _ in range(20):
            world.restart()
            world.metrics.tell(CALM)
            await world.oversee(5)
            assert before - 10 <= shed(world) <= before
            before = shed(world)

    @pytest.mark.parametrize("silence", [None, UNCONFIGURED])
    async def test_that_shifts_to_nowhere_is_refused_and_the_loop_goes_on(self, silence):
        world = await overloaded()
        world.metrics.silence = silence
        before = shed(world)
        lever = {"action": "Shift", "percent": 20, "to": "gone", "until": until(world, 600)}
        world.apply(overload={"override": {**lever, "reason": "INC-1"}})
        await world.oversee(10)

        assert before
        assert shed(world) >= before - 10
        status = world.status()["overload"]
        assert status["summary"].startswith("override: shift refused, shed ")
        assert status["state"] == "Overloaded"
        assert "gone is not there" in status["override"]["refused"]
        assert "gone is not there" in status["message"]
        assert ("Warning", "OverrideRefused") in loop_events(world)

    async def test_open_beats_an_overload(self):
        world = await overloaded()
        lever = {"action": "Open", "until": until(world, 600), "reason": "INC-2"}
        world.apply(overload={"override": lever})
        await world.oversee(10)

        assert config(world).shed is None
        assert world.status()["overload"]["state"] == "Override"


class TestAShift:
    async def world(self, **other) -> World:
        world = await serving(overload={"shift": {"to": "other", "maxPercent": 50}})
        world.apply("other", gate={"service": {"port": 8000}}, **other)
        world.metrics.tell(CALM, name="other")
        await world.run()
        world.metrics.carried = {
            CHAT: Load(20, 18, 9000, 10_000),
            OTHER: Load(2, 2, 1000, 10_000),
        }
        world.metrics.tell(FULL)
        return world

    async def test_goes_to_the_port_of_the_others_gate_before_anything_is_shed(self):
        world = await self.world()
        await world.oversee(60)

        share = config(world).shift
        assert (share.to, share.port) == ("other", 8000)
        assert 0 < share.percent <= 50
        assert world.condition("TrafficShifted")["status"] == "True"
        assert config(world, "other").shift is None

    @pytest.mark.parametrize("of_other", [0.95, UNREACHABLE])
    async def test_goes_to_none_that_is_over_its_own_exit_or_unknown(self, of_other):
        world = await self.world()
        world.metrics.tell(of_other, name="other")
        await world.oversee(120)

        assert config(world).shift is None
        assert shed(world) > 0

    async def test_is_no_more_than_the_other_has_room_for(self):
        world = await self.world()
        # 500 tokens are held for each request a second: 1,000 are left under its exit, 2 of 20
        world.metrics.carried[OTHER] = Load(14, 14, 7000, 10_000)
        await world.oversee(10)
        await world.oversee(10)

        assert config(world).shift.percent <= 20

    async def test_goes_to_none_that_turns_requests_of_its_own_away(self):
        """It is calm for that very reason."""
        world = await self.world(overload={"actions": ["Shed"]})
        world.metrics.tell(CALM)
        world.metrics.tell(FULL, name="other")
        await world.oversee(60)
        world.metrics.tell(CALM, name="other")
        world.metrics.tell(FULL)
        await world.oversee(15)

        assert config(world, "other").shed is not None
        assert config(world).shift is None
        assert shed(world) > 0

    async def test_leaves_room_for_the_others_that_shift_there(self):
        world = await self.world()
        world.apply("third", overload={"shift": {"to": "other", "maxPercent": 50}})
        await world.run()
        # 4,000 are left, 500 for each request a second: 8 of 20, of which half are sent at once
        world.metrics.carried |= {
            OTHER: Load(8, 8, 4000, 10_000),
            Ref("default", "third"): Load(20, 18, 9000, 10_000),
        }
        world.metrics.tell(FULL, name="third")
        await world.oversee(20)

        assert [config(world, name).shift.percent for name in ("chat", "third")] == [10, 10]

    async def test_goes_to_none_without_a_gate_or_that_is_not_there(self):
        world = await self.world()
        world.apply("other", gate={"enabled": False})
        await world.run()
        await world.oversee(120)
        assert config(world).shift is None

        world.api.remove(("LLMDeployment", "default", "other"))
        await world.oversee(60)
        assert config(world).shift is None


class TestMadeAnew:
    async def test_a_deployment_of_the_same_name_begins_with_no_share_of_the_former_one(self):
        world = await overloaded()
        for key in [key for key in world.api.objects if key[0] not in _OF_THE_CLUSTER]:
            world.api.remove(key)
        world.apply()
        world.metrics.values.clear()
        await world.run()
        assert config(world).shed is None, "not before the next tick either"
        assert "overload" not in world.status()
        await world.oversee(30)

        assert config(world).shed is None
        assert world.status()["overload"]["shedPercent"] == 0

    async def test_what_was_known_of_the_former_one_is_not_known_of_it(self):
        world = await serving()
        world.api.remove(("LLMDeployment", "default", "chat"))
        world.apply()
        world.metrics.values.clear()
        await world.tick()

        assert world.memory.overload.seen[CHAT].metrics.status != "True"


_OF_THE_CLUSTER = ("Node", "CustomResourceDefinition")


class TestAnotherProcess:
    async def test_goes_on_from_what_the_status_says(self):
        world = await overloaded()
        held, writes = shed(world), len(world.api.writes)
        world.restart()
        await world.reconcile()
        assert shed(world) == held  # before its first tick
        await world.tick()
        await world.reconcile()

        assert shed(world) == held
        assert world.status()["overload"]["state"] == "Overloaded"
        assert len(world.api.writes) <= writes + 2

    async def test_ends_alike_after_a_crash_at_any_write(self):
        async def play(crash_after: int | None) -> World:
            world = await serving(overload={"shed": {"maxPercent": 30}})
            begun = len(world.api.writes)
            world.api.crash_after = crash_after
            world.metrics.tell(1.0)
            await world.oversee(200)
            assert world.api.crash_after is None, "it did crash"
            world.writes = len(world.api.writes) - begun
            return world

        def end(world: World) -> tuple[object, ...]:
            status = world.status()["overload"]
            return shed(world), status["state"], status["shedPercent"], status["signal"]

        plain = await play(None)
        for count in range(min(plain.writes, 12)):
            assert end(await play(count)) == end(plain), f"crash after write {count}"


async def test_a_gate_that_is_switched_off_leaves_no_trace_of_the_loop():
    world = await overloaded()
    world.apply(gate={"enabled": False})
    await world.oversee(10)
    await world.run()

    assert "overload" not in world.status()
    kinds = {condition["type"] for condition in world.status()["conditions"]}
    assert kinds.isdisjoint({"Overloaded", "TrafficShifted", "MetricsAvailable"})


async def test_the_configuration_names_no_number_and_no_persons_reason_to_clients():
    world = await serving()
    lever = {"action": "Shed", "percent": 40, "until": until(world, 300), "reason": "INC-1 secret"}
    world.apply(overload={"override": lever})
    await world.oversee(10)

    assert "secret" not in json.dumps(config(world).wire())
