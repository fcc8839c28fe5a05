"""From the spec to the engine's flags: every value that the plan depends on is settled here.

What the spec leaves open takes a documented default: of the model, of the engine version for the
GPU, or of the budget.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.api.engine_spec import EngineSpec, Speculative
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.pool_spec import Pool
from tidegate.api.reasons import Reason
from tidegate.core.budget import draft, quantization, sizing
from tidegate.core.budget import engine_config as configs
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape
from tidegate.core.budget.sizing import Sizing
from tidegate.core.command_line import graph_flags, scheduling, serve, speculation, text_only
from tidegate.core.render import extra_args
from tidegate.errors import Refused
from tidegate.facts import engines, models
from tidegate.facts.engines import Engine
from tidegate.facts.gpus import Gpu


def engine_of(spec: EngineSpec) -> Engine:
    """Return the catalogue of the engine version that the spec names or its image's tag tells.

    Raises:
        Refused: ENGINE_VERSION_UNKNOWN, neither tells, the catalogue lacks it, or the two differ
            by more than a patch.
    """
    of_image = engines.version_of_image(spec.image)
    version = spec.version or of_image
    if version is None:
        raise Refused(
            Reason.ENGINE_VERSION_UNKNOWN,
            f"the tag of {spec.image} does not tell vLLM's version; set engine.version to one of "
            f"{', '.join(engines.versions())}",
            "spec.engine.version",
        )
    if of_image is not None and not engines.is_same_minor(version, of_image):
        raise Refused(
            Reason.ENGINE_VERSION_UNKNOWN,
            f"engine.version is {version}, and the tag of {spec.image} says {of_image}; remove the "
            "field, or correct one of the two",
            "spec.engine.version",
        )
    return engines.engine(version)


def engine_config(
    spec: LLMDeploymentSpec, pool: Pool, model: ModelShape, gpu: Gpu, engine: Engine
) -> EngineConfig:
    """Return the engine's flags for a pool on a GPU, before the budget is known."""
    require_quantization(spec, model)
    asked, longest = spec.engine, max_model_len(spec.engine, model)
    default = engine.batch_defaults(gpu.cuda_total.bytes, gpu.product, gpu.compute_capability)
    seqs = asked.max_num_seqs or default.max_num_seqs
    batched = asked.max_num_batched_tokens or _batched_tokens(
        default.max_num_batched_tokens, asked.chunked_prefill, seqs, longest
    )
    _check_batch(asked, seqs, batched, longest)
    further = _further_flags(asked, engine)
    graphs = graph_flags.read(further)
    return EngineConfig(
        version=engine.version,
        max_model_len=longest,
        max_num_seqs=seqs,
        max_num_batched_tokens=batched,
        model_dtype=spec.model.weights.dtype,
        quantization=spec.model.weights.quantization,
        kv_cache_dtype=engine.kv_dtype(spec.kv_cache.dtype),
        kv_cache_skip_layers=tuple(sorted(set(spec.kv_cache.skip_layers))),
        block_size=spec.kv_cache.block_size,
        tensor_parallel=pool.tensor_parallel,
        pipeline_parallel=pool.pipeline_parallel,
        prefix_caching=asked.prefix_caching,
        expert_parallel=further.get("enable-expert-parallel", False),
        async_scheduling=_async_scheduling(asked, further),
        enforce_eager=asked.enforce_eager or graphs.enforce_eager,
        capture_sizes=graphs.sizes,
        largest_capture_size=graphs.largest,
        graph_mode=graphs.mode,
        language_only=text_only.is_so(further, model),
        takes_embeddings=further.get("enable-mm-embeds", False),
        enable_chunked_prefill=asked.chunked_prefill,
        attention_backend=asked.attention_backend,
        speculative=_speculative(asked.speculative),
    )


def _async_scheduling(asked: EngineSpec, further: Mapping[str, Any]) -> bool | None:
    speculative = asked.speculative
    why = None if speculative is None else speculation.why_synchronous(speculative.method)
    return scheduling.settle(further.get("async-scheduling"), why, "spec.engine.extraArgs")


def _further_flags(asked: EngineSpec, engine: Engine) -> Mapping[str, Any]:
    """Return what `extraArgs` set; nothing where they are refused, which the checks say."""
    if not asked.extra_args:
        return {}
    try:
        words = extra_args.normalised(asked.extra_args, engine)
        return serve.read(words, engine).arguments
    except Refused:
        return {}


