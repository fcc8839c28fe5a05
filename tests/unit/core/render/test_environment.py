"""The container's environment: what Tidegate sets, and what a user may add."""

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.render import environment, timing
from tidegate.errors import Refused

from . import deployments


def _variables(asked, pool="unified"):
    return {entry["name"]: entry for entry in environment.make(asked, pool)}


def test_every_cache_lies_in_the_folder_that_can_be_written():
    fixed = {n: e["value"] for n, e in _variables(deployments.spec()).items() if "value" in e}

    caches = ("HOME", "HF_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    for name in (*caches, "XDG_CACHE_HOME"):
        assert fixed[name].startswith("/cache")


def test_the_engine_waits_for_its_workers_as_long_as_kubernetes_waits_for_the_engine():
    found = _variables(deployments.spec())["VLLM_ENGINE_READY_TIMEOUT_S"]

    assert int(found["value"]) == timing.STARTUP_SECONDS


def test_a_pair_talks_over_the_pods_own_address_and_a_unified_pool_has_no_side_channel():
    address = {"fieldRef": {"fieldPath": "status.podIP"}}

    for pool in ("prefill", "decode"):
        found = _variables(deployments.pair(), pool)
        assert found["VLLM_NIXL_SIDE_CHANNEL_HOST"]["valueFrom"] == address
        assert found["VLLM_NIXL_SIDE_CHANNEL_PORT"]["value"] == "5600"
    unified = _variables(deployments.spec())
    assert unified["VLLM_HOST_IP"]["valueFrom"] == address
    assert not any("NIXL" in name for name in unified)


def test_the_hub_token_comes_from_its_secret_and_never_as_text():
    source = {"huggingFace": {"tokenSecretRef": {"name": "hub", "key": "token"}}}

    found = _variables(deployments.spec(model={"source": source}))["HF_TOKEN"]

    assert found == {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
    }


@pytest.mark.parametrize(
    "name",
    [
        "OMP_NUM_THREADS",
        "UCX_TLS",
        "NCCL_DEBUG",
        "VLLM_LOGGING_LEVEL",
        "DOUBLE_FAIL",
        "HTTPS_PROXY",
    ],
)
def test_what_only_tunes_the_engine_is_the_users_own(name):
    asked = deployments.spec(engine={"env": [{"name": name, "value": "x"}]})

    assert environment.make(asked, "unified")[-1] == {"name": name, "value": "x"}


def test_a_users_variable_may_come_from_a_secret():
    reference = {"name": "s", "key": "k"}
    asked = deployments.spec(engine={"env": [{"name": "A", "secretKeyRef": reference}]})

    assert _variables(asked)["A"]["valueFrom"] == {"secretKeyRef": reference}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("HF_HOME", "/cache/huggingface"),
        ("HOME", "/cache"),
        ("HF_TOKEN", "tokenSecretRef"),
        ("VLLM_CPU_KVCACHE_SPACE", "budget.kvCache"),
        ("VLLM_PORT", "8000"),
        ("VLLM_NIXL_SIDE_CHANNEL_PORT", "kvCache.transfer"),
        ("VLLM_KV_CACHE_LAYOUT", "layout"),
        ("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "limit"),
        ("VLLM_SERVER_DEV_MODE", "endpoints"),
        ("LD_PRELOAD", "image"),
        ("GLIBC_TUNABLES", "image"),
        ("BASH_ENV", "image"),
        ("CUDA_INJECTION64_PATH", "image"),
        ("NCCL_NET_PLUGIN", "image"),
        ("OPENSSL_MODULES", "image"),
        ("UCX_MODULE_DIR", "image"),
        ("HF_MODULES_CACHE", "image"),
        ("HF_TOKEN_PATH", "tokenSecretRef"),
        ("NVIDIA_MIG_CONFIG_DEVICES", "device plugin"),
        ("VLLM_ATTENTION_BACKEND", "engine.attentionBackend"),
        ("VLLM_LOGGING_CONFIG_PATH", "image"),
        ("VLLM_TORCH_PROFILER_DIR", "endpoints"),
        ("LD_LIBRARY_PATH", "image"),
        ("PYTHONPATH", "image"),
        ("CUDA_VISIBLE_DEVICES", "tensorParallel"),
        ("NVIDIA_VISIBLE_DEVICES", "tensorParallel"),
        ("VLLM_DP_SIZE", "replicas"),
    ],
)
def test_what_fights_the_plan_is_refused_with_the_why(name, told):
    asked = deployments.spec(engine={"env": [{"name": name, "value": "1"}]})

    with pytest.raises(Refused) as caught:
        environment.make(asked, "unified")

    assert caught.value.reason == Reason.ENV_RESERVED
    assert caught.value.field == "spec.engine.env"
    assert f"env[0] {name}" in caught.value.message
    assert told in caught.value.message


def test_all_fighting_variables_are_told_at_once():
    names = ["VLLM_PORT", "UCX_TLS", "LD_PRELOAD"]
    asked = deployments.spec(engine={"env": [{"name": n, "value": "1"} for n in names]})

    with pytest.raises(Refused) as caught:
        environment.make(asked, "unified")

    assert "env[0]" in caught.value.message
    assert "env[1]" not in caught.value.message
    assert "env[2]" in caught.value.message


@pytest.mark.parametrize(
    "name", ["HOME", "VLLM_HOST_IP", "VLLM_NIXL_SIDE_CHANNEL_HOST", "HF_TOKEN"]
)
def test_whatever_tidegate_sets_a_user_cannot_set(name):
    source = {"huggingFace": {"tokenSecretRef": {"name": "hub", "key": "token"}}}
    plain = deployments.pair(model={"source": source})
    assert name in _variables(plain, "decode")

    with pytest.raises(Refused):
        environment.make(deployments.pair(engine={"env": [{"name": name, "value": "x"}]}), "decode")


@pytest.mark.parametrize(
    "name",
    [
        *("VLLM_USE_V2_MODEL_RUNNER", "VLLM_PLUGINS", "VLLM_NCCL_SO_PATH", "VLLM_CONFIG_ROOT"),
        *("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "HF_HUB_CACHE", "TMPDIR"),
    ],
)
def test_what_loads_code_or_moves_folders_is_refused(name):
    asked = deployments.spec(engine={"env": [{"name": name, "value": "x"}]})
    with pytest.raises(Refused, match=name) as refused:
        environment.make(asked, "unified")

    assert refused.value.reason == Reason.ENV_RESERVED


def test_a_mirror_of_the_hub_is_the_users_own():
    asked = deployments.spec(engine={"env": [{"name": "HF_ENDPOINT", "value": "https://hub"}]})

    assert _variables(asked)["HF_ENDPOINT"]["value"] == "https://hub"
