"""Laws of a batch: whatever a line holds, it gets one answer that is JSON, and order is kept."""

import copy
import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.batch.cases import CASE

from tidegate.core.batch import answer as batch

_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, -1, 2**31, 2**53, 2**63, 10**40])
    | st.floats(allow_nan=True)
    | st.text(max_size=12)
    | st.sampled_from(["auto", "fp8", "9.0", "NVIDIA-A100-SXM4-80GB", "mtp", "eagle3", "0"])
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)


def _places(document, path=()):
    """Return the path of every value in a document."""
    found = [path] if path else []
    if isinstance(document, dict):
        for key, value in document.items():
            found += _places(value, (*path, key))
    return found


_FULL = copy.deepcopy(CASE)
_FULL["workload"] = {"promptTokens": {"p95": 400}, "outputTokens": {"p95": 100}}
_FULL["engine"]["args"] |= {
    "tensor-parallel-size": 2,
    "pipeline-parallel-size": 1,
    "decode-context-parallel-size": 1,
    "kv-cache-dtype": "auto",
    "kv-cache-dtype-skip-layers": ["0"],
    "block-size": 16,
    "max-num-seqs": 64,
    "max-num-batched-tokens": 2048,
    "num-gpu-blocks-override": 5000,
    "mamba-block-size": 16,
    "mamba-ssm-cache-dtype": "auto",
    "async-scheduling": True,
    "enable-prefix-caching": True,
    "enable-chunked-prefill": True,
    "gpu-memory-utilization": 0.9,
    "compilation-config": {"cudagraph_mode": "NONE"},
    "hf-overrides": {"num_hidden_layers": 4},
    "speculative-config": {"method": "ngram", "num_speculative_tokens": 2},
}


@settings(max_examples=400, deadline=None)
@given(place=st.sampled_from(_places(_FULL)), value=_values, keeps_bytes=st.booleans())
def test_any_value_in_any_place_gets_one_answer(place, value, keeps_bytes):
    case = copy.deepcopy(_FULL)
    target = case
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    if not keeps_bytes:
        case.pop("availableKvBytes", None)

    _require_answer(batch.answer(json.dumps(case), 3).document)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | _values.map(json.dumps))
def test_any_line_gets_one_answer(line):
    _require_answer(batch.answer(line, 3).document)


@settings(max_examples=100, deadline=None)
@given(cut=st.integers(0, len(json.dumps(CASE)) - 1))
def test_a_truncated_line_is_an_error(cut):
    got = batch.answer(json.dumps(CASE)[:cut], 3).document

    assert "is no JSON" in got["error"]


@settings(max_examples=60, deadline=None)
@given(one=st.integers(0, 2**40), other=st.integers(0, 2**40))
def test_more_memory_never_means_fewer_blocks(one, other):
    few, many = (
        batch.answer(json.dumps(CASE | {"availableKvBytes": count}), 1).document["kv"]["numBlocks"]
        for count in sorted((one, other))
    )

    assert few <= many


def _require_answer(document):
    text = json.dumps(document, allow_nan=False)
    assert "\n" not in text
    kinds = [key for key in ("error", "kv") if key in document]
    if document.get("refused"):
        kinds.append("refused")
        assert document["refused"]["reason"]
        assert document["refused"]["message"]
    assert len(kinds) == 1
    if "kv" in document:
        assert math.isfinite(document["kv"]["maxConcurrency"])
