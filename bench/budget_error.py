"""How far the budget is from public start-up logs: by log, by term, and against the goals.

Usage: python bench/budget_error.py [LOGS.jsonl]

Only logs whose model the sizing rules cover are judged; a term that a log does not show is left
out. What a log does not tell (batched tokens, sequences, version) is taken as the engine's default,
and over how many GPUs the model is divided follows from the weights that it shows.
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate.api.figures import Figure, exact
from tidegate.core.budget import division, pool, shape, weights
from tidegate.core.budget.division import Case, Division
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused
from tidegate.facts import engines, gpus, models
from tidegate.facts.gpus import Gpu

GIB = 2**30
LOGS = Path(__file__).parents[1] / "tests" / "vectors" / "startup_logs.jsonl"
# Logs that name no version show activation peaks of the sampler before 0.11.
VERSION_WHEN_UNTOLD = "0.10.2"
UTILIZATION_WHEN_UNTOLD = 0.9
# A layout hardly depends on the card: where a log names none, blocks are those of an A100.
CAPABILITY_WHEN_UNTOLD = (8, 0)
PRODUCTS = {
    "H100 80GB": "NVIDIA-H100-80GB-HBM3",
    "H100": "NVIDIA-H100-80GB-HBM3",
    "A100 40GB": "NVIDIA-A100-SXM4-40GB",
    "A100-SXM4-40GB": "NVIDIA-A100-SXM4-40GB",
    "RTX 3090": "NVIDIA-GeForce-RTX-3090",
    "RTX 4090": "NVIDIA-GeForce-RTX-4090",
    "RTX 5090": "NVIDIA-GeForce-RTX-5090",
    "L40S": "NVIDIA-L40S",
    "RTX PRO 6000 Blackwell": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
}
# How a checkpoint is stored, by a word of its name: what its config.json would say.
STORED = {
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128},
}
DIVISIONS = (1, 2, 4, 8, 16)
SAME_WEIGHTS = 0.1
"""How near weights must be for a division that a log does not tell; the next is half of it."""
TERM_KEYS = {
    "weights": "model_loading_gib",
    "activations": "activation_peak_gib",
    "non-torch": "non_torch_gib",
    "graphs": "cudagraph_gib",
    "beside KV": "beside_kv_gib",
    "KV": "available_kv_gib",
}
WHOLE = "beside KV"
BLOCKS_GOAL, WHOLE_GOAL, BAND_GOAL = 0.95, 0.80, 0.90


@dataclass(frozen=True)
class Judged:
    """A log's terms in GiB, predicted with their bands beside what it shows."""

    log: dict[str, Any]
    predicted: dict[str, Figure]
    shown: dict[str, float]


@dataclass(frozen=True)
class Blocks:
    """A log's blocks or tokens of KV beside those that follow from the memory that it shows."""

    log: dict[str, Any]
    unit: str
    shown: int
    computed: int

    @property
    def error(self) -> float:
        """The difference as a share of what is shown."""
        return self.computed / self.shown - 1


def main() -> None:
    """Print every log's errors, a summary by term, and the goals with what was found."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else LOGS
    lines = path.read_text(encoding="utf-8").splitlines()
    logs = [json.loads(line) for line in lines if line.strip()]
    judged, skipped = tried(judge, logs)
    blocks, without = tried(blocks_of, logs)
    for one in judged:
        print_log(one)
    print_summary(judged)
    print_blocks(blocks)
    print_goals(judged, blocks)
    print(f"\nterms not judged ({len(skipped)}):", *skipped, sep="\n  ")
    print(f"\nblocks not judged ({len(without)}):", *without, sep="\n  ")


def tried(work: Any, logs: Sequence[dict[str, Any]]) -> tuple[list[Any], list[str]]:
    """Return the results of the logs that could be judged, and why the others could not."""
    done, skipped = [], []
    for log in logs:
        try:
            done.append(work(log))
        except (Refused, LookupError) as why:
            skipped.append(f"{log['id']}: {why}"[:160])
    return done, skipped


def judge(log: dict[str, Any]) -> Judged:
    """Predict a log's terms from its configuration alone."""
    if log.get("engine") == "V0":
        raise LookupError("it is of the former engine, V0")
    if log.get("sleep_mode"):
        raise LookupError("sleep mode's allocator hides memory from the engine's own count")
    model = model_of(log)
    gpu = gpu_of(log)
    log = with_division(log, model, gpu)
    line = log.get("gpu_memory_utilization") or UTILIZATION_WHEN_UNTOLD
    divided = division.divide(Case(model, engine_of(log, model, gpu), gpu, line))
    may_use = math.ceil(gpu.cuda_total.bytes * line)  # as the log's engine, which a plan may lower
    return Judged(log, predicted(divided, may_use), shown(log, may_use))


