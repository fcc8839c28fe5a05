"""The pool equals vLLM's own planner, integer for integer, on every vector."""

import gzip
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.budget import pool, shape
from tidegate.core.budget.engine_config import EngineConfig, Speculative
from tidegate.errors import Refused

_FILE = Path(__file__).parents[3] / "vectors" / "planner.json.gz"
_DATA = json.loads(gzip.decompress(_FILE.read_bytes()))
_REASONS = {
    "tp_must_divide_kv_heads_or_heads": Reason.PARALLELISM_INVALID,
    "mamba2_tp_must_divide_n_groups_unless_1": Reason.PARALLELISM_INVALID,
    "kv_dtype_differs_from_model_dtype": Reason.KV_DTYPE_UNSUPPORTED,
    "kv_dtype_not_supported_by_any_backend": Reason.KV_DTYPE_UNSUPPORTED,
    "nvfp4_not_with_mla": Reason.KV_DTYPE_UNSUPPORTED,
    "deepseek_v4_only_fp8": Reason.KV_DTYPE_UNSUPPORTED,
    "fp8_needs_sm89_in_triton": Reason.KV_DTYPE_UNSUPPORTED,
    "turboquant_with_chunked_attention": Reason.KV_DTYPE_UNSUPPORTED,
}


@cache
def _shape(name: str) -> shape.ModelShape:
    return shape.read(_DATA["configs"][name])


def _engine(flags: dict[str, Any]) -> EngineConfig:
    flags = dict(flags, max_num_seqs=256)
    flags["kv_cache_skip_layers"] = tuple(flags.get("kv_cache_skip_layers", ()))
    speculative = flags.pop("speculative", None)
    if speculative is not None:
        draft = speculative.get("draft")
        config = None if draft is None else _DATA["configs"][draft]
        speculative = Speculative(speculative["method"], speculative["tokens"], config)
    return EngineConfig(**flags, speculative=speculative)


def _vectors_of(name: str) -> list[dict[str, Any]]:
    return [vector for vector in _DATA["vectors"] if vector["config"] == name]


@pytest.mark.parametrize("name", sorted({vector["config"] for vector in _DATA["vectors"]}))
def test_every_field_of_every_vector_equals_the_planners(name):
    for vector in _vectors_of(name):
        planned = pool.kv_pool(
            _shape(name),
            _engine(vector["engine"]),
            vector["available_kv_bytes"],
            tuple(vector["compute_capability"]),
        )
        fields = asdict(planned)
        expected = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in vector["pool"].items()
        }

        assert expected == {key: fields[key] for key in expected}, vector["id"]


@pytest.mark.parametrize(
    "rejection",
    _DATA["rejections"],
    ids=lambda r: f"{r['config']}-{r['engine']['version']}-{r['class']}",
)
def test_what_the_engine_refuses_is_refused_with_a_fitting_reason(rejection):
    with pytest.raises(Refused) as refused:
        pool.kv_pool(
            _shape(rejection["config"]),
            _engine(rejection["engine"]),
            2**34,
            tuple(rejection["compute_capability"]),
        )

    assert refused.value.reason == _REASONS[rejection["class"]]


def test_the_vectors_cover_what_they_are_said_to_cover():
    engines = [vector["engine"] for vector in _DATA["vectors"]]

    assert len(engines) == 1031
    assert len(_DATA["rejections"]) == 66
    assert {engine["version"] for engine in engines} == {"0.32.0", "0.33.0"}
    assert {engine.get("tensor_parallel", 1) for engine in engines} == {1, 2, 4, 8, 16}
    assert {engine.get("pipeline_parallel", 1) for engine in engines} == {1, 2}
    assert any(not vector["pool"]["fits"] for vector in _DATA["vectors"])
