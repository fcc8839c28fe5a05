"""What gates are told: the plan's numbers, and each revision's share."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.api.gate_config import GateConfig, SliceConfig
from tidegate.core import gate_config, names
from tidegate.core.budget.groups import Group
from tidegate.core.budget.reach import AllTokens, Chunk, States, Window
from tidegate.core.gate_config import Around

from .render import deployments

TOKENS = st.integers(1, 2**20)
REACHES = st.one_of(
    st.builds(AllTokens, st.integers(1, 16)),
    st.builds(Window, window=st.integers(1, 2**15), in_flight=TOKENS, retained=st.integers(0, 64)),
    st.builds(Chunk, chunk=TOKENS, in_flight=TOKENS),
    st.builds(States, count=st.integers(1, 8)),
)


def counted(told, tokens: int) -> int:
    """Count as `KVGroup` says: `ceil(min(tokens, cap) / block) + extra`."""
    capped = tokens if told.cap_tokens is None else min(tokens, told.cap_tokens)
    return -(-capped // told.block_tokens) + told.extra_blocks


@given(reach=REACHES, block_size=st.integers(1, 2**12), tokens=st.lists(TOKENS, min_size=1))
def test_a_gate_counts_the_blocks_of_a_request_as_the_plan_does(reach, block_size, tokens):
    group = Group(block_size, (1,), reach)
    told = gate_config.of_group(group)

    for length in tokens:
        assert counted(told, length) == group.blocks_of(length)


def made(asked=None, around=None, **config) -> GateConfig:
    asked = asked or deployments.spec()
    plan = deployments.plan(asked, **config)
    return gate_config.make("chat", "qwen", asked, plan, around or Around())


def a_slice(revision="old", pool="unified") -> SliceConfig:
    (own, *_) = made().slices
    name = names.slice_name("qwen", pool, revision, "h100")
    return own.model_copy(update={"name": name, "pool": pool, "revision": revision})


def test_a_slice_is_told_with_the_null_block_left_out_and_by_the_name_of_its_pods():
    (told,) = made(max_num_seqs=12).slices

    assert told.kv_blocks == 1000
    assert told.max_num_seqs == 12
    (deployment,) = deployments.of_kind(deployments.rendered(deployments.spec()), "Deployment")
    assert told.name == deployment["metadata"]["name"]
    assert gate_config.decode(deployment["metadata"]["annotations"]).kv_blocks == told.kv_blocks


@pytest.mark.parametrize("speed", [None, 15200.0])
def test_a_slice_is_told_with_the_plans_estimate_of_its_prefill(speed):
    entry = deployments.slice_plan(deployments.spec(), "unified")
    told = gate_config.of_slice("qwen", "r1", replace(entry, prefill_tokens_per_second=speed))

    assert told.prefill_tokens_per_second == speed
    assert ("prefillTokensPerSecond" in told.wire()) is (speed is not None)


def test_what_the_user_says_of_the_gate_reaches_it():
    told = made(
        deployments.spec(
            model={"servedNames": ["a", "b"]},
            slo={"timeToFirstToken": "1s"},
            gate={
                "maxQueue": 7,
                "queueTimeout": "250ms",
                "limits": {"body": "1Mi", "headers": "4Ki", "choices": 2, "prompts": 3},
                "deadlines": {"firstToken": "9s"},
                "headroom": 0.8,
                "keysSecretRef": {"name": "keys", "key": "k"},
                "requireKey": True,
                "defaultPriority": 3,
                "trustedPeers": ["10.0.0.0/8"],
                "tenantTokensInFlight": 1000,
            },
        )
    )

    assert told.models == ["a", "b"]
    assert told.slo.time_to_first_token == 1
    assert (told.limits.max_queue, told.limits.queue_timeout) == (7, 0.25)
    assert (told.limits.body_bytes, told.limits.header_bytes) == (2**20, 4096)
    assert (told.limits.choices, told.limits.prompts) == (2, 3)
    assert told.limits.tenant_tokens_in_flight == 1000
    assert (told.deadlines.first_token, told.deadlines.connect) == (9, 2)
    assert told.headroom == 0.8
    assert told.tenants.require_key
    assert told.tenants.default_priority == 3
    assert told.tenants.trusted_peers == ["10.0.0.0/8"]


def test_a_model_without_a_served_name_is_called_as_the_engine_calls_it():
    assert made().models == ["org/model"]


def test_the_document_is_read_by_the_gate_as_it_was_meant():
    told = made(deployments.pair(), Around(generation=4))

    assert GateConfig.model_validate_json(gate_config.text(told)) == told
    assert told.generation == 4
    assert told.services == {"prefill": "qwen-prefill", "decode": "qwen-decode"}
    assert told.gate_service == "qwen"


def test_slices_of_before_stay_until_they_are_gone_with_their_own_numbers():
    old = a_slice().model_copy(update={"kv_blocks": 17})
    told = made(deployments.pair(), Around(others=(old,)))

    assert [entry.revision for entry in told.slices] == [deployments.REVISION] * 2 + ["old"]
    assert told.slices[-1].kv_blocks == 17


NEW = deployments.REVISION


@pytest.mark.parametrize(
    ("ready", "pools", "serving"),
    [
        ({}, {"prefill", "decode"}, {NEW, "old"}),
        ({("unified", "old"): 2}, {"unified"}, {"old"}),
        ({("unified", "old"): 2, ("prefill", NEW): 1}, {"unified"}, {"old"}),
        (
            {("unified", "old"): 2, ("prefill", NEW): 1, ("decode", NEW): 1},
            {"prefill", "decode"},
            {NEW},
        ),
        ({("prefill", NEW): 1, ("decode", NEW): 1}, {"prefill", "decode"}, {NEW}),
        ({("decode", NEW): 1}, {"prefill", "decode"}, {NEW, "old"}),
    ],
)
def test_one_mode_becomes_the_other_when_the_new_one_can_serve(ready, pools, serving):
    told = made(deployments.pair(), Around(others=(a_slice(),), ready=ready))

    assert set(told.services) == pools
    assert {entry.name for entry in told.revisions if entry.weight} == serving


@pytest.mark.parametrize(
    ("ready", "weights"),
    [
        ({}, {"new": 500, "old": 500}),
        ({("unified", "old"): 4}, {"new": 0, "old": 1000}),
        ({("unified", "old"): 3, ("unified", "new"): 1}, {"new": 250, "old": 750}),
        ({("unified", "new"): 2}, {"new": 1000, "old": 0}),
        ({("decode", "new"): 2, ("unified", "old"): 1}, {"new": 0, "old": 1000}),
        (
            {("decode", "new"): 1, ("prefill", "new"): 3, ("unified", "old"): 1},
            {"new": 500, "old": 500},
        ),
        ({("unified", "old"): 100_000, ("unified", "new"): 1}, {"new": 1, "old": 1000}),
    ],
)
def test_a_revision_has_the_share_of_its_ready_pods_that_answer(ready, weights):
    told = gate_config.weights("new", [a_slice("new"), a_slice("old")], ready, {})

    assert {entry.name: entry.weight for entry in told} == weights
    assert told[0].name == "new"


def test_one_revision_has_all_whether_or_not_a_pod_is_ready():
    for ready in ({}, {("unified", "new"): 3}):
        told = gate_config.weights("new", [a_slice("new")], ready, {})
        assert [(entry.name, entry.weight) for entry in told] == [("new", 1000)]


def test_a_deployment_of_before_gates_has_no_part_and_a_broken_one_is_left_out():
    good = gate_config.encode(a_slice())

    found = gate_config.of_others([{}, {"tidegate.io/gate": "{"}, {"tidegate.io/gate": good}])

    assert found == (a_slice(),)
    assert json.loads(good)["revision"] == "old"