def predicted(divided: Division, may_use: int) -> dict[str, Figure]:
    """Return what the plan says of each term, of the bytes that the engine may use."""
    fixed = divided.fixed
    kv = Figure(may_use - fixed.bytes, may_use - fixed.high, may_use - fixed.low, fixed.how)
    terms = (divided.weights, divided.activations, divided.inside, divided.cuda_graphs, fixed, kv)
    return dict(zip(TERM_KEYS, terms, strict=True))


def shown(log: dict[str, Any], may_use: int) -> dict[str, float]:
    """Return the terms that a log shows, in GiB; the whole where it tells what it is part of."""
    known = dict(log)
    if "available_kv_gib" in log and "gpu_memory_utilization" in log:
        known["beside_kv_gib"] = may_use / GIB - log["available_kv_gib"]
    elif "available_kv_gib" in log:
        del known["available_kv_gib"]  # of an untold share of the card: tells nothing
    if log.get("cudagraph_gib", 0) < 0:  # free memory rose during capture: tells nothing
        del known["cudagraph_gib"]
    return {term: known[key] for term, key in TERM_KEYS.items() if known.get(key) is not None}


def blocks_of(log: dict[str, Any]) -> Blocks:
    """Compute a log's KV blocks, or tokens, from the memory that it shows for KV."""
    unit = "gpu_blocks" if "gpu_blocks" in log else "kv_cache_tokens"
    for key in ("available_kv_gib", unit):
        if key not in log:
            raise LookupError(f"it shows no {key}")
    model = model_of(log)
    known = gpus.variants(PRODUCTS.get(log.get("gpu", ""), ""))
    gpu = known[0] if known else gpus.unknown("untold", 81_920, CAPABILITY_WHEN_UNTOLD)
    engine = engine_of(with_division(log, model, gpu), model, gpu)
    capability = gpu.compute_capability or CAPABILITY_WHEN_UNTOLD
    planned = pool.kv_pool(model, engine, round(log["available_kv_gib"] * GIB), capability)
    is_blocks = unit == "gpu_blocks"
    computed = planned.num_blocks if is_blocks else planned.cache_size_tokens
    return Blocks(log, "blocks" if is_blocks else "tokens", log[unit], computed)


def with_division(log: dict[str, Any], model: ModelShape, gpu: Gpu) -> dict[str, Any]:
    """Return a log with its tensor parallel size: told, or that whose weights are those it shows.

    Raises:
        LookupError: it tells neither.
    """
    loaded_gib = log.get("model_loading_gib")
    if "tensor_parallel" in log:
        return log
    if loaded_gib is None:
        if "available_kv_gib" in log and log.get("gpu") in PRODUCTS:
            return log | {"tensor_parallel": 1}  # a single card, as it names one
        raise LookupError("it does not tell over how many GPUs the model is divided")
    for size in DIVISIONS:
        found = log | {"tensor_parallel": size}
        loaded = weights.of(model, engine_of(found, model, gpu), model.dtype).bytes
        if abs(loaded / GIB - loaded_gib) <= SAME_WEIGHTS * loaded_gib:
            return found
    raise LookupError("it does not tell over how many GPUs the model is divided")


def model_of(log: dict[str, Any]) -> ModelShape:
    """Return the shape of a log's model, from the catalogue."""
    found = models.find(log.get("model", "")) or models.find(log.get("config_key") or "")
    if found is None:
        raise LookupError("the catalogue has no config of this model")
    told = f"{log.get('quantization') or ''} {log['model']}".lower()
    stored = next((config for word, config in STORED.items() if word in told), None)
    if stored is None or "quantization_config" in found.config:
        return shape.read(found.config)
    return shape.read({**found.config, "quantization_config": stored})


def engine_of(log: dict[str, Any], model: ModelShape, gpu: Gpu) -> EngineConfig:
    """Return a log's flags, with the engine's defaults where it tells none."""
    oldest = engines.engine(engines.versions()[0])  # defaults by card are as old as these logs
    default = oldest.batch_defaults(gpu.cuda_total.bytes, gpu.product, gpu.compute_capability)
    return EngineConfig(
        version=version_of(log),
        max_model_len=log.get("max_model_len") or model.max_model_len,
        max_num_seqs=log.get("max_num_seqs") or default.max_num_seqs,
        max_num_batched_tokens=log.get("max_num_batched_tokens") or default.max_num_batched_tokens,
        quantization=quantization_of(log, model),
        kv_cache_dtype=log.get("kv_cache_dtype") or "auto",
        block_size=log.get("block_size"),
        tensor_parallel=log.get("tensor_parallel") or 1,
        pipeline_parallel=log.get("pipeline_parallel") or 1,
        decode_context_parallel=log.get("decode_context_parallel") or 1,
        enforce_eager=bool(log.get("enforce_eager")),
    )


