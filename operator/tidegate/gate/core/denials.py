"""The words and codes with which the gate says no."""

from tidegate.gate.exchange import Refusal, Why

RATE_LIMIT = "rate_limit_error"
UNAVAILABLE = "service_unavailable_error"
API_ERROR = "api_error"

_CONTENDED = {
    Why.KV_BUDGET: "The KV cache has no room for this request in time.",
    Why.TTFT_SLO: "Prompts that came before leave no time for this one within the SLO.",
    Why.TPOT_SLO: "One request more would slow all answers beyond the SLO.",
    Why.MAX_SEQS: "The engines run as many requests as they may.",
    Why.QUEUE_FULL: "The queue is full.",
    Why.QUEUE_TIMEOUT: "No pod had room while the request could wait.",
    Why.SHED: "Load is being shed.",
    Why.TENANT_SHARE: "Your requests in flight hold all tokens that you may have at once.",
}
_UNAVAILABLE = {
    Why.NO_ENDPOINTS: "No engine is ready.",
    Why.NO_PREFILL: "No prefill engine is ready.",
    Why.NO_DECODE: "No decode engine is ready.",
    Why.NO_CONFIGURATION: "The gate has no configuration yet.",
}


def contended(why: Why, retry_after_seconds: int, detail: str = "") -> Refusal:
    """Say that it would not be served in time: 429."""
    message = f"{_CONTENDED[why]}{' ' + detail if detail else ''}"
    return Refusal(
        429,
        why,
        f"{message} Try again in {retry_after_seconds} s.",
        kind=RATE_LIMIT,
        retry_after_seconds=retry_after_seconds,
    )


def unavailable(why: Why, retry_after_seconds: int) -> Refusal:
    """Say that nobody could serve it now: 503."""
    return Refusal(
        503,
        why,
        f"{_UNAVAILABLE[why]} Try again in {retry_after_seconds} s.",
        kind=UNAVAILABLE,
        retry_after_seconds=retry_after_seconds,
    )


def too_long(
    prompt_tokens: int, samples: int, blocks: int, largest_blocks: int, *, is_exact: bool
) -> Refusal:
    """Say that it never fits: 400."""
    least = "" if is_exact else "at least "
    answers = f" and {samples} answers" if samples > 1 else ""
    return Refusal(
        400,
        Why.TOO_LONG,
        f"A prompt of {least}{prompt_tokens} tokens{answers} takes {blocks} blocks of KV cache; "
        f"an empty engine has {largest_blocks}. Shorten the prompt.",
        param="prompt",
    )


def failed(detail: str) -> Refusal:
    """Say that the engine failed and nobody else could take over: 502."""
    return Refusal(502, Why.ENGINE_ERROR, f"The engine failed. {detail}", kind=API_ERROR)
