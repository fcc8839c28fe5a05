"""What a rollout will need, as `tidegate plan` and admission tell it: JSON, rows, sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.api.figures import How
from tidegate.api.quantities import rounded_duration
from tidegate.core.canary.needs import EVIDENCE_SECONDS, Needs, SliceNeed, StepNeed
from tidegate.core.canary.start_time import Span

COLUMNS = (
    # (heading, whether its cells are numbers)
    ("STEP", False),
    ("WEIGHT", True),
    ("LASTS", True),
    ("CANARY", False),
    ("EXTRA GPUS", True),
    ("GIVES WAY", False),
    ("FROM REQUESTS/S", True),
)
_NONE = "-"


def wire(needs: Needs) -> dict[str, Any]:
    """Return it as documented in docs/reference/cli.md."""
    return {
        "strategy": needs.strategy,
        "isDefault": needs.is_default,
        "isPossible": needs.is_possible,
        "allowedGpus": needs.allowed_gpus,
        "freeGpus": needs.free_gpus,
        "extraGpus": needs.extra_gpus,
        "minSamples": needs.min_samples,
        "memorySeconds": _exact(needs.memory_seconds),
        "steps": [_step(number, step) for number, step in enumerate(needs.steps, start=1)],
        "stepsSeconds": _exact(needs.fixed_seconds),
        "podStarts": needs.starts,
        "podStartSeconds": _estimated(needs.start),
        "leastSeconds": _estimated(needs.least),
    }


def rows(needs: Needs) -> list[tuple[str, ...]]:
    """Return a row of cells for each step, under `COLUMNS`."""
    return [
        (
            f"{number} {'analysis' if step.is_judged else 'pause'}",
            f"{step.weight_percent} %",
            rounded_duration(step.seconds),
            ", ".join((*map(_slice_told, step.slices), *_baseline(step))) or _NONE,
            f"{step.extra_gpus}{'' if step.is_possible else ' (no room)'}",
            _pods(step.given_up) or _NONE,
            _NONE if step.requests_per_second is None else f"{step.requests_per_second:.2g}",
        )
        for number, step in enumerate(needs.steps, start=1)
    ]


def title(needs: Needs) -> str:
    """Return strategy and time in a line."""
    default = ", by default where the operator has a Prometheus" if needs.is_default else ""
    return f"rollout of a new revision: {needs.strategy}{default if needs.steps else ''}"


def sentences(needs: Needs) -> list[str]:
    """Return the sentences behind the rows."""
    return [*_of_time(needs), *_of_gpus(needs), *_of_traffic(needs)]


def in_a_line(needs: Needs) -> str:
    """Return a canary's steps, GPUs and time for a warning."""
    weights = ", ".join(f"{step.weight_percent}" for step in needs.steps)
    given_up: dict[str, int] = {}
    for step in needs.steps:
        for name, count in step.given_up.items():
            given_up[name] = max(count, given_up.get(name, 0))
    giving = _pods(given_up)
    gpus = f"{_gpus(needs.extra_gpus)} beside the replicas"
    wait = "" if needs.is_possible else "; now it finds no room, and waits for GPUs"
    giving = f", and {giving} of the old pods give way" if giving else ""
    least = needs.least
    return (
        f"a canary with {weights} % of the requests, then all: it takes {gpus}{giving}, at least "
        f"{rounded_duration(needs.fixed_seconds)} for its steps and {_band(least)} in all{wait}"
    )


def _of_time(needs: Needs) -> Iterator[str]:
    fixed = f"{rounded_duration(needs.fixed_seconds)} of steps and warm-up (exact), "
    starts = (
        f"{needs.starts} starts of pods one after another, each {_band(needs.start)}"
        if needs.starts != 1
        else f"a start of pods, {_band(needs.start)}"
    )
    yield (f"at least {_band(needs.least)}: {fixed if needs.steps else ''}{starts} (estimated)")


def _of_gpus(needs: Needs) -> Iterator[str]:
    if not needs.is_possible:
        yield (
            f"a canary finds no room and waits: of {_gpus(needs.allowed_gpus)} that it may take "
            f"beside the replicas {needs.free_gpus} are free, and no old pod may give way (the "
            "only one of a pool never does)"
        )
    missing = max((step.missing_gpus for step in needs.steps), default=0)
    if missing and needs.is_possible:
        yield (
            f"it may take {_gpus(needs.allowed_gpus)} beside the replicas (rollout.gpuBudget, else "
            f"maxSurge), of which {needs.free_gpus} are free: stable pods give way for the rest"
        )
    if needs.extra_gpus and needs.steps:
        yield "GPUs count as free that neither the replicas nor anybody known to the plan holds"
    if needs.strategy == "Recreate":
        yield "no GPU beside the replicas: all old pods go first, and nothing serves until then"
    if needs.strategy == "RollingUpdate":
        yield (
            f"{_gpus(needs.allowed_gpus)} beside the replicas where they are free "
            f"({needs.free_gpus} are), else old pods give way first"
        )


def _of_traffic(needs: Needs) -> Iterator[str]:
    if any(step.is_judged for step in needs.steps):
        yield (
            f"FROM REQUESTS/S: of the whole deployment, so that each side has {needs.min_samples} "
            "requests (bounds.minSamples) in the step's time alone; a verdict may need more"
        )
        yield (
            f"the first verdict rests on {rounded_duration(EVIDENCE_SECONDS)} of evidence at "
            f"least, on {rounded_duration(needs.memory_seconds)} where engines tell their memory"
        )


def _step(number: int, step: StepNeed) -> dict[str, Any]:
    return {
        "step": number,
        "weightPercent": step.weight_percent,
        "isJudged": step.is_judged,
        "seconds": _exact(step.seconds),
        "canary": [
            {"pool": of.pool, "gpuProduct": of.product, "pods": of.pods, "gpus": of.gpus}
            for of in step.slices
        ],
        "baselinePods": dict(step.baseline),
        "extraGpus": step.extra_gpus,
        "missingGpus": step.missing_gpus,
        "stablePodsGivenUp": dict(step.given_up),
        "isPossible": step.is_possible,
        "requestsPerSecond": step.requests_per_second,
    }


def _exact(seconds: float) -> dict[str, Any]:
    return {"seconds": seconds, "low": seconds, "high": seconds, "how": str(How.EXACT)}


def _estimated(span: Span) -> dict[str, Any]:
    told = {"seconds": round(span.seconds), "low": round(span.low), "high": round(span.high)}
    return {**told, "how": str(How.ESTIMATED)}


def _band(span: Span) -> str:
    return f"{rounded_duration(span.low)} to {rounded_duration(span.high)}"


def _slice_told(of: SliceNeed) -> str:
    pods = "1 pod" if of.pods == 1 else f"{of.pods} pods"
    return f"{pods} of {of.pool} on {of.product} ({_gpus(of.gpus)})"


def _baseline(step: StepNeed) -> list[str]:
    told = _pods(step.baseline)
    return [f"{told} of the baseline"] if told else []


def _pods(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {name}" for name, count in counts.items() if count)


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
