"""One deployment, its phases side by side: where the time and the memory go."""

from tidegate.core.monitoring.board import (
    ONE,
    ONE_POOL,
    Board,
    Panel,
    Query,
    Row,
    engine_rate,
    quantiles,
    rate,
)
from tidegate.core.monitoring.promql import operators

_POOL_LABELS = "llmdeployment, pool"


def board() -> Board:
    """Return the dashboard."""
    return Board(
        "deployment",
        "Tidegate: one deployment",
        "What its users feel, and prefill and decode side by side.",
        ("namespace", "llmdeployment", "pool"),
        (
            Row("What users feel", (_ttft(), _tpot(), _requests(), _objectives())),
            Row("Requests", (_running(), _waiting())),
            Row("KV cache", (_kv(), _preemptions())),
            Row("Prompts", (_hit_rate(), _prompt_tokens(), _prompt_lengths())),
            Row("Answers", (_made_tokens(), _finish_reasons(), _answer_lengths())),
            Row("Time in the engines", (_queue_time(), _prefill_time(), _decode_time())),
        ),
    )


def _of_pool(name: str) -> str:
    return f"{name}{{{ONE_POOL}}}"


def _ttft() -> Panel:
    return Panel(
        "Time to first token",
        "At the gates, waiting included; the objective where there is one.",
        quantiles(rate("le", "tidegate_gate_ttft_seconds_bucket")),
        "s",
    )


def _tpot() -> Panel:
    return Panel(
        "Time between tokens",
        "At the gates.",
        quantiles(rate("le", "tidegate_gate_inter_token_seconds_bucket")),
        "s",
    )


def _requests() -> Panel:
    return Panel(
        "Requests by how they ended",
        "`refused` is by the gates; the others were admitted.",
        (Query(rate("outcome", "tidegate_gate_requests_total"), "{{outcome}}"),),
        "reqps",
    )


def _objectives() -> Panel:
    told = operators("tidegate_slo_seconds", ONE)
    return Panel(
        "Objectives",
        "spec.slo: 95 % of the requests are to be this fast.",
        (Query(f"max by (objective) ({told})", "{{objective}}"),),
        "s",
        is_number=True,
    )


def _running() -> Panel:
    return Panel(
        "Running in $pool",
        "Requests that the engines compute.",
        (Query(_of_pool("tidegate:requests_running:sum"), "running"),),
        by_pool=True,
    )


def _waiting() -> Panel:
    backlog = _of_pool("tidegate:prefill_backlog:seconds")
    return Panel(
        "Waiting in $pool",
        "Requests in the engines' queues, and how long the prompts on their way will take.",
        (
            Query(_of_pool("tidegate:requests_waiting:sum"), "waiting"),
            Query(backlog, "backlog, seconds"),
        ),
        by_pool=True,
    )


def _kv() -> Panel:
    return Panel(
        "KV cache of $pool",
        "The fullest pod, the mean, and what the gates have reserved.",
        (
            Query(_of_pool("tidegate:kv_usage:max"), "fullest"),
            Query(_of_pool("tidegate:kv_usage:mean"), "mean"),
            Query(_of_pool("tidegate:kv_reserved:ratio"), "reserved"),
        ),
        "percentunit",
        top=1.0,
        by_pool=True,
    )


def _preemptions() -> Panel:
    return Panel(
        "Preemptions in $pool",
        "Requests that lost their KV and are computed again.",
        (Query(engine_rate("pod", "vllm:num_preemptions_total"), "{{pod}}"),),
        "reqps",
        by_pool=True,
    )


def _hit_rate() -> Panel:
    return Panel(
        "Prefix cache of $pool",
        "Share of the prompt tokens that it had.",
        (
            Query(_of_pool("tidegate:prefix_cache_hit:ratio_rate5m"), "5 minutes"),
            Query(_of_pool("tidegate:prefix_cache_hit:ratio_rate1h"), "an hour"),
        ),
        "percentunit",
        top=1.0,
        by_pool=True,
    )


def _prompt_tokens() -> Panel:
    return Panel(
        "Prompt tokens of $pool",
        "A second.",
        (Query(_of_pool("tidegate:prompt_tokens:rate5m"), "prompt tokens"),),
        by_pool=True,
    )


def _prompt_lengths() -> Panel:
    return Panel(
        "Length of prompts in $pool",
        "In tokens.",
        quantiles(engine_rate("le", "vllm:request_prompt_tokens_bucket")),
        by_pool=True,
    )


def _made_tokens() -> Panel:
    return Panel(
        "Tokens made by $pool",
        "A second.",
        (Query(_of_pool("tidegate:generation_tokens:rate5m"), "tokens"),),
        by_pool=True,
    )


def _finish_reasons() -> Panel:
    ended = engine_rate("finished_reason", "vllm:request_success_total")
    return Panel(
        "Why answers ended in $pool",
        "`length` is max_tokens; `abort` is a client that left or a pod that stopped.",
        (Query(ended, "{{finished_reason}}"),),
        "reqps",
        by_pool=True,
    )


def _answer_lengths() -> Panel:
    return Panel(
        "Length of answers of $pool",
        "In tokens.",
        quantiles(engine_rate("le", "vllm:request_generation_tokens_bucket")),
        by_pool=True,
    )


def _queue_time() -> Panel:
    return _time("Queue", "In the engine's own queue.", "vllm:request_queue_time_seconds_bucket")


def _prefill_time() -> Panel:
    return _time("Prefill", "", "vllm:request_prefill_time_seconds_bucket")


def _decode_time() -> Panel:
    return _time("Decode", "", "vllm:request_decode_time_seconds_bucket")


def _time(what: str, about: str, metric: str) -> Panel:
    return Panel(
        f"{what} time in $pool", about, quantiles(engine_rate("le", metric)), "s", by_pool=True
    )
