"""How far the budget's estimates are from public start-up logs, by log and by term.

Usage: python bench/budget_error.py [LOGS.jsonl]

Only logs whose model the sizing rules cover are judged; a term that a log does not show is left
out. What a log does not tell (batched tokens, sequences, version) is taken as the engine's default.
"""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate.api.figures import Figure, exact
from tidegate.core.budget import defaults, division, shape
from tidegate.core.budget.division import Case
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.errors import Refused
from tidegate.facts import gpus, models
from tidegate.facts.gpus import Gpu

GIB = 2**30
LOGS = Path(__file__).parents[1] / "tests" / "vectors" / "startup_logs.jsonl"
# Logs that name no version show activation peaks of the sampler before 0.11.
VERSION_WHEN_UNTOLD = "0.10.2"
PRODUCTS = {
    "H100 80GB": "NVIDIA-H100-80GB-HBM3",
    "H100": "NVIDIA-H100-80GB-HBM3",
    "A100 40GB": "NVIDIA-A100-SXM4-40GB",
    "A100-SXM4-40GB": "NVIDIA-A100-SXM4-40GB",
    "RTX 3090": "NVIDIA-GeForce-RTX-3090",
    "RTX 4090": "NVIDIA-GeForce-RTX-4090",
    "L40S": "NVIDIA-L40S",
    "RTX PRO 6000 Blackwell": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
}
TERMS = ("weights", "activations", "non-torch", "graphs", "KV")


@dataclass(frozen=True)
class Judged:
    """A log's terms in GiB, predicted with their bands beside what it shows."""

    log: dict[str, Any]
    predicted: dict[str, Figure]
    shown: dict[str, float]


def main() -> None:
    """Print a table of errors and a summary."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else LOGS
    judged, skipped = [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        log = json.loads(line)
        try:
            judged.append(judge(log))
        except (Refused, LookupError) as why:
            skipped.append(f"{log['id']}: {why}"[:160])
    for one in judged:
        print_log(one)
    print_summary(judged)
    print(f"\nnot judged ({len(skipped)}):", *skipped, sep="\n  ")


def judge(log: dict[str, Any]) -> Judged:
    """Predict a log's terms from its configuration alone."""
    found = models.find(log.get("model", "")) or models.find(log.get("config_key") or "")
    if found is None:
        raise LookupError("the catalogue has no config of this model")
    if log.get("engine") == "V0":
        raise LookupError("it is of the former engine, V0")
    model = shape.read(found.config)
    gpu = gpu_of(log)
    engine = EngineConfig(
        version=log.get("vllm_version") or VERSION_WHEN_UNTOLD,
        max_model_len=log.get("max_model_len") or model.max_model_len,
        max_num_seqs=log.get("max_num_seqs") or defaults.max_num_seqs("", gpu),
        max_num_batched_tokens=log.get("max_num_batched_tokens")
        or defaults.max_num_batched_tokens("", gpu),
        quantization=quantization_of(log),
        kv_cache_dtype=log.get("kv_cache_dtype") or "auto",
        tensor_parallel=log.get("tensor_parallel") or 1,
        pipeline_parallel=log.get("pipeline_parallel") or 1,
        enforce_eager=bool(log.get("enforce_eager")),
    )
    case = Case(model, engine, gpu, log.get("gpu_memory_utilization") or 0.9)
    divided = division.divide(case)
    weights_gib = log.get("model_loading_gib")
    if (
        "tensor_parallel" not in log
        and weights_gib
        and divided.weights.bytes > 1.5 * GIB * weights_gib
    ):
        raise LookupError("it does not tell over how many GPUs the model is divided")
    left = divided.requested_bytes - divided.fixed.bytes
    band = (
        divided.requested_bytes - divided.fixed.high,
        divided.requested_bytes - divided.fixed.low,
    )
    kv = Figure(left, *band, divided.fixed.how)
    predicted = dict(
        zip(
            TERMS,
            (divided.weights, divided.activations, divided.inside, divided.cuda_graphs, kv),
            strict=True,
        )
    )
    keys = ("model_loading", "activation_peak", "non_torch", "cudagraph", "available_kv")
    shown = {
        term: log[f"{key}_gib"]
        for term, key in zip(TERMS, keys, strict=True)
        if log.get(f"{key}_gib") is not None
    }
    if log.get("cudagraph_gib", 0) < 0:  # free memory rose during capture: tells nothing
        del shown["graphs"]
    return Judged(log, predicted, shown)


def quantization_of(log: dict[str, Any]) -> str | None:
    """Return the --quantization that a log's words stand for."""
    told = (log.get("quantization") or log["model"]).lower()
    return next((name for name in ("fp8", "awq", "gptq") if name in told), None)


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
    for term, shown in judged.shown.items():
        figure = judged.predicted[term]
        inside = "in" if figure.low <= shown * GIB <= figure.high else "OUT OF"
        print(
            f"  {term:12} shown {shown:7.2f}  predicted {figure.bytes / GIB:7.2f} "
            f"({figure.low / GIB:.2f} to {figure.high / GIB:.2f} GiB)  "
            f"error {figure.bytes / GIB - shown:+6.2f}  {inside} the band"
        )


def print_summary(judged: list[Judged]) -> None:
    """Print, by term, how many logs show it, the middle error and the share inside of the band."""
    print(f"\n{'term':12} {'logs':>4} {'middle error':>13} {'within 10 %':>12} {'in the band':>12}")
    for term in TERMS:
        pairs = [(one.predicted[term], one.shown[term]) for one in judged if term in one.shown]
        if not pairs:
            continue
        errors = sorted(abs(figure.bytes / GIB - shown) for figure, shown in pairs)
        near = sum(abs(figure.bytes / GIB - shown) <= 0.1 * abs(shown) for figure, shown in pairs)
        inside = sum(figure.low <= shown * GIB <= figure.high for figure, shown in pairs)
        print(
            f"{term:12} {len(pairs):4} {errors[len(errors) // 2]:9.2f} GiB "
            f"{near:7}/{len(pairs):<4} {inside:7}/{len(pairs)}"
        )


if __name__ == "__main__":
    main()
