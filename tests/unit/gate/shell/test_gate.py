"""What one part of a gate learns reaches the others."""

import time

import pytest
from tests.unit.gate.shell.documents import CONFIG, config_bytes

from tidegate.gate.exchange import Outcome, Pod, Scrape
from tidegate.gate.shell.endpoints import Endpoints
from tidegate.gate.shell.gate import Gate
from tidegate.gate.shell.metrics import Metrics
from tidegate.gate.shell.pair_probe import PairProbe
from tidegate.gate.wire.probe import Probed


def pod(name, pool="unified", revision="aaaa", **more):
    slice_name = f"qwen-{pool}-{revision}-h100"
    return Pod(name, "127.0.0.1", 1, pool, revision, slice_name, **more)


class Told:
    """A source whose endpoints a test sets."""

    def __init__(self) -> None:
        self.found: Endpoints | None = None

    def endpoints(self, config):
        return self.found

    def silences(self):
        return {"endpoints": 7.0}

    async def close(self):
        pass


@pytest.fixture
async def gate():
    source = Told()
    made = Gate("chat", "qwen", Metrics(), lambda configuration, changed: source)
    yield made
    await made.close()


def value(gate, name, **labels):
    return gate.metrics.registry.get_sample_value(f"tidegate_gate_{name}", labels)


async def test_it_is_ready_with_a_configuration_and_until_it_leaves(gate):
    assert gate.why_not_ready() == "no configuration yet"
    gate.configuration.offer(config_bytes(), "file")
    assert gate.why_not_ready() is None
    gate.leave()
    assert gate.why_not_ready() == "draining"
    assert value(gate, "draining") == 1


async def test_endpoints_that_came_before_the_configuration_are_used_with_it(gate):
    gate.source.found = Endpoints({"unified": (pod("a"),)}, 2)
    gate.endpoints_changed()
    assert not gate.view().pods
    gate.configuration.offer(config_bytes(), "file")

    [seen] = gate.view().pods
    assert seen.pod.name == "a"
    assert seen.capacity_tokens < 100, "others may still hold what they had before it joined"
    idle = Scrape(time.monotonic(), kv_usage=0.0, num_gpu_blocks=513)
    gate.admissions.observe("a", idle)
    [seen] = gate.view().pods
    # 512 blocks of 16 tokens, 95 % of them, shared by two gates
    assert seen.capacity_tokens == pytest.approx(512 * 16 * 0.95 / 2, rel=0.02)
    assert value(gate, "gates") == 2


async def test_pods_that_come_and_go_do_not_keep_a_new_gate_from_its_part(gate):
    gate.configuration.offer(config_bytes(), "file")
    begun = time.monotonic()
    for second in range(31):
        others = (pod("b"),) if second % 2 else ()
        gate.source.found = Endpoints({"unified": (pod("a"), *others)}, 2)
        gate.endpoints_changed()
        gate.admissions.tick(begun + second, 0.0)

    seen = next(view for view in gate.view().pods if view.pod.name == "a")
    part = CONFIG["slices"][0]
    assert seen.capacity_tokens == pytest.approx(part["kvTokens"] * 0.95 / 2, rel=0.02)


async def test_pods_of_a_pool_that_is_no_more_are_gone(gate):
    gate.configuration.offer(config_bytes(), "file")
    gate.source.found = Endpoints({"unified": (pod("a"),)}, 1)
    gate.endpoints_changed()
    gate.source.found = Endpoints({}, 1)
    gate.endpoints_changed()

    assert not gate.view().pods


async def test_a_pod_that_is_going_is_not_probed(gate):
    gate.configuration.offer(config_bytes(), "file")
    gate.source.found = Endpoints({"unified": (pod("a", terminating=True), pod("b"))}, 1)
    gate.endpoints_changed()

    assert [found.name for found in gate.pods("unified", "aaaa")] == ["b"]
    assert gate.pods("unified", "bbbb") == []


async def test_a_configuration_that_a_part_cannot_use_is_taken_back_and_told(gate, monkeypatch):
    gate.configuration.offer(config_bytes(), "file")
    used = []

    def refuse(config):
        used.append(config.generation)
        if config.generation == 4:
            raise ValueError("no such network")

    monkeypatch.setattr(gate.reader, "configure", refuse)
    assert not gate.configuration.offer(config_bytes(generation=4), "file")

    assert used == [4, 3]
    assert gate.config().generation == 3
    assert "no such network" in gate.configuration.told().error
    assert value(gate, "config_valid") == 0
    assert value(gate, "config_generation") == 3


async def test_the_silence_of_the_api_server_is_shown(gate):
    assert value(gate, "api_silence_seconds", watch="endpoints") == 7


async def test_keys_that_cannot_be_read_leave_the_last_good_ones_and_are_never_shown(gate, caplog):
    gate.configuration.offer(config_bytes(tenants={"requireKey": True}), "file")
    await gate.take_keys(b"team-a: {key: sk-first-0123456789}\n")
    for bad in (b"team-a: [sk-second-987654321", b"\xff", b"team-a: {key: 7}\n"):
        await gate.take_keys(bad)

    assert caplog.text.count("keys refused") == 3
    assert "sk-" not in caplog.text


PAIR = {
    "services": {"prefill": "qwen-prefill", "decode": "qwen-decode"},
    "slices": [
        {**CONFIG["slices"][0], "name": f"qwen-{pool}-aaaa-h100", "pool": pool}
        for pool in ("prefill", "decode")
    ],
}


async def probe(gate, prefill="aaaa", decode="aaaa", probed=None):
    sent = []

    async def send(first, second):
        sent.append((first and first.name, second.name))
        return probed or Probed(True, "decode", Outcome.FINISHED, "", 0.25)

    return await PairProbe(gate, send).probe(prefill, decode), sent


async def test_a_probe_goes_through_a_pod_of_each_revision(gate):
    gate.configuration.offer(config_bytes(**PAIR), "file")
    found = {"prefill": (pod("p", "prefill"),), "decode": (pod("d", "decode"),)}
    gate.source.found = Endpoints(found, 1)
    gate.endpoints_changed()
    answer, sent = await probe(gate)

    assert sent == [("p", "d")]
    assert (answer["ok"], answer["prefill"], answer["decode"]) == (True, "p", "d")
    assert answer["error"] is None


async def test_a_probe_of_one_pool_takes_one_step(gate):
    gate.configuration.offer(config_bytes(), "file")
    gate.source.found = Endpoints({"unified": (pod("a"),)}, 1)
    gate.endpoints_changed()

    assert (await probe(gate))[1] == [(None, "a")]


async def test_a_probe_that_fails_says_where_and_why(gate):
    gate.configuration.offer(config_bytes(), "file")
    gate.source.found = Endpoints({"unified": (pod("a"),)}, 1)
    gate.endpoints_changed()
    failed = Probed(False, "decode", Outcome.ENGINE_FAILED, "500: no KV", 0.1)
    answer, _ = await probe(gate, probed=failed)

    assert (answer["ok"], answer["step"], answer["error"]) == (False, "decode", "500: no KV")


@pytest.mark.parametrize(
    ("config", "decode", "said"),
    [
        (None, "aaaa", "no configuration"),
        (config_bytes(), "bbbb", "no ready pod of revision bbbb"),
        (config_bytes(**PAIR), "aaaa", "pool prefill has no ready pod"),
    ],
)
async def test_a_probe_without_pods_is_a_no(gate, config, decode, said):
    if config is not None:
        gate.configuration.offer(config, "file")
    answer, sent = await probe(gate, decode=decode)

    assert not answer["ok"]
    assert said in answer["error"]
    assert sent == []
