"""What the engine is told: everything that the plan depends on, spelled for its version."""

import dataclasses
import json

import pytest

from tidegate.api.quantities import parse_bytes
from tidegate.api.reasons import Reason
from tidegate.core.render import flags
from tidegate.core.render.ownership import FIELDS, RESERVED
from tidegate.errors import Refused
from tidegate.facts import engines

from . import deployments
from .deployments import arguments, flag_values


def test_every_flag_that_the_plan_depends_on_is_written_out():
    told = flag_values(deployments.spec(kvCache={"skipLayers": [3, 1]}))

    assert told == {
        "--block-size": "16",
        "--dtype": "auto",
        "--enable-chunked-prefill": "",
        "--enable-prefix-caching": "",
        "--gpu-memory-utilization": "0.9",
        "--kv-cache-dtype": "auto",
        "--kv-cache-dtype-skip-layers": "",  # its values are arguments of their own
        "--max-model-len": "2048",
        "--max-num-batched-tokens": "4096",
        "--max-num-seqs": "64",
        "--no-enforce-eager": "",
        "--pipeline-parallel-size": "1",
        "--port": "8000",
        "--served-model-name": "",
        "--shutdown-timeout": "300",
        "--tensor-parallel-size": "1",
    }


@pytest.mark.parametrize(
    ("parts", "flag", "value"),
    [
        ({"engine": {"chunkedPrefill": False}}, "--no-enable-chunked-prefill", ""),
        ({"engine": {"prefixCaching": False}}, "--no-enable-prefix-caching", ""),
        ({"engine": {"enforceEager": True}}, "--enforce-eager", ""),
        ({"engine": {"attentionBackend": "FLASH_ATTN"}}, "--attention-backend", "FLASH_ATTN"),
        (
            {"engine": {"longPrefillTokenThreshold": 512}},
            "--long-prefill-token-threshold",
            "512",
        ),
        ({"model": {"revision": "v1.0"}}, "--revision", "v1.0"),
        ({"model": {"weights": {"dtype": "bfloat16"}}}, "--dtype", "bfloat16"),
        ({"model": {"weights": {"quantization": "fp8"}}}, "--quantization", "fp8"),
        ({"budget": {"kvCache": "40Gi"}}, "--kv-cache-memory-bytes", str(40 * 2**30)),
        ({"pools": {"unified": {"tensorParallel": 4}}}, "--tensor-parallel-size", "4"),
        ({"pools": {"unified": {"pipelineParallel": 2}}}, "--pipeline-parallel-size", "2"),
    ],
)
def test_what_a_field_says_reaches_the_engine(parts, flag, value):
    assert flag_values(deployments.spec(**parts))[flag] == value


def test_an_explicit_kv_cache_stands_beside_the_share_that_must_be_free_at_the_start():
    told = flag_values(deployments.spec(budget={"kvCache": "8Mi"}))

    assert told["--kv-cache-memory-bytes"] == str(8 * 2**20)
    assert told["--gpu-memory-utilization"] == "0.9"


def test_flags_stand_in_the_order_of_their_names_after_the_model():
    model, *told = arguments(deployments.spec())

    names = [entry.partition("=")[0] for entry in told if entry.startswith("--")]
    assert model == "org/model"
    assert names == sorted(names, key=lambda name: name.replace("--no-", "--"))


def test_all_served_names_are_given_and_the_id_stands_in_for_none():
    def served(asked):
        told = arguments(asked)
        start = told.index("--served-model-name") + 1
        return [entry for entry in told[start:] if not entry.startswith("--")]

    assert served(deployments.spec(model={"servedNames": ["a", "b c"]})) == ["a", "b c"]
    assert served(deployments.spec()) == ["org/model"]


def test_a_model_on_a_claim_is_loaded_from_its_folder_by_both_pools():
    source = {"persistentVolumeClaim": {"claimName": "models", "path": "qwen/32b"}}
    asked = deployments.pair(model={"source": source})

    assert {arguments(asked, pool)[0] for pool in ("prefill", "decode")} == {"/models/qwen/32b"}


def test_a_pair_has_its_roles_its_lease_and_one_failure_policy():
    asked = deployments.pair(kvCache={"transfer": {"lease": "60s", "failurePolicy": "fail"}})

    for pool, role in (("prefill", "kv_producer"), ("decode", "kv_consumer")):
        assert json.loads(flag_values(asked, pool)["--kv-transfer-config"]) == {
            "kv_connector": "NixlConnector",
            "kv_role": role,
            "kv_load_failure_policy": "fail",
            "kv_connector_extra_config": {"kv_lease_duration": 60},
        }


