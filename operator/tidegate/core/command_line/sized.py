"""An engine's command line on a GPU, sized: the budget and what the rest of memory holds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.core.budget import division, pool, sizing
from tidegate.core.budget.division import Case
from tidegate.core.budget.shape import ModelShape
from tidegate.core.budget.sizing import Sizing, Workload
from tidegate.core.command_line.settings import Settings, settle
from tidegate.errors import Refused
from tidegate.facts.engines import Engine
from tidegate.facts.gpus import Gpu


@dataclass(frozen=True)
class Sized:
    """What the flags settle, and the sizing that follows; `because` has all sentences."""

    settings: Settings
    sizing: Sizing

    @property
    def because(self) -> tuple[str, ...]:
        """The sentences behind the numbers, then what is not counted."""
        return self.sizing.because + self.settings.notes


def size(
    arguments: Mapping[str, Any],
    model: ModelShape,
    engine: Engine,
    gpu: Gpu,
    workload: Workload | None = None,
    version: str | None = None,
) -> Sized:
    """Size one engine as the flags start it.

    Raises:
        Refused: The engine would refuse the flags, or it does not fit.
    """
    settings = fitted(settle(arguments, model, engine, gpu, version), model, gpu)
    require_fitting(workload, settings)
    sized = sizing.size(
        model,
        settings.engine,
        gpu,
        safety_line=settings.memory_share,
        kv_cache_bytes=settings.kv_cache_bytes,
        workload=workload,
    )
    return Sized(settings, sized)


def require_fitting(workload: Workload | None, settings: Settings) -> None:
    """Refuse a workload whose requests are longer than the engine takes.

    Raises:
        Refused: LENGTH_INVALID.
    """
    if workload is None:
        return
    tokens = workload.prompt_tokens_p95 + workload.output_tokens_p95
    longest = settings.engine.max_model_len
    if tokens > longest:
        raise Refused(
            Reason.LENGTH_INVALID,
            f"a p95 request of {workload.prompt_tokens_p95} + {workload.output_tokens_p95} = "
            f"{tokens} tokens is above max-model-len {longest}; raise max-model-len or lower the "
            "workload",
            "workload",
        )


def fitted(
    settings: Settings, model: ModelShape, gpu: Gpu, available_kv_bytes: int | None = None
) -> Settings:
    """Lower an automatic length to what memory holds, as `--max-model-len auto` does."""
    if not settings.length_is_auto:
        return settings
    case = Case(model, settings.engine, gpu, settings.memory_share)
    if available_kv_bytes is None:
        available_kv_bytes = settings.kv_cache_bytes or division.divide(case).left_bytes
    planned = pool.kv_pool(model, settings.engine, available_kv_bytes, case.compute_capability)
    longest = min(settings.engine.max_model_len, max(1, planned.estimated_max_model_len))
    return replace(settings, engine=replace(settings.engine, max_model_len=longest))
