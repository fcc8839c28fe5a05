"""The keys of `--speculative-config`: which there are, and which values the engine takes."""

from collections.abc import Mapping
from typing import Any, NoReturn

from tidegate.api.reasons import Reason
from tidegate.core.budget import config_keys
from tidegate.errors import Refused
from tidegate.facts.engines import Engine

FIELD = "speculative-config"
WITHOUT_DRAFT = ("ngram", "ngram_gpu", "suffix", "extract_hidden_states", "custom_class")
# Flags that set one key, for short.
_SHORT = {"spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens"}
_KNOWN = config_keys.names(
    "attention_backend code_revision disable_eagle_block_drop disable_padded_drafter_batch "
    "draft_load_config draft_sample_method draft_tensor_parallel_size dspark_draft_topk "
    "enable_adaptive_verification enforce_eager index_share_for_mtp_iteration kv_cache_dtype "
    "max_model_len method model moe_backend num_speculative_tokens "
    "num_speculative_tokens_per_batch_size parallel_drafting prompt_lookup_max prompt_lookup_min "
    "quantization rejection_sample_method revision suffix_decoding_max_cached_requests "
    "suffix_decoding_max_spec_factor suffix_decoding_max_tree_depth "
    "suffix_decoding_min_token_prob synthetic_acceptance_length synthetic_acceptance_rates "
    "use_heterogeneous_vocab use_local_argmax_reduction"
)
_FLAGS = (
    *("disable_padded_drafter_batch", "parallel_drafting", "use_heterogeneous_vocab"),
    *("disable_eagle_block_drop", "enable_adaptive_verification", "use_local_argmax_reduction"),
)
_COUNTS = (
    *("draft_tensor_parallel_size", "max_model_len", "prompt_lookup_max", "prompt_lookup_min"),
    *("suffix_decoding_max_tree_depth", "dspark_draft_topk"),
)
# The engine would start with these, and run another draft than the one that is sized.
_NOT_SIZED = {
    "parallel_drafting": "it drafts all tokens at once, which is not sized; leave it out",
    "use_heterogeneous_vocab": "such a draft is not sized; use one of the model's vocabulary",
}
_OF_ONE_METHOD = {"index_share_for_mtp_iteration": "mtp", "dspark_draft_topk": "dspark"}


def read(arguments: Mapping[str, Any], engine: Engine) -> dict[str, Any]:
    """Return the keys with underscores, those of the short flags among them.

    Raises:
        Refused: SPECULATION_INVALID, a key that the engine does not have or take so.
    """
    given = arguments.get(FIELD) or {}
    for flag, key in _SHORT.items():
        if flag in arguments and key in given:
            refuse(key, f"is given by --{flag} too; leave one of them out")
    config = {key.replace("-", "_"): value for key, value in given.items()}
    config |= {key: arguments[flag] for flag, key in _SHORT.items() if flag in arguments}
    config = {key: value for key, value in config.items() if value is not None}
    for key in config:
        if key == "tensor_parallel_size":
            refuse(key, "is no key of the engine's; use draft_tensor_parallel_size")
        if key not in _KNOWN:
            refuse(key[:60], f"vLLM {engine.version} has no such key; remove it")
    _check_values(config)
    if "kv_cache_dtype" in config and config["kv_cache_dtype"] not in engine.kv_cache_dtypes:
        listed = ", ".join(engine.kv_cache_dtypes)
        refuse("kv_cache_dtype", f"{config['kv_cache_dtype']!r:.60} is none of {listed}")
    if "attention_backend" in config:
        config["attention_backend"] = _backend(config["attention_backend"], engine)
    return config


def check(
    config: Mapping[str, Any], method: str, arguments: Mapping[str, Any], longest: int
) -> None:
    """Check keys beside the method and beside the model's own flags.

    Raises:
        Refused: SPECULATION_INVALID names the key.
    """
    if method in ("ngram", "ngram_gpu"):
        least, most = config.get("prompt_lookup_min"), config.get("prompt_lookup_max")
        if least is not None and most is not None and least > most:
            refuse(
                "prompt_lookup_min", f"{least} is above prompt_lookup_max {most}; lower it to that"
            )
    for key, owner in _OF_ONE_METHOD.items():
        if key in config and method != owner:
            refuse(key, f"goes with method {owner} alone, not {method}; leave it out")
    if method not in WITHOUT_DRAFT:
        _check_lengths(config, longest)
        _check_draft_parallel(config, method, arguments.get("tensor-parallel-size", 1))


def refuse(key: str, problem: str) -> NoReturn:
    """Refuse the object for one key.

    Raises:
        Refused: always, with SPECULATION_INVALID.
    """
    raise Refused(Reason.SPECULATION_INVALID, f"{FIELD}.{key}: {problem}", f"{FIELD}.{key}")


def _check_values(config: Mapping[str, Any]) -> None:
    for key in _FLAGS:
        if not isinstance(config.get(key, False), bool):
            refuse(key, f"must be true or false, not {config[key]!r:.40}")
    for key in _COUNTS:
        value = config.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            refuse(key, f"must be a whole number of at least 1, not {value!r:.40}")
    for key, why in _NOT_SIZED.items():
        if config.get(key, False):
            refuse(key, why)


def _check_lengths(config: Mapping[str, Any], longest: int) -> None:
    asked = config.get("max_model_len", 1)
    if asked > longest:
        refuse("max_model_len", f"{asked} is above max-model-len {longest}; lower it to that")


def _check_draft_parallel(config: Mapping[str, Any], method: str, tensor_parallel: int) -> None:
    """Check the draft's GPUs; all but a draft_model are divided as the model is, even with 1."""
    key = "draft_tensor_parallel_size"
    asked = config.get(key, tensor_parallel)
    if asked not in (1, tensor_parallel):
        refuse(key, f"{asked} must be 1 or tensor-parallel-size {tensor_parallel}; leave it out")
    if method == "draft_model" and asked != tensor_parallel:
        refuse(
            key, f"{asked} beside tensor-parallel-size {tensor_parallel} is not sized; leave it out"
        )


def _backend(asked: Any, engine: Engine) -> str | None:
    name = str(asked).upper()
    if name == "AUTO":
        return None
    if not isinstance(asked, str) or name not in engine.attention_backends:
        listed = ", ".join(engine.attention_backends)
        refuse("attention_backend", f"{asked!r:.60} is none of {listed}")
    return name
