"""The gates of one deployment: who is let in, who is not, and whether the ledger is right."""

from tidegate.core.monitoring.board import (
    ONE,
    RATE,
    Board,
    Panel,
    Query,
    Row,
    of_gates,
    quantiles,
    rate,
)
from tidegate.core.monitoring.promql import engine


def board() -> Board:
    """Return the dashboard."""
    return Board(
        "gate",
        "Tidegate: gates of one deployment",
        "Who is let in, who is not and why, and whether the ledger is right.",
        ("namespace", "llmdeployment"),
        (
            Row("Admission", (_admitted(), _refusals(), _classes())),
            Row("Waiting", (_queue(), _wait(), _refusal_seconds())),
            Row("Ledger", (_tokens(), _against_engine(), _estimate())),
            Row("Pods", (_seats(), _scrapes(), _out(), _retries())),
            Row("The process", (_connections(), _stalls(), _config(), _faults())),
        ),
    )


def _admitted() -> Panel:
    offered = rate("namespace, llmdeployment", "tidegate_gate_requests_total")
    admitted = rate("namespace, llmdeployment", "tidegate_gate_admitted_total")
    return Panel(
        "Requests and admitted",
        "What comes, and what gets a seat.",
        (Query(offered, "requests"), Query(admitted, "admitted")),
        "reqps",
    )


def _refusals() -> Panel:
    refused = rate("reason", "tidegate_gate_requests_total", 'outcome="refused"')
    none = f"{rate('llmdeployment', 'tidegate_gate_requests_total')} * 0"
    return Panel(
        "Refused, by reason",
        "What each reason means is in docs/guides/clients-of-the-gate.md.",
        (Query(f"{refused} or {none}", "{{reason}}"),),
        "reqps",
    )


def _classes() -> Panel:
    return Panel(
        "Requests, by class and outcome",
        "9 is served first; lower classes are turned away before higher ones.",
        (Query(rate("class, outcome", "tidegate_gate_requests_total"), "{{class}} {{outcome}}"),),
        "reqps",
    )


def _queue() -> Panel:
    waiting = f"sum by (class) ({of_gates('tidegate_gate_queue_length')})"
    none = f"sum({of_gates('tidegate_gate_gates')}) * 0"
    return Panel(
        "Waiting for a seat, by class",
        "At all gates.",
        (Query(f"{waiting} or {none}", "{{class}}"),),
    )


def _wait() -> Panel:
    return Panel(
        "Wait for a seat",
        "Of those that got one.",
        quantiles(rate("le", "tidegate_gate_queue_wait_seconds_bucket")),
        "s",
    )


def _refusal_seconds() -> Panel:
    buckets = rate("le, outcome", "tidegate_gate_request_seconds_bucket")
    return Panel(
        "Time of a request, by outcome",
        "With `refused`: how fast a refusal is.",
        (Query(f"histogram_quantile(0.95, {buckets})", "p95 {{outcome}}"),),
        "s",
    )


def _tokens() -> Panel:
    by = "sum by (pool)"
    return Panel(
        "Ledger against capacity",
        "KV tokens that all gates have reserved, and may reserve.",
        (
            Query(f"{by} ({of_gates('tidegate_gate_tokens_reserved')})", "reserved {{pool}}"),
            Query(f"{by} ({of_gates('tidegate_gate_tokens_capacity')})", "capacity {{pool}}"),
        ),
    )


def _against_engine() -> Panel:
    reserved = f"sum by (pod) ({of_gates('tidegate_gate_tokens_reserved')})"
    capacity = f"sum by (pod) ({of_gates('tidegate_gate_tokens_capacity')})"
    usage = f"avg by (pod) ({engine('vllm:kv_cache_usage_perc', matchers=ONE)})"
    seen = f"avg by (pod) ({of_gates('tidegate_gate_kv_usage')})"
    return Panel(
        "Ledger against the engine",
        "Reserved above used is prudence; used above reserved comes past the gates.",
        (
            Query(f"{reserved} / ({capacity} > 0)", "reserved {{pod}}"),
            Query(usage, "used {{pod}}"),
            Query(seen, "used {{pod}}, of late"),
        ),
        "percentunit",
        top=1.0,
    )


def _estimate() -> Panel:
    return Panel(
        "Estimated over counted prompt tokens",
        "1 is right, 2 is twice too many; above 1 costs capacity, below 1 risks preemptions.",
        quantiles(rate("le", "tidegate_gate_prompt_estimate_ratio_bucket")),
    )


def _seats() -> Panel:
    return Panel(
        "Requests on each pod",
        "Of all gates.",
        (Query(f"sum by (pod) ({of_gates('tidegate_gate_seats')})", "{{pod}}"),),
    )


def _scrapes() -> Panel:
    return Panel(
        "Age of what gates know of a pod",
        "Since its own metrics were read last.",
        (Query(f"max by (pod) ({of_gates('tidegate_gate_scrape_age_seconds')})", "{{pod}}"),),
        "s",
    )


def _out() -> Panel:
    ejected = f"max by (pod) ({of_gates('tidegate_gate_pod_ejected')})"
    leaving = f"max by (pod) ({of_gates('tidegate_gate_pod_terminating')})"
    return Panel(
        "Pods that get nothing",
        "Ejected after failures, or on their way out.",
        (Query(ejected, "ejected {{pod}}"), Query(leaving, "leaving {{pod}}")),
    )


def _retries() -> Panel:
    retried = rate("outcome", "tidegate_gate_retries_total")
    none = f"{rate('llmdeployment', 'tidegate_gate_requests_total')} * 0"
    return Panel(
        "Sent to another pod",
        "By what the first one did.",
        (Query(f"{retried} or {none}", "{{outcome}}"),),
        "reqps",
    )


def _connections() -> Panel:
    return Panel(
        "Connections of clients",
        "By gate.",
        (Query(of_gates("tidegate_gate_client_connections"), "{{instance}}"),),
    )


def _stalls() -> Panel:
    stalled = f"rate({of_gates('tidegate_gate_loop_stalled_seconds_total')}[{RATE}])"
    busy = f"rate({of_gates('process_cpu_seconds_total')}[{RATE}])"
    return Panel(
        "CPU and stalls",
        "Cores that a gate uses, and the share of time that it stood still.",
        (Query(busy, "CPU {{instance}}"), Query(stalled, "stalled {{instance}}")),
    )


def _config() -> Panel:
    return Panel(
        "Generation in use",
        "Of the resource; all gates should have the same.",
        (Query(of_gates("tidegate_gate_config_generation"), "{{instance}}"),),
    )


def _faults() -> Panel:
    bugs = f"sum by (part) (increase({of_gates('tidegate_gate_internal_errors_total')}[1h]))"
    none = f"sum({of_gates('tidegate_gate_gates')}) * 0"
    return Panel(
        "Bugs in the last hour",
        "A part of a gate failed and was started again: please report it.",
        (Query(f"{bugs} or {none}", "{{part}}"),),
    )