def max_model_len(asked: EngineSpec, model: ModelShape) -> int:
    """Return the longest sequence, prompt and output together; the model's own limit by default.

    Raises:
        Refused: LENGTH_INVALID, the model has no positions for so many tokens; or its config does
            not tell, and neither does the spec.
    """
    if not model.length_is_known:
        if asked.max_model_len is None:
            raise Refused(
                Reason.LENGTH_INVALID,
                "the model's config does not tell how many tokens it allows; set maxModelLen",
                "spec.engine.maxModelLen",
            )
        return asked.max_model_len
    longest, allowed = asked.max_model_len or model.max_model_len, model.longest_model_len
    if longest > allowed:
        raise Refused(
            Reason.LENGTH_INVALID,
            f"maxModelLen {longest} is above the {allowed} tokens that the model's config allows; "
            "lower it to that",
            "spec.engine.maxModelLen",
        )
    return longest


def require_quantization(spec: LLMDeploymentSpec, model: ModelShape) -> None:
    """Check the quantisation that is asked for beside the checkpoint's own.

    Raises:
        Refused: QUANTIZATION_UNSUPPORTED, the engine would not start with it.
    """
    quantization.require_possible(
        model.quantization,
        spec.model.weights.quantization,
        "spec.model.weights.quantization",
    )


def with_concurrency(engine: EngineConfig, asked: EngineSpec, sized: Sizing) -> EngineConfig:
    """Bound the default of max_num_seqs by what the KV cache holds of the declared workload.

    More sequences than fit would only be preempted. A value that the user set is left alone, and
    without a workload there is nothing to bound by.
    """
    if asked.max_num_seqs is not None or sized.requests_at_p95 is None:
        return engine
    return replace(engine, max_num_seqs=max(1, min(engine.max_num_seqs, sized.requests_at_p95)))


def workload_of(spec: LLMDeploymentSpec, longest: int) -> sizing.Workload | None:
    """Return the declared workload; refuse one that is longer than the engine's limit."""
    declared = spec.workload
    if declared is None:
        return None
    prompt, output = declared.prompt_tokens.p95, declared.output_tokens.p95
    if prompt + output > longest:
        raise Refused(
            Reason.LENGTH_INVALID,
            f"a p95 request of {prompt} + {output} = {prompt + output} tokens is above maxModelLen "
            f"{longest}; raise maxModelLen or lower the workload",
            "spec.workload",
        )
    return sizing.Workload(prompt_tokens_p95=prompt, output_tokens_p95=output)


def _batched_tokens(default: int, chunked_prefill: bool, seqs: int, longest: int) -> int:
    """The engine's own default, capped and raised as the engine itself does."""
    tokens = min(default, seqs * longest)
    if not chunked_prefill:
        tokens = max(tokens, longest)
    return max(tokens, seqs)


def _check_batch(asked: EngineSpec, seqs: int, batched: int, longest: int) -> None:
    if batched < seqs:
        raise Refused(
            Reason.BATCH_INVALID,
            f"maxNumBatchedTokens {batched} is below maxNumSeqs {seqs}: a step could not hold one "
            "token of each sequence; raise the first or lower the second",
            "spec.engine.maxNumBatchedTokens",
        )
    if not asked.chunked_prefill and batched < longest:
        raise Refused(
            Reason.BATCH_INVALID,
            f"maxNumBatchedTokens {batched} is below maxModelLen {longest} and chunkedPrefill is "
            "off: a long prompt would never run; turn it on or raise maxNumBatchedTokens",
            "spec.engine.maxNumBatchedTokens",
        )
    threshold = asked.long_prefill_token_threshold
    if threshold is not None and threshold > longest:
        raise Refused(
            Reason.LENGTH_INVALID,
            f"longPrefillTokenThreshold {threshold} is above maxModelLen {longest}; lower it",
            "spec.engine.longPrefillTokenThreshold",
        )


def _speculative(asked: Speculative | None) -> configs.Speculative | None:
    if asked is None:
        return None
    method, config = speculation.by_name(asked.method, asked.model), _draft_config(asked)
    if config is not None:
        method = draft.method_of(method, config)
    return configs.Speculative(method=method, tokens=asked.tokens, draft=config)


def _draft_config(asked: Speculative) -> Mapping[str, Any] | None:
    if asked.model is None or asked.config is not None:
        return asked.config
    known = models.find(asked.model)
    if known is None:
        raise Refused(
            Reason.SPECULATION_INVALID,
            f"the draft model {asked.model} is not in the catalogue; give its config.json in "
            "engine.speculative.config",
            "spec.engine.speculative.config",
        )
    return known.config