def test_a_pair_is_told_the_same_save_its_role_and_how_it_ends():
    asked = deployments.pair()

    prefill, decode = (set(arguments(asked, pool)) for pool in ("prefill", "decode"))
    assert {entry.partition("=")[0] for entry in prefill ^ decode} == {
        "--kv-transfer-config",
        "--shutdown-timeout",
    }


def test_a_unified_pool_moves_no_kv():
    assert "--kv-transfer-config" not in flag_values(deployments.spec())


@pytest.mark.parametrize(
    ("asked", "config"),
    [
        ({"method": "ngram", "tokens": 3}, {"method": "ngram", "num_speculative_tokens": 3}),
        (
            {"method": "eagle3", "tokens": 2, "model": "org/draft"},
            {"method": "eagle3", "num_speculative_tokens": 2, "model": "org/draft"},
        ),
    ],
)
def test_speculation_is_configured(asked, config):
    told = flag_values(deployments.spec(engine={"speculative": asked}))

    assert json.loads(told["--speculative-config"]) == config


def test_extra_arguments_come_last_and_in_full():
    told = arguments(deployments.spec(engine={"extraArgs": ["--enable_auto", "--seed", "7"]}))

    assert told[-2:] == ["--enable-auto-tool-choice", "--seed=7"]


@pytest.fixture
def older_engine():
    """A version that knows neither a draining shutdown nor a way to turn prefix caching off."""
    engine = engines.engine(deployments.VERSION)
    known = dict(engine.flags)
    del known["--long-prefill-token-threshold"]
    known["--enable-prefix-caching"] = dataclasses.replace(
        known["--enable-prefix-caching"], negatives=()
    )
    return dataclasses.replace(engine, flags=known)


@pytest.mark.parametrize(
    ("engine", "config", "field"),
    [
        (
            {"longPrefillTokenThreshold": 9},
            {},
            "spec.engine.longPrefillTokenThreshold",
        ),
        ({"prefixCaching": False}, {}, "spec.engine.prefixCaching"),
        ({}, {"kv_cache_dtype": "fp7"}, "spec.kvCache.dtype"),
    ],
)
def test_what_the_version_lacks_is_refused_with_the_field(older_engine, engine, config, field):
    asked = deployments.spec(engine=engine)

    with pytest.raises(Refused) as caught:
        flags.make(asked, deployments.slice_plan(asked, "unified", **config), older_engine)

    assert caught.value.reason == Reason.FLAG_UNSUPPORTED
    assert caught.value.field == field
    assert deployments.VERSION in caught.value.message


@pytest.mark.parametrize("version", engines.versions())
def test_every_known_version_takes_what_is_written(version):
    asked = deployments.pair(
        engine={"speculative": {"method": "ngram", "tokens": 3}, "attentionBackend": "FLASH_ATTN"},
        model={"revision": "main", "weights": {"quantization": "fp8"}},
        kvCache={"skipLayers": [0]},
    )
    engine = engines.engine(version)

    told = flags.make(asked, deployments.slice_plan(asked, "decode"), engine)

    for name in (entry.partition("=")[0] for entry in told if entry.startswith("--")):
        assert name in engine.spellings
        owned = engine.spellings[name].name
        assert owned in FIELDS or owned in RESERVED, f"a user could override {owned}"


@pytest.mark.parametrize(("cpu", "gib"), [("64Gi", "64"), ("1536Mi", "1.5"), ("3G", "2.7939677")])
def test_offload_of_a_unified_pool_is_told_in_gib(cpu, gib):
    told = flag_values(deployments.spec(kvCache={"offload": {"cpu": cpu}}))

    assert told["--kv-offloading-size"].startswith(gib)
    assert int(float(told["--kv-offloading-size"]) * 2**30) == parse_bytes(cpu)
    assert "--kv-transfer-config" not in told


@pytest.mark.parametrize(("pool", "role"), [("prefill", "kv_producer"), ("decode", "kv_consumer")])
def test_offload_beside_a_transfer_does_not_take_its_place(pool, role):
    asked = deployments.pair(kvCache={"offload": {"cpu": "8Gi"}, "transfer": {"lease": "60s"}})
    told = flag_values(asked, pool)
    config = json.loads(told["--kv-transfer-config"])
    handing_over, offloading = config["kv_connector_extra_config"]["connectors"]

    assert "--kv-offloading-size" not in told
    assert (config["kv_connector"], config["kv_role"]) == ("MultiConnector", "kv_both")
    assert config["kv_load_failure_policy"] == "recompute"
    alone = flag_values(deployments.pair(kvCache={"transfer": {"lease": "60s"}}), pool)
    assert handing_over == json.loads(alone["--kv-transfer-config"])
    assert handing_over["kv_role"] == role
    assert offloading["kv_connector"] == "OffloadingConnector"
    assert offloading["kv_connector_extra_config"] == {"cpu_bytes_to_use": 8 * 2**30}
