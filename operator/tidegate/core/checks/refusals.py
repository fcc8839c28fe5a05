"""Refusals as verdicts: why there is no plan, or none on some class, and what would make one.

A plan stops at its first fault. So that several are told together, the faults that a spec shows by
itself are looked for one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core import class_limits, host_memory, resolve
from tidegate.core import nodes as node_classes
from tidegate.core.budget import parallelism
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.checks import nearest
from tidegate.core.checks.subject import Case, World, with_field
from tidegate.core.checks.verdict import Change, Severity, Value, Verdict
from tidegate.core.render import environment, extra_args, pod
from tidegate.errors import Refused

_BATCHED = "spec.engine.maxNumBatchedTokens"
_BLOCK_SIZES = (16, 32, 64, 128)
Knob = tuple[str, Iterator[Value] | list[Value]]
Works = Callable[[str, Value], bool]


@dataclass(frozen=True)
class _Outcome:
    """What comes of a changed spec: a plan, or none."""

    spec: LLMDeploymentSpec
    case: Case | None


def of_spec(spec: LLMDeploymentSpec, world: World) -> list[Refused]:
    """Return every fault that neither nodes nor memory decide, one for each field."""
    found: dict[str | None, Refused] = {}
    for check in _faults(spec, world):
        try:
            check()
        except Refused as refusal:
            found.setdefault(refusal.field, refusal)
    return list(found.values())


def verdict(
    spec: LLMDeploymentSpec, world: World, refusal: Refused, others: Sequence[Refused] = ()
) -> Verdict:
    """Return a refusal as a verdict, with the nearest change of each kind that mends it.

    Where the spec has `others` by itself, a change is one that leaves only those.
    """
    left = {other.field for other in others if other is not refusal}

    def attempt(path: str, value: Value) -> _Outcome | None:
        changed = with_field(spec, path, value)
        return _outcome(changed, world) if changed else None

    def effect(found: _Outcome) -> str | None:
        if found.case is not None:
            return _effect(found.case)
        still = {fault.field for fault in of_spec(found.spec, world)}
        return "mends this one" if still and still <= left else None

    def works(path: str, value: Value) -> bool:
        found = attempt(path, value)
        return found is not None and effect(found) is not None

    changes: list[Change] = []
    for path, values in _knobs(spec, world, refusal, works):
        changes += nearest.change(path, values, attempt, effect)
    return Verdict(
        Reason(refusal.reason), Severity.REFUSE, refusal.message, refusal.field, tuple(changes)
    )


def of_excluded_classes(case: Case) -> list[Verdict]:
    """Return a warning for each class of node that a pool matches and cannot use."""
    return [
        Verdict(
            Reason(exclusion.reason),
            Severity.WARN,
            f"not used: {exclusion.message}",
            f"spec.pools.{exclusion.pool}",
            pool=exclusion.pool,
            node_class=exclusion.node_class,
        )
        for exclusion in case.plan.exclusions
    ]


def _outcome(spec: LLMDeploymentSpec, world: World) -> _Outcome:
    try:
        return _Outcome(spec, Case(spec, world.plan(spec), world))
    except Refused:
        return _Outcome(spec, None)


def _faults(spec: LLMDeploymentSpec, world: World) -> Iterator[Callable[[], object]]:
    """Yield what may refuse a spec whatever the nodes are."""
    yield lambda: resolve.engine_of(spec.engine)
    yield lambda: world.model
    yield lambda: resolve.engine_of(spec.engine).kv_dtype(spec.kv_cache.dtype)
    yield partial(_check_backend, spec)
    yield lambda: resolve.require_quantization(spec, world.model)
    yield partial(_check_lengths, spec, world)
    yield lambda: extra_args.normalised(spec.engine.extra_args, resolve.engine_of(spec.engine))
    yield lambda: environment.check(spec.engine.env)
    for name, pool in spec.pools.by_name().items():
        yield partial(pod.check_template, name, pool.pod_template)
        yield partial(_check_division, spec, name, world)
        yield partial(class_limits.require_pod_memory, spec, name)


def _check_backend(spec: LLMDeploymentSpec) -> None:
    """Refuse a backend that this version lacks, or that does not declare the KV type.

    The engine itself starts with some of these, and then answers wrongly.
    """
    engine, asked = resolve.engine_of(spec.engine), spec.engine.attention_backend
    if asked is None:
        return
    if asked not in engine.attention_backends:
        raise Refused(
            Reason.ATTENTION_BACKEND_UNSUPPORTED,
            f"vLLM {engine.version} has no attention backend {asked}; remove the field, or use one "
            f"of {', '.join(engine.attention_backends)}",
            "spec.engine.attentionBackend",
        )
    dtype, declared = engine.kv_dtype(spec.kv_cache.dtype), engine.kv_dtypes_of_backend(asked)
    if declared is not None and dtype not in declared:
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"attention backend {asked} of vLLM {engine.version} has no KV type {dtype}; it has "
            f"{', '.join(declared)}",
            "spec.kvCache.dtype",
        )


def _check_lengths(spec: LLMDeploymentSpec, world: World) -> None:
    resolve.workload_of(spec, resolve.max_model_len(spec.engine, world.model))


def _check_division(spec: LLMDeploymentSpec, name: str, world: World) -> None:
    pool, model = spec.pools.by_name()[name], world.model
    longest = spec.engine.max_model_len or model.max_model_len
    engine = EngineConfig(
        version="",
        max_model_len=longest,
        max_num_seqs=1,
        max_num_batched_tokens=longest,
        tensor_parallel=pool.tensor_parallel,
        pipeline_parallel=pool.pipeline_parallel,
    )
    try:
        parallelism.check(model, engine)
    except Refused as refusal:
        field = f"spec.pools.{name}.tensorParallel"
        raise Refused(refusal.reason, refusal.message, field) from refusal


def _effect(case: Case) -> str:
    requests = min(entry.sizing.requests_at_max_model_len for entry in case.plan.slices)
    at = "one request" if requests == 1 else f"{requests:,} requests"
    return f"fits: {at} of maxModelLen in each pod"


def _knobs(spec: LLMDeploymentSpec, world: World, refusal: Refused, works: Works) -> Iterator[Knob]:
    """Yield the fields that may mend a refusal, each with the values to try, nearest first."""
    match refusal.reason:
        case Reason.BUDGET_TOO_SMALL | Reason.WEIGHTS_DO_NOT_FIT:
            yield from _for_memory(spec, world, refusal, works)
        case Reason.BUDGET_UNCERTAIN:
            sharers = {found.gpu.sharers for found in node_classes.classes(world.nodes).values()}
            shares = [class_limits.share_of_a_pod(pods) for pods in sorted(sharers) if pods > 1]
            yield "spec.budget.safetyLine", [*shares]
        case Reason.KV_DTYPE_UNSUPPORTED:
            yield "spec.kvCache.dtype", [*nearest.KV_DTYPES, "auto"]
        case Reason.ATTENTION_BACKEND_UNSUPPORTED:
            yield "spec.engine.attentionBackend", [None]
        case Reason.BLOCK_SIZE_UNSUPPORTED:
            yield "spec.kvCache.blockSize", _block_sizes(spec.kv_cache.block_size or 16)
        case Reason.PARALLELISM_INVALID | Reason.NODE_TOO_SMALL:
            yield from _other_divisions(spec, world)
        case Reason.QUANTIZATION_UNSUPPORTED:
            yield "spec.model.weights.quantization", [None, "fp8"]
        case Reason.OFFLOAD_TOO_LARGE:
            yield "spec.kvCache.offload.cpu", _largest_offload(spec, works)
        case Reason.LENGTH_INVALID:
            yield from _for_lengths(spec, world, refusal, works)
        case Reason.BATCH_INVALID:
            yield "spec.engine.maxNumBatchedTokens", [None]
            yield "spec.engine.maxNumSeqs", [spec.engine.max_num_batched_tokens]
            yield "spec.engine.chunkedPrefill", [True]
        case Reason.PAIR_INCOMPATIBLE:
            yield "spec.kvCache.blockSize", list(_BLOCK_SIZES)
            yield from _other_divisions(spec, world)
        case _:  # no other value of one field mends it; the message says what does
            return


def _for_memory(
    spec: LLMDeploymentSpec, world: World, refusal: Refused, works: Works
) -> Iterator[Knob]:
    if refusal.field == _BATCHED:
        tokens = spec.engine.max_num_batched_tokens or 0
        yield _BATCHED, [tokens >> halvings for halvings in range(1, tokens.bit_length())]
    if refusal.field == "spec.budget.kvCache":
        yield "spec.budget.kvCache", [None]
    yield "spec.engine.maxModelLen", _longest(spec, world, works)
    yield "spec.kvCache.dtype", list(nearest.other_kv_dtypes(spec.kv_cache.dtype))
    for name, pool in spec.pools.by_name().items():
        wider = nearest.wider(world.model, pool.tensor_parallel)
        yield f"spec.pools.{name}.tensorParallel", list(wider)
    if world.model.quantization is None and spec.model.weights.quantization is None:
        yield "spec.model.weights.quantization", ["fp8"]


def _for_lengths(
    spec: LLMDeploymentSpec, world: World, refusal: Refused, works: Works
) -> Iterator[Knob]:
    if refusal.field == "spec.workload":  # it is longer than maxModelLen
        yield "spec.engine.maxModelLen", [_least(spec)]
    elif refusal.field == "spec.engine.longPrefillTokenThreshold":
        yield "spec.engine.longPrefillTokenThreshold", [None]
    else:
        yield "spec.engine.maxModelLen", _longest(spec, world, works)


def _longest(spec: LLMDeploymentSpec, world: World, works: Works) -> Iterator[Value]:
    """Yield the longest maxModelLen that works; it is looked for only when it is asked for."""
    now = spec.engine.max_model_len or world.model.max_model_len
    below = min(now, world.model.longest_model_len + 1) if world.model.length_is_known else now
    path = "spec.engine.maxModelLen"
    longest = nearest.largest(below, lambda length: works(path, length), _least(spec))
    if longest is not None:
        yield longest


def _largest_offload(spec: LLMDeploymentSpec, works: Works) -> Iterator[Value]:
    """Yield the largest offload that works, in whole GiB."""
    path = "spec.kvCache.offload.cpu"
    most = -(-host_memory.offload_bytes(spec) // 2**30)
    found = nearest.largest(most, lambda gib: works(path, f"{gib}Gi"))
    if found is not None:
        yield f"{found}Gi"


def _least(spec: LLMDeploymentSpec) -> int:
    """Return the shortest maxModelLen that the declared workload allows."""
    if spec.workload is None:
        return 1
    return spec.workload.prompt_tokens.p95 + spec.workload.output_tokens.p95


def _other_divisions(spec: LLMDeploymentSpec, world: World) -> Iterator[Knob]:
    """Yield for each pool the other tensor parallel sizes, the nearest first."""
    for name, pool in spec.pools.by_name().items():
        now = pool.tensor_parallel
        others = {*nearest.wider(world.model, now), *nearest.narrower(world.model, now)}
        sizes: list[Value] = [*sorted(others, key=lambda n: (abs(n - now), -n))]
        yield f"spec.pools.{name}.tensorParallel", sizes
        if pool.pipeline_parallel > 1:
            yield f"spec.pools.{name}.pipelineParallel", [1]


def _block_sizes(now: int) -> list[Value]:
    return [*sorted((size for size in _BLOCK_SIZES if size != now), key=lambda n: abs(n - now))]
