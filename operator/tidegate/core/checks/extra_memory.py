"""Extra arguments that change how much GPU memory the engine needs, which no plan counts."""

from collections.abc import Mapping

from tidegate.api.reasons import Reason
from tidegate.core.budget import parallelism
from tidegate.core.budget.feed_forward import Dense
from tidegate.core.budget.shape import Layer, element_bytes
from tidegate.core.checks import nearest
from tidegate.core.checks.subject import Slice
from tidegate.core.checks.verdict import Change, Severity, Value, Verdict, size
from tidegate.core.render import extra_args
from tidegate.errors import Refused

_LORA = "--enable-lora"
_CEILING = "spec.budget.kvCache"
_TAKES: Mapping[str, str] = {
    "--compilation-config": "may change more than CUDA graphs' mode and sizes, which are counted",
    "--enable-dbo": "runs two batches at once, each with its activations",
    "--enable-eplb": "keeps copies of experts",
    "--limit-mm-per-prompt": "changes the peak of the encoder",
    "--mm-encoder-tp-mode": "keeps the encoder whole on every GPU",
    "--mm-processor-kwargs": "changes the peak of the encoder",
    "--performance-mode": "changes batch limits",
    "--skip-mm-profiling": "leaves the encoder out of the engine's own count",
}
_LORA_DEFAULTS = {"--max-loras": 1, "--max-lora-rank": 16}


def extra_args_take_memory(at: Slice) -> Verdict | None:
    """Some are known: adapters by arithmetic, others by what they do."""
    given = _given(at)
    found = [f"{flag} {_TAKES[flag]}" for flag in given if flag in _TAKES]
    lora_bytes = _lora_bytes(at, given) if _LORA in given else None
    if _LORA in given and not _has_room(at, lora_bytes):
        taken = "an unknown amount" if lora_bytes is None else size(lora_bytes)
        found.append(f"{_LORA} takes {taken} of each GPU for its slots")
    if not found:
        return None
    return at.verdict(
        Reason.EXTRA_ARGS_TAKE_MEMORY,
        Severity.WARN,
        f"the plan does not count what extra arguments change: {'; '.join(found)}",
        "spec.engine.extraArgs",
        _room_for(at, lora_bytes),
    )


def _given(at: Slice) -> dict[str, str]:
    """Return the extra arguments by flag, as they are passed on; none where they are refused."""
    try:
        written = extra_args.normalised(at.spec.engine.extra_args, at.case.engine)
    except Refused:
        return {}  # said by the refusal
    flags = [word.partition("=") for word in written if word.startswith("--")]
    return {name.partition(".")[0]: value for name, _, value in flags}


def _lora_bytes(at: Slice, given: Mapping[str, str]) -> int | None:
    """Return the slots for adapters on each GPU: two thin matrices beside each projection.

    One of the two is whole on every GPU, the other is divided with the projection.
    """
    slots, rank = (int(given.get(flag, least)) for flag, least in _LORA_DEFAULTS.items())
    hidden, gpus = at.model.hidden_size, at.entry.engine.tensor_parallel
    if hidden is None:
        return None
    widths = [_width(layer, hidden, gpus) for layer in at.model.layers]
    if None in widths:
        return None
    total = sum(width for width in widths if width is not None)
    stages = at.entry.engine.pipeline_parallel
    return slots * rank * total * element_bytes(at.model.dtype) // stages


def _width(layer: Layer, hidden: int, gpus: int) -> int | None:
    """Return the inputs and outputs of a layer's projections; None for experts."""
    attention, mlp = layer.attention, layer.mlp
    if not isinstance(mlp, Dense) or attention is None:
        return None
    heads = attention.heads * attention.head_dim // gpus
    kv_heads = parallelism.kv_heads_per_gpu(attention.kv_heads, gpus) * attention.head_dim
    inner = mlp.intermediate_size // gpus
    return 6 * hidden + 2 * heads + 2 * kv_heads + mlp.projections * inner + hidden


def _has_room(at: Slice, lora_bytes: int | None) -> bool:
    """Tell whether a ceiling of the KV cache leaves what the adapters take."""
    alone = at.with_field(_CEILING, None) if at.spec.budget.kv_cache is not None else None
    if alone is None or lora_bytes is None:
        return False
    now, then = (found.entry.sizing.budget.kv_cache.bytes for found in (at, alone))
    return then - now >= lora_bytes


def _room_for(at: Slice, lora_bytes: int | None) -> tuple[Change, ...]:
    """Leave what adapters take out of the KV cache."""
    alone = at if at.spec.budget.kv_cache is None else at.with_field(_CEILING, None)
    if lora_bytes is None or alone is None or _has_room(at, lora_bytes):
        return ()
    left = (alone.entry.sizing.budget.kv_cache.bytes - lora_bytes) // 2**20
    values: list[Value] = [f"{left}Mi"] if left > 0 else []

    def has_room(found: Slice) -> str | None:
        return "leaves room for the adapters" if _has_room(found, lora_bytes) else None

    return tuple(nearest.change(_CEILING, values, at.with_field, has_room))
