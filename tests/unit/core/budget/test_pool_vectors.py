"""The pool equals vLLM's own planner, integer for integer, on every vector of these models."""

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

_FILE = Path(__file__).parents[3] / "vectors" / "full_attention.json.gz"
_DATA = json.loads(gzip.decompress(_FILE.read_bytes()))
_REASONS = {
    "tp_must_divide_kv_heads_or_heads": Reason.PARALLELISM_INVALID,
    "kv_dtype_differs_from_model_dtype": Reason.KV_DTYPE_UNSUPPORTED,
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


@pytest.mark.parametrize("vector", _DATA["vectors"], ids=lambda vector: vector["id"])
def test_every_field_equals_the_planners(vector):
    planned = pool.kv_pool(
        _shape(vector["config"]),
        _engine(vector["engine"]),
        vector["available_kv_bytes"],
        tuple(vector["compute_capability"]),
    )
    fields = asdict(planned)
    expected = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in vector["pool"].items()
    }

    assert expected == {key: fields[key] for key in expected}


@pytest.mark.parametrize(
    "rejection", _DATA["rejections"], ids=lambda r: f"{r['config']}-{r['engine']['version']}"
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


@pytest.mark.parametrize("name", _DATA["other_structures"])
def test_other_structures_are_refused_by_the_keys_that_say_so(name):
    config = _DATA["configs"][name]
    with pytest.raises(Refused) as refused:
        shape.read(config)

    text = config.get("text_config", config)
    named = refused.value.message.rpartition("config.json: ")[2].rstrip(")").split(", ")
    assert refused.value.reason == Reason.MODEL_NOT_SIZED
    assert set(named) <= set(text)


def test_the_vectors_cover_what_they_are_said_to_cover():
    engines = [vector["engine"] for vector in _DATA["vectors"]]

    assert len(engines) == 340
    assert {engine["version"] for engine in engines} == {"0.32.0", "0.33.0"}
    assert {engine["tensor_parallel"] for engine in engines} == {1, 2, 4, 8, 16}
    assert {engine["pipeline_parallel"] for engine in engines} == {1, 2}
    assert any(not vector["pool"]["fits"] for vector in _DATA["vectors"])
