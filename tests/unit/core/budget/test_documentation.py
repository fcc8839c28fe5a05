"""Every number in the tables of docs/concepts/kv-cache.md is what the budget computes."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.core.budget import pool, shape
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.pool import KVPool
from tidegate.facts import engines, models

PAGE = (Path(__file__).resolve().parents[4] / "docs/concepts/kv-cache.md").read_text("utf-8")
GIB = 2**30
HOPPER = (9, 0)
RESULTS = {
    "bytes of a token": lambda made: made.bytes_per_token,
    "tokens of a block": lambda made: made.block_size,
    "bytes of a block": lambda made: made.bytes_per_block[0],
    "blocks of a request": lambda made: made.blocks_per_request,
    "bytes of a request": lambda made: made.needed_bytes,
    "blocks": lambda made: made.num_blocks,
    "serves it": lambda made: "yes" if made.fits else "no",
    "longest request": lambda made: made.max_model_len_that_fits,
    "concurrency": lambda made: f"{made.max_concurrency:.2f}",
    "`kv_cache_size_tokens`": lambda made: made.cache_size_tokens,
    "bytes of a token, FP8": lambda made: made.bytes_per_token,
}
FLAGS = {"bytes of a token, FP8": {"kv_cache_dtype": "fp8"}}


def rows() -> Iterator[dict[str, str]]:
    """Yield the rows of the page's tables, by the names of their columns."""
    for table in re.findall(r"(?:^\|.*\|\n)+", PAGE, re.MULTILINE):
        head, _, *body = (
            [cell.strip() for cell in line[1:-1].split("|")] for line in table.split("\n")[:-1]
        )
        yield from (dict(zip(head, cells, strict=True)) for cells in body)


ROWS = list(rows())
OF_MODELS = [row for row in ROWS if "model" in row]
SUMS = [row for row in ROWS if "KV heads" in row]


def number(cell: str) -> int:
    return int(cell.replace(",", ""))


def config(row: dict[str, str]) -> dict[str, Any]:
    known = models.find(row["model"].strip("`"))
    assert known is not None, f"the catalogue has no {row['model']}"
    return dict(known.config)


def flags(row: dict[str, str]) -> dict[str, Any]:
    """Read flags such as `tensor_parallel=8`; a value that is no JSON is a word."""
    given = {}
    for name, value in re.findall(r"`(\w+)=(\w+)`", row.get("flags", "")):
        given[name] = json.loads(value) if value.isdigit() or value in ("true", "false") else value
    return given


def planned(row: dict[str, str], extra: dict[str, Any]) -> KVPool:
    """Return the pool of a row: vLLM's newest version on Hopper, 20 GiB where it tells none."""
    usual = {
        "version": engines.versions()[-1],
        "max_model_len": number(row.get("tokens", "8,192")),
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
    }
    engine = EngineConfig(**(usual | flags(row) | extra))
    memory_bytes = number(row.get("bytes for KV", f"{20 * GIB}"))
    return pool.kv_pool(shape.read(config(row)), engine, memory_bytes, HOPPER)


def computed(row: dict[str, str], column: str) -> str:
    result = RESULTS[column](planned(row, FLAGS.get(column, {})))
    return f"{result:,}" if isinstance(result, int) else result


@pytest.mark.parametrize("row", OF_MODELS, ids=lambda row: " ".join(list(row.values())[:3]))
def test_a_row_says_what_is_computed(row):
    shown = {column: row[column] for column in RESULTS if column in row}

    assert shown
    assert shown == {column: computed(row, column) for column in shown}


@pytest.mark.parametrize("row", SUMS, ids=lambda row: f"{row['KV heads']} KV heads")
def test_the_sums_of_the_formula_are_right(row):
    """The pool of such a model, for one request of that many tokens, is the sum of the page."""
    layers, heads, size, tokens = (
        number(row[key]) for key in ("layers", "KV heads", "head size", "tokens")
    )
    model = {
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "num_hidden_layers": layers,
        "num_attention_heads": 40,
        "num_key_value_heads": heads,
        "head_dim": size,
        "hidden_size": 40 * size,
        "intermediate_size": 4 * 40 * size,
        "vocab_size": 32000,
        "max_position_embeddings": tokens,
    }
    engine = EngineConfig(engines.versions()[-1], tokens, 256, 8192)
    made = pool.kv_pool(shape.read(model), engine, 20 * GIB, HOPPER)

    assert number(row["bytes"]) == made.needed_bytes == 2 * layers * heads * size * tokens * 2


def test_the_page_has_its_examples_and_names_their_version():
    assert {row["bytes"] for row in SUMS} == {"2,348,810,240", "234,881,024"}
    assert len(OF_MODELS) > 30
    assert f"vLLM {engines.versions()[-1].rpartition('.')[0]}, BF16" in PAGE


def test_the_case_that_checks_a_log_gives_the_answer_of_the_page():
    """A reader who runs the command of the page sees the page's numbers."""
    (case,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "plan", "--batch", "-"],
        input=" ".join(case.split()) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    shown = number(re.findall(r"`cacheSizeTokens` is ([0-9,]+)", PAGE)[0])
    logged = number(re.findall(r"GPU KV cache size: ([0-9,]+) tokens", PAGE)[0])
    rounding_bytes = 0.005 * GIB  # the log has two decimals of a GiB

    assert answer["kv"]["cacheSizeTokens"] == shown
    bytes_per_token = answer["kv"]["bytesPerBlock"][0] / answer["kv"]["blockSize"]
    assert abs(shown - logged) <= rounding_bytes / bytes_per_token + answer["kv"]["blockSize"]
