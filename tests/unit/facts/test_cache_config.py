"""The engine's account of its KV cache, from its metrics page."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.facts import cache_config
from tidegate.facts.cache_config import CacheConfig

OBSERVED = Path(__file__).parents[3] / "e2e" / "engine" / "observed" / "0.32.0.json"
LABELS = {
    "block_size": "16",
    "cache_dtype": "fp8",
    "gpu_memory_utilization": "0.9",
    "kv_cache_max_concurrency": "18.28",
    "kv_cache_memory_bytes": "None",
    "kv_cache_size_tokens": "599328",
    "num_gpu_blocks": "37458",
}


def page(**labels: str) -> str:
    text = ",".join(f'{name}="{value}"' for name, value in {**LABELS, **labels}.items())
    return (
        "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n"
        "# TYPE vllm:cache_config_info gauge\n"
        f"vllm:cache_config_info{{{text}}} 1.0\n"
        'vllm:num_requests_running{engine="0"} 0.0\n'
    )


def test_a_page_tells_blocks_and_tokens():
    assert cache_config.read(page()) == CacheConfig(37458, 16, 599328, 18.28, "fp8", 0.9, None)


def test_what_a_real_engine_told_is_read():
    labels = json.loads(OBSERVED.read_text())["engine"]["cache_config_info"]

    told = cache_config.read(page(**labels))

    assert told == CacheConfig(256, 32, 8192, 4.0, "auto", 0.92, 8 * 2**20)


@pytest.mark.parametrize(
    "labels",
    [
        {"num_gpu_blocks": "None"},
        {"num_gpu_blocks": "0"},
        {"num_gpu_blocks": "-5"},
        {"num_gpu_blocks": "9" * 400},
        {"block_size": ""},
        {"kv_cache_size_tokens": "1e9"},
        {"kv_cache_max_concurrency": "NaN"},
        {"kv_cache_max_concurrency": "inf"},
    ],
)
def test_what_makes_no_sense_is_not_told(labels):
    assert cache_config.read(page(**labels)) is None


def test_of_several_engines_the_smallest_counts():
    told = cache_config.read(page(num_gpu_blocks="50000") + page(num_gpu_blocks="40000"))
    assert told is not None
    assert told.blocks == 40000


def test_quotes_and_braces_in_labels_are_text():
    told = cache_config.read(page(kv_cache_dtype_skip_layers='[\\"a\\"]}', cache_dtype="auto"))
    assert told is not None
    assert told.dtype == "auto"


@given(st.text(max_size=1000))
def test_no_page_is_too_odd(text):
    assert cache_config.read(text) is None or "cache_config_info" in text
