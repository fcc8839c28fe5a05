"""Variables of the engine's environment that change what is planned, beside any flag."""

CHANGE_THE_PLAN: dict[str, str] = {
    "VLLM_BATCH_INVARIANT": "it changes which attention backends the engine takes",
    "VLLM_ENABLE_STARTUP_PLAN": "it brings back an earlier KV size",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "the plan counts on the engine's default",
    "VLLM_MLA_DISABLE": "it changes the size of the KV cache",
    "VLLM_MODEL_REDIRECT_PATH": "it serves another model",
    "VLLM_PP_LAYER_PARTITION": "the plan counts on an even division of the layers",
    "VLLM_USE_V2_MODEL_RUNNER": "the plan counts on the engine's own choice of model runner",
}
PREFIXES_CHANGE_THE_PLAN: dict[str, str] = {
    "CUDA_MPS_": "it limits the GPU's memory beneath the plan",
    "VLLM_ALLOW_": "it lifts a limit that the plan relies on",
    "VLLM_DP_": "it changes how many engines there are",
}


def why_not(name: str) -> str | None:
    """Say how a variable changes what is planned; None if it does not."""
    if name in CHANGE_THE_PLAN:
        return CHANGE_THE_PLAN[name]
    found = (why for start, why in PREFIXES_CHANGE_THE_PLAN.items() if name.startswith(start))
    return next(found, None)
