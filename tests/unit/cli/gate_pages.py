"""What a gate tells at its admin port, as the tests want it."""

import itertools


def pod(name="qwen-unified-a-1", **changes):
    """Return a pod of `/podz`."""
    return {
        "name": name,
        "pool": "unified",
        "revision": "aaaa",
        "reservedTokens": 3000,
        "capacityTokens": 4000,
        "requests": 7,
        "prefillBacklogTokens": 500,
        "prefillTokensPerSecond": 1000.0,
        "scrapeAgeSeconds": 0.5,
        "terminating": False,
        "ejected": False,
        **changes,
    }


def podz(*pods, **changes):
    """Return `/podz`."""
    return {
        "gate": "g",
        "queued": 3,
        "queuedByClass": {"2": 3},
        "shedPercent": 0,
        "shiftPercent": 0,
        "pods": list(pods) or [pod()],
        **changes,
    }


def counting(shed=0.0):
    """Return a `/metrics` that counts on with each read: 40 of class 2, 60 of class 9, ..."""
    reads = itertools.count(1)

    def metrics():
        return page(next(reads), shed)

    return metrics


def page(read, shed=0.0):
    """Return `/metrics` after `read` times the same load."""
    name, label = "tidegate_gate_requests_total", 'model="m",surface="chat",revision="a"'
    bounds = {"0.1": 50, "0.5": 90, "1.0": 100, "+Inf": 100}
    lines = [
        f'{name}{{class="2",outcome="finished",reason="",{label}}} {40 * read}',
        f'{name}{{class="9",outcome="finished",reason="",{label}}} {60 * read}',
        f'{name}{{class="2",outcome="refused",reason="queue-full",{label}}} {20 * read}',
        f'{name}{{class="5",outcome="answered",reason="",{label}}} {999 * read}',
        f'tidegate_gate_admitted_total{{model="m",revision="a"}} {100 * read}',
        f'tidegate_gate_tokens_total{{model="m",kind="output"}} {5000 * read}',
        'tidegate_gate_tokens_reserved{pod="qwen-unified-a-1",pool="unified"} 3000',
        'tidegate_gate_tokens_capacity{pod="qwen-unified-a-1",pool="unified"} 4000',
        'tidegate_gate_queue_length{class="2"} 3',
        f"tidegate_gate_shed_percent {shed}",
        "tidegate_gate_shift_percent 0",
    ]
    for family in ("ttft_seconds", "inter_token_seconds"):
        lines += [
            f'tidegate_gate_{family}_bucket{{model="m",le="{bound}"}} {count * read}'
            for bound, count in bounds.items()
        ]
    return "\n".join(lines) + "\n"