def version_of(log: dict[str, Any]) -> str:
    """Return the version that a log tells, or about which one its date says it is."""
    told: str = log.get("vllm_version") or log.get("vllm_version_about") or VERSION_WHEN_UNTOLD
    return told


def quantization_of(log: dict[str, Any], model: ModelShape) -> str | None:
    """Return fp8 where a log's words say so and the model's config.json does not."""
    told = f"{log.get('quantization') or ''} {log['model']}".lower()
    return "fp8" if model.quantization is None and "fp8" in told else None


def gpu_of(log: dict[str, Any]) -> Gpu:
    """Return the card of a log, with the total that the log shows if it shows one."""
    name, shown_gib = log.get("gpu") or "?", log.get("gpu_memory_gib")
    known = gpus.variants(PRODUCTS[name]) if name in PRODUCTS else ()
    if shown_gib is None:
        if not known:
            raise LookupError("the log does not tell the GPU's memory")
        return known[0]
    gpu = known[0] if known else gpus.unknown(name, round(shown_gib * 1024), (8, 0))
    return replace(gpu, cuda_total=exact(round(shown_gib * GIB)))


def print_log(judged: Judged) -> None:
    """Print one log's terms."""
    log = judged.log
    print(f"{log['id']}  {log['model']}  tp {log.get('tensor_parallel', '?')}", end="")
    print(f"  vLLM {log.get('vllm_version', '?')}")
    for term, shown_gib in judged.shown.items():
        figure = judged.predicted[term]
        inside = "in" if is_inside(figure, shown_gib) else "OUT OF"
        print(
            f"  {term:12} shown {shown_gib:7.2f}  predicted {figure.bytes / GIB:7.2f} "
            f"({figure.low / GIB:.2f} to {figure.high / GIB:.2f} GiB)  "
            f"error {figure.bytes / GIB - shown_gib:+6.2f}  {inside} the band"
        )


def print_summary(judged: Sequence[Judged]) -> None:
    """Print, by term, how many logs show it, the middle error and the share inside of the band."""
    print(f"\n{'term':12} {'logs':>4} {'middle error':>13} {'within 10 %':>12} {'in the band':>12}")
    for term in TERM_KEYS:
        pairs = pairs_of(judged, term)
        if not pairs:
            continue
        errors = sorted(abs(figure.bytes / GIB - shown_gib) for figure, shown_gib in pairs)
        near = sum(is_near(*pair) for pair in pairs)
        inside = sum(is_inside(*pair) for pair in pairs)
        print(
            f"{term:12} {len(pairs):4} {errors[len(errors) // 2]:9.2f} GiB "
            f"{near:7}/{len(pairs):<4} {inside:7}/{len(pairs)}"
        )


def print_blocks(blocks: Sequence[Blocks]) -> None:
    """Print what the pool is computed to be from the memory that each log shows."""
    print("\nKV from logged memory:")
    for one in blocks:
        print(
            f"  {one.log['id']:24} {one.log['model']:44.44} shown {one.shown:>9,} "
            f"computed {one.computed:>9,} {one.unit}  {100 * one.error:+.2f} %"
        )


def print_goals(judged: Sequence[Judged], blocks: Sequence[Blocks]) -> None:
    """Print the goals beside what was found.

    The whole budget is all that the engine takes beside KV: what a plan estimates.
    """
    whole = pairs_of(judged, WHOLE)
    goals = (
        (
            "KV blocks from logged memory within 1 %",
            BLOCKS_GOAL,
            [abs(one.error) <= 0.01 for one in blocks],
        ),
        ("whole budget within 10 %", WHOLE_GOAL, [is_near(*pair) for pair in whole]),
        ("true value inside the band", BAND_GOAL, [is_inside(*pair) for pair in whole]),
    )
    print("\ngoals, of the logs that show what is needed:")
    for what, goal, hits in goals:
        found = sum(hits) / len(hits) if hits else 0.0
        verdict = "met" if hits and found >= goal else "NOT met"
        print(
            f"  {what} on >= {100 * goal:.0f} %: "
            f"{sum(hits)} of {len(hits)}, {100 * found:.0f} %, {verdict}"
        )


def pairs_of(judged: Sequence[Judged], term: str) -> list[tuple[Figure, float]]:
    """Return a term's predictions and what the logs show, in GiB."""
    return [(one.predicted[term], one.shown[term]) for one in judged if term in one.shown]


def is_near(figure: Figure, shown_gib: float) -> bool:
    """Tell whether a prediction is within a tenth of what is shown."""
    return abs(figure.bytes / GIB - shown_gib) <= 0.1 * abs(shown_gib)


def is_inside(figure: Figure, shown_gib: float) -> bool:
    """Tell whether what is shown lies inside of a prediction's band."""
    return figure.low <= shown_gib * GIB <= figure.high


if __name__ == "__main__":
    main()
