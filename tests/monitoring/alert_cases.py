"""For each alert: series under which it must fire, and series under which it must not.

A series is told as promtool takes it: `0+10x60` begins at 0 and grows by 10 for 60 steps.
"""

from dataclasses import dataclass, field

OF = 'namespace="chat",llmdeployment="qwen"'
ENGINE = f'job="tidegate-engines",{OF},revision="r1",engine="0",model_name="m",instance="10.0.0.1"'
GATE = f'job="tidegate-gates",{OF},instance="gate-1"'
OPERATOR = 'job="tidegate-operator",instance="op-1"'

Series = dict[str, str]


@dataclass(frozen=True)
class Case:
    """One alert in one situation; `labels` are some of those that it must fire with."""

    alert: str
    what: str
    series: Series
    fires: bool
    at: str = "30m"
    step: str = "1m"
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.alert}: {self.what}"


def fires(alert: str, what: str, series: Series, **more) -> Case:
    """Return a case in which an alert must fire."""
    return Case(alert, what, series, True, **more)


def quiet(alert: str, what: str, series: Series, **more) -> Case:
    """Return a case in which it must not."""
    return Case(alert, what, series, False, **more)


def gauge(name: str, labels: str, value: float | str) -> Series:
    """Return a series that stands still."""
    return {f"{name}{{{labels}}}": f"{value}x3000"}


def counter(name: str, labels: str, growth: float, start: float = 0) -> Series:
    """Return a series that grows by so much a step."""
    return {f"{name}{{{labels}}}": f"{start}+{growth}x3000"}


def requests(growth: float, **labels: str) -> Series:
    """Return requests that are over, so many a step."""
    labels = {"class": "other", "reason": "", "revision": "r1"} | labels
    told = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return counter("tidegate_gate_ended_total", f"{GATE},{told}", growth)


def first_tokens(within: float, late: float) -> Series:
    """Return first tokens, so many a step within a second and so many between 1 and 2.5 s."""
    buckets = {"0.5": within / 2, "1": within, "2.5": within + late, "+Inf": within + late}
    name, own = "tidegate_gate_ttft_seconds", f'{GATE},model="m",revision="r1"'
    made = counter(f"{name}_count", own, within + late)
    for bound, growth in buckets.items():
        made |= counter(f"{name}_bucket", f'{own},le="{bound}"', growth)
    return made


def recovered(minutes: int) -> Series:
    """Return first tokens that were late for so many minutes, and are good since."""
    late, good = first_tokens(20, 80), first_tokens(100, 0)
    made = {}
    for series, values in late.items():
        before, after = (float(text[2:].partition("x")[0]) for text in (values, good[series]))
        made[series] = f"0+{before}x{minutes} {before * minutes + after}+{after}x3000"
    return made


def tokens(between: float) -> Series:
    """Return times between tokens, all in the bucket that ends at `between`."""
    name, own = "tidegate_gate_inter_token_seconds", f'{GATE},model="m",revision="r1"'
    made = counter(f"{name}_count", own, 100)
    for bound in (0.01, 0.05, 0.1, 0.2):
        growth = 100 if bound >= between else 0
        made |= counter(f"{name}_bucket", f'{own},le="{bound}"', growth)
    return made | counter(f"{name}_bucket", f'{own},le="+Inf"', 100)


def objective(name: str, seconds: float) -> Series:
    """Return an objective of spec.slo."""
    return gauge("tidegate_slo_seconds", f'{OPERATOR},{OF},objective="{name}"', seconds)


def condition(kind: str, status: str, reason: str) -> Series:
    """Return a condition of the resource."""
    labels = f'{OPERATOR},{OF},type="{kind}",status="{status}",reason="{reason}"'
    return gauge("tidegate_deployment_condition", labels, 1)


def lever(action: str, values: str) -> Series:
    """Return when a person's lever lapses, as promtool's values."""
    own = f'{OPERATOR},{OF},action="{action}"'
    return {f"tidegate_override_until_timestamp_seconds{{{own}}}": values}


def pods(ready: str, desired: str = "2x3000") -> Series:
    """Return the pods of the decode pool, as promtool's values."""
    own = f'{OPERATOR},{OF},pool="decode"'
    return {
        f"tidegate_pool_desired_pods{{{own}}}": desired,
        f"tidegate_pool_ready_pods{{{own}}}": ready,
    }


_OTHER_HALF = "stale _x2 1x2"
"""Three samples that are there while those of `1x2 stale _x2` are not."""


def told(kind: str, status: str, **values: str) -> Series:
    """Return a condition with its reasons, each as promtool's values."""
    made = {}
    for reason, text in values.items():
        labels = f'{OPERATOR},{OF},type="{kind}",status="{status}",reason="{reason}"'
        made[f"tidegate_deployment_condition{{{labels}}}"] = text
    return made


def turns(first: str, second: str, minutes: int = 3000) -> dict[str, str]:
    """Return two reasons that take turns every three minutes."""
    times = minutes // 6
    return {first: " ".join(["1x2 stale _x2"] * times), second: " ".join([_OTHER_HALF] * times)}


def restarts(values: str, cause: str = "EngineCrashed") -> Series:
    """Return restarts of the decode pool's engines, as promtool's values."""
    own = f'{OPERATOR},{OF},pool="decode",revision="r1",cause="{cause}"'
    return {f"tidegate_engine_restarts_total{{{own}}}": values}


def reviews(verdict: str, values: str, **labels: str) -> Series:
    """Return reviews of LLMDeployments by verdict, as promtool's values."""
    more = "".join(f',{name}="{text}"' for name, text in labels.items())
    own = f'{OPERATOR},operation="CREATE",verdict="{verdict}",reason=""{more}'
    return {f"tidegate_admissions_total{{{own}}}": values}


def of_operator(name: str, namespace: str, values: str) -> Series:
    """Return a series of the operator of a namespace, as promtool's values."""
    head = name if "{" in name else f"{name}{{"
    return {f'{head}job="tidegate-operator",namespace="{namespace}",instance="op"}}': values}


def engine(name: str, value: str, pool: str = "decode", pod: str = "p1") -> Series:
    """Return a series of an engine."""
    return {f'vllm:{name}{{{ENGINE},pool="{pool}",pod="{pod}"}}': value}


def of_engines(*usages: float) -> Series:
    """Return the KV cache of the engines of one pod."""
    made = {}
    for number, usage in enumerate(usages):
        (series,) = engine("kv_cache_usage_perc", "")
        made[series.replace('engine="0"', f'engine="{number}"')] = f"{usage}x3000"
    return made


def gate(name: str, value: str, **labels: str) -> Series:
    """Return a series of a gate."""
    told = "".join(f',{key}="{text}"' for key, text in labels.items())
    return {f"tidegate_gate_{name}{{{GATE}{told}}}": value}


def prefixes(hits: str, queries: str) -> Series:
    """Return what the prefix cache was asked and had, in tokens."""
    return engine("prefix_cache_hits_total", hits) | engine("prefix_cache_queries_total", queries)


ON_A_POD = {"pool": "decode", "pod": "p1"}
IDLE = engine("num_requests_running", "0x3000") | engine("num_requests_waiting", "0x3000")
BUSY = engine("num_requests_running", "3x3000") | engine("num_requests_waiting", "0x3000")
SLOW = objective("ttft", 1.0)
GOOD = requests(100, outcome="finished")

OPERATOR_CASES = (
    fires("OperatorDown", "nothing is scraped", {}),
    fires("OperatorDown", "replicas run and none leads", gauge("tidegate_leading", OPERATOR, 0)),
    quiet(
        "OperatorDown",
        "one of two leads",
        gauge("tidegate_leading", OPERATOR, 0)
        | gauge("tidegate_leading", OPERATOR.replace("op-1", "op-2"), 1),
    ),
    quiet(
        "OperatorDown",
        "the lead changes hands within a minute",
        {
            f"tidegate_leading{{{OPERATOR}}}": "1x19 0x3000",
            f"tidegate_leading{{{OPERATOR.replace('op-1', 'op-2')}}}": "0x20 1x3000",
        },
        at="22m",
    ),
    fires(
        "OperatorDown",
        "of two operators one leads no more",
        of_operator("tidegate_leading", "one", "1x3000")
        | of_operator("tidegate_leading", "two", "1x15 0x3000"),
        labels={"namespace": "two"},
    ),
    fires(
        "OperatorDown",
        "of two operators one is gone",
        of_operator("tidegate_leading", "one", "1x3000")
        | of_operator("tidegate_leading", "two", "1x15"),
        labels={"namespace": "two"},
    ),
    fires(
        "OperatorDown",
        "the only one is gone for longer than a day",
        of_operator("tidegate_leading", "one", "1x5"),
        step="2m",
        at="30h",
    ),
    quiet(
        "OperatorDown",
        "two operators lead, and one was moved to another namespace long ago",
        of_operator("tidegate_leading", "one", "1x3000")
        | of_operator("tidegate_leading", "two", "1x3000")
        | of_operator("tidegate_leading", "three", "1x5"),
        step="2m",
        at="30h",
    ),
    fires(
        "ReconcileErrors",
        "a tenth of the passes of one operator of two fails",
        of_operator('tidegate_reconcile_passes_total{result="error",', "one", "0+10x3000")
        | of_operator('tidegate_reconcile_passes_total{result="kept",', "one", "0+90x3000")
        | of_operator('tidegate_reconcile_passes_total{result="kept",', "two", "0+900x3000"),
        labels={"namespace": "one"},
    ),
    fires(
        "ReconcileErrors",
        "a tenth of the passes fails",
        counter("tidegate_reconcile_passes_total", f'{OPERATOR},result="error"', 10)
        | counter("tidegate_reconcile_passes_total", f'{OPERATOR},result="kept"', 90),
    ),
    quiet(
        "ReconcileErrors",
        "one pass failed",
        {f'tidegate_reconcile_passes_total{{{OPERATOR},result="error"}}': "0x5 1x3000"}
        | counter("tidegate_reconcile_passes_total", f'{OPERATOR},result="kept"', 90),
    ),
    fires(
        "WatchStale",
        "the operator hears nothing of pods",
        counter("tidegate_watch_silence_seconds", f'{OPERATOR},resource="pods"', 60),
        labels={"resource": "pods"},
    ),
    fires(
        "WatchStale",
        "a gate hears nothing of its endpoints",
        gate("api_silence_seconds", "0+60x3000", watch="endpoints"),
        labels={"watch": "endpoints", "llmdeployment": "qwen"},
    ),
    quiet(
        "WatchStale",
        "a bookmark comes every minute",
        gauge("tidegate_watch_silence_seconds", f'{OPERATOR},resource="pods"', 59)
        | gate("api_silence_seconds", "59x3000", watch="endpoints"),
    ),
    fires("WebhookDown", "no replica serves", gauge("tidegate_webhook_serving", OPERATOR, 0)),
    fires(
        "WebhookDown",
        "reviews end with an error",
        gauge("tidegate_webhook_serving", OPERATOR, 1)
        | counter("tidegate_admissions_total", f'{OPERATOR},operation="CREATE",verdict="error"', 1),
    ),
    quiet(
        "WebhookDown",
        "reviews are refused, and one replica starts",
        gauge("tidegate_webhook_serving", OPERATOR, 0)
        | gauge("tidegate_webhook_serving", OPERATOR.replace("op-1", "op-2"), 1)
        | counter(
            "tidegate_admissions_total", f'{OPERATOR},operation="CREATE",verdict="refused"', 1
        ),
    ),
    fires(
        "WebhookDown",
        "of two operators one serves no reviews",
        of_operator("tidegate_webhook_serving", "one", "1x3000")
        | of_operator("tidegate_webhook_serving", "two", "0x3000"),
        labels={"namespace": "two"},
    ),
    fires(
        "WebhookDown",
        "three reviews of four end with an error",
        reviews("error", "0x20 3x3000") | reviews("allowed", "7x20 8x3000"),
        at="24m",
    ),
    quiet(
        "WebhookDown",
        "the only review for long ends with an error",
        gauge("tidegate_webhook_serving", OPERATOR, 1) | reviews("error", "0x20 1x3000"),
        at="24m",
    ),
    quiet(
        "WebhookDown",
        "three reviews of many end with an error",
        reviews("error", "0x20 3x3000") | reviews("allowed", "0+5x3000"),
        at="24m",
    ),
    quiet("WebhookDown", "there is no webhook", gauge("tidegate_leading", OPERATOR, 1)),
    fires(
        "CertificateExpiry",
        "it ends in ten days",
        gauge("tidegate_webhook_certificate_expiry_timestamp_seconds", OPERATOR, 864_000),
        at="2h",
    ),
    fires(
        "CertificateExpiry",
        "of two operators one has a certificate that ends in ten days",
        of_operator("tidegate_webhook_certificate_expiry_timestamp_seconds", "one", "864000x3000")
        | of_operator(
            "tidegate_webhook_certificate_expiry_timestamp_seconds", "two", "3456000x3000"
        ),
        at="2h",
        labels={"namespace": "one"},
    ),
    quiet(
        "CertificateExpiry",
        "it ends in forty days, and another replica has none yet",
        gauge("tidegate_webhook_certificate_expiry_timestamp_seconds", OPERATOR, 3_456_000)
        | gauge(
            "tidegate_webhook_certificate_expiry_timestamp_seconds",
            OPERATOR.replace("op-1", "op-2"),
            0,
        ),
        at="2h",
    ),
)

POOL_CASES = (
    fires(
        "KVUsageHigh",
        "one pod of two is full",
        engine("kv_cache_usage_perc", "0.97x3000")
        | engine("kv_cache_usage_perc", "0.2x3000", pod="p2"),
        labels={"pool": "decode"},
    ),
    fires(
        "KVUsageHigh",
        "an old engine tells it under the old name",
        engine("gpu_cache_usage_perc", "0.97x3000"),
    ),
    quiet(
        "KVUsageHigh",
        "prefill is full, decode is busy",
        engine("kv_cache_usage_perc", "0.99x3000", pool="prefill")
        | engine("kv_cache_usage_perc", "0.9x3000"),
    ),
    quiet(
        "KVUsageHigh",
        "a burst of five minutes",
        engine("kv_cache_usage_perc", "0.5x10 0.99x5 0.5x3000"),
        at="20m",
    ),
    fires(
        "PrefillBacklogHigh",
        "two pods of a thousand tokens a second have twenty thousand to do",
        gate("prefill_backlog_tokens", "15000x3000", pool="prefill", pod="p1")
        | gate("prefill_backlog_tokens", "5000x3000", pool="prefill", pod="p2")
        | gate("prefill_tokens_per_second", "1000x3000", pool="prefill", pod="p1")
        | gate("prefill_tokens_per_second", "1000x3000", pool="prefill", pod="p2"),
        labels={"pool": "prefill"},
    ),
    fires(
        "PrefillBacklogHigh",
        "most of it waits at the gates",
        gate("prefill_backlog_tokens", "1000x3000", pool="prefill", pod="p1")
        | gate("queued_prompt_tokens", "5000x3000", pool="prefill")
        | gate("prefill_tokens_per_second", "1000x3000", pool="prefill", pod="p1"),
        labels={"pool": "prefill"},
    ),
    quiet(
        "PrefillBacklogHigh",
        "they have four thousand to do",
        gate("prefill_backlog_tokens", "4000x3000", pool="prefill", pod="p1")
        | gate("prefill_tokens_per_second", "1000x3000", pool="prefill", pod="p1"),
    ),
    fires(
        "PreemptionsHigh",
        "a tenth of the requests",
        engine("num_preemptions_total", "0+10x3000")
        | engine("request_success_total", "0+100x3000"),
    ),
    quiet(
        "PreemptionsHigh",
        "one of a hundred",
        engine("num_preemptions_total", "0+1x3000") | engine("request_success_total", "0+100x3000"),
    ),
    fires(
        "PrefixHitRateDropped",
        "from 60 % to 20 %",
        prefixes("0+6000x775 4650000+2000x3000", "0+10000x3000"),
        step="2m",
        at="30h",
    ),
    quiet(
        "PrefixHitRateDropped",
        "it was of no worth before",
        prefixes("0+1000x775 775000+100x3000", "0+10000x3000"),
        step="2m",
        at="30h",
    ),
    quiet(
        "PrefixHitRateDropped",
        "it is as it was",
        prefixes("0+6000x3000", "0+10000x3000"),
        step="2m",
        at="30h",
    ),
    fires("NoEndpoints", "all pods are gone", pods("2x10 0x3000"), labels={"pool": "decode"}),
    quiet("NoEndpoints", "the first pods still load", pods("0x3000")),
    quiet("NoEndpoints", "one of two is gone", pods("2x10 1x3000")),
    fires("NoEndpoints", "all pods are gone all day", pods("2x60 0x3000"), at="20h"),
    fires(
        "NoEndpoints",
        "and the operator was not scraped for half an hour",
        pods("2x60 0x60 stale _x28 0x3000", "2x120 stale _x28 2x3000"),
        at="4h",
    ),
    fires(
        "NoEndpoints",
        "it was scaled up from zero, has served, and is gone",
        pods("0x40 2x20 0x3000", "0x20 2x3000"),
        at="70m",
    ),
    quiet("NoEndpoints", "it was scaled to zero", pods("2x10 0x3000", "0x3000")),
    quiet(
        "NoEndpoints",
        "it was scaled to zero and up again, and the model loads for an hour",
        pods("2x30 0x3000", "2x29 0x60 2x3000"),
        at="150m",
    ),
    quiet(
        "NoEndpoints",
        "it is there again",
        pods("2x10 0x30 2x3000"),
        at="1h",
    ),
    fires(
        "EngineRestarts",
        "the first two restarts of a cause",
        restarts("_x20 1 2x3000", "OutOfMemoryKilled"),
        labels={"cause": "OutOfMemoryKilled", "pool": "decode"},
    ),
    quiet(
        "EngineRestarts",
        "one restart, and many long ago",
        restarts("40x20 41x3000"),
    ),
    fires(
        "EngineRestarts",
        "the first two of a cause, of an operator that is known",
        gauge("tidegate_leading", OPERATOR, 1) | restarts("_x20 1 2x3000"),
    ),
    fires(
        "EngineRestarts",
        "two, and the operator's process began anew between",
        gauge("tidegate_leading", OPERATOR, 1) | restarts("40x20 stale _x2 1 2x3000"),
    ),
    quiet(
        "EngineRestarts",
        "many long ago, and one scrape failed fifteen minutes ago",
        restarts("5x200 stale 5x3000"),
        at="217m",
    ),
    quiet(
        "EngineRestarts",
        "many long ago, and scrapes failed for an hour",
        restarts("5x120 stale _x60 5x3000"),
        at="185m",
    ),
    quiet(
        "EngineRestarts",
        "many before Prometheus began",
        {f"tidegate_leading{{{OPERATOR}}}": "_x20 1x3000"} | restarts("_x20 5x3000"),
    ),
    fires("BudgetDrift", "fewer tokens", condition("BudgetDrift", "True", "KVSmallerThanPlanned")),
    fires(
        "BudgetDrift",
        "more and fewer tokens by turns",
        told("BudgetDrift", "True", **turns("KVSmallerThanPlanned", "KVLargerThanPlanned")),
    ),
    quiet("BudgetDrift", "as planned", condition("BudgetDrift", "False", "AsPlanned")),
    fires("PairIncompatible", "said by Ready", condition("Ready", "False", "PairIncompatible")),
    quiet("PairIncompatible", "still untried", condition("Ready", "False", "PairUntried")),
    fires(
        "GateLedgerDrift",
        "the engine uses what no gate has reserved",
        gate("tokens_reserved", "1000x3000", **ON_A_POD)
        | gate("tokens_capacity", "10000x3000", **ON_A_POD)
        | engine("kv_cache_usage_perc", "0.6x3000")
        | BUSY,
        labels={"pod": "p1"},
    ),
    fires(
        "GateLedgerDrift",
        "tokens are reserved and nothing runs",
        gate("tokens_reserved", "3000x3000", **ON_A_POD)
        | gate("tokens_capacity", "10000x3000", **ON_A_POD)
        | engine("kv_cache_usage_perc", "0x3000")
        | IDLE,
    ),
    quiet(
        "GateLedgerDrift",
        "one engine of four of a pod is full, and their mean is what is reserved",
        gate("tokens_reserved", "4200x3000", **ON_A_POD)
        | gate("tokens_capacity", "10000x3000", **ON_A_POD)
        | of_engines(0.7, 0.3, 0.3, 0.3)
        | BUSY,
    ),
    fires(
        "GateLedgerDrift",
        "all engines of a pod use what no gate has reserved",
        gate("tokens_reserved", "1000x3000", **ON_A_POD)
        | gate("tokens_capacity", "10000x3000", **ON_A_POD)
        | of_engines(0.7, 0.6, 0.6, 0.6)
        | BUSY,
    ),
    quiet(
        "GateLedgerDrift",
        "a gate reserves for answers to come",
        gate("tokens_reserved", "9000x3000", **ON_A_POD)
        | gate("tokens_capacity", "10000x3000", **ON_A_POD)
        | engine("kv_cache_usage_perc", "0.5x3000")
        | BUSY,
    ),
)

_SWINGS = "20x4 0x4 20x4 0x4 20x4 0x4 20x3000"
OVERLOAD_CASES = (
    fires(
        "MetricsStale",
        "Prometheus does not answer",
        condition("MetricsAvailable", "False", "MetricsUnreachable"),
    ),
    fires(
        "MetricsStale",
        "for two reasons by turns",
        told("MetricsAvailable", "False", **turns("MetricsUnreachable", "MetricsStale")),
    ),
    fires(
        "MetricsStale",
        "every fourth scrape of the operator fails",
        told("MetricsAvailable", "False", MetricsStale=" ".join(["1x2 stale"] * 100)),
    ),
    quiet(
        "MetricsStale",
        "it comes and goes",
        told("MetricsAvailable", "False", MetricsStale=" ".join(["1x2 stale _x2"] * 100))
        | told("MetricsAvailable", "True", MetricsFresh=" ".join([_OTHER_HALF] * 100)),
    ),
    quiet("MetricsStale", "fresh", condition("MetricsAvailable", "True", "MetricsFresh")),
    quiet(
        "MetricsStale",
        "none is configured",
        condition("MetricsAvailable", "Unknown", "MetricsUnconfigured"),
    ),
    fires("Shedding", "for 40 minutes", gate("shed_percent", "30x3000"), at="40m"),
    fires(
        "Shedding",
        "for 40 minutes, and a scrape failed",
        gate("shed_percent", "30x25 stale 30x3000"),
        at="45m",
    ),
    quiet("Shedding", "for ten minutes", gate("shed_percent", "0x25 30x10 0x3000"), at="40m"),
    fires(
        "ShiftOscillation", "to and fro", gate("shift_percent", _SWINGS), labels={"lever": "shift"}
    ),
    fires("ShiftOscillation", "shedding", gate("shed_percent", _SWINGS), labels={"lever": "shed"}),
    quiet(
        "ShiftOscillation",
        "up in steps, and down in steps",
        gate("shift_percent", "0x3 20x3 40x3 60x5 50x1 40x1 30x1 20x1 10x1 0x3000"),
    ),
    fires(
        "OverrideActive",
        "it holds for two days",
        gauge(
            "tidegate_override_until_timestamp_seconds",
            f'{OPERATOR},{OF},action="Shed"',
            172_800,
        ),
        at="90m",
    ),
    fires(
        "OverrideActive",
        "one lever after the other, and a scrape failed",
        lever("Shed", "172800x30 stale") | lever("Shift", "_x33 172800x3000"),
        at="90m",
    ),
    quiet(
        "OverrideActive",
        "one was set for half an hour, taken away, and set again",
        lever("Shed", "172800x30 stale _x4 172800x3000") | condition("Ready", "True", "Ready"),
        at="80m",
    ),
    quiet(
        "OverrideActive",
        "it has lapsed",
        gauge("tidegate_override_until_timestamp_seconds", f'{OPERATOR},{OF},action="Shed"', 1800),
        at="90m",
    ),
    fires(
        "GateConfigRejected",
        "one gate of two refuses",
        gate("config_valid", "1x3000")
        | {f"tidegate_gate_config_valid{{{GATE.replace('gate-1', 'gate-2')}}}": "0x3000"},
    ),
    quiet("GateConfigRejected", "all take it", gate("config_valid", "1x3000")),
)

_LOST = requests(5, outcome="engine-failed")
_CRITICAL = {"severity": "critical"}
OBJECTIVE_CASES = (
    fires(
        "TTFTBurn",
        "80 % are late for an hour",
        first_tokens(20, 80) | SLOW,
        at="70m",
        labels={"burn": "14.4x", "severity": "critical"},
    ),
    quiet(
        "TTFTBurn",
        "half are late: not at the highest speed",
        first_tokens(50, 50) | SLOW,
        at="70m",
        labels={"burn": "14.4x"},
    ),
    fires(
        "TTFTBurn",
        "half are late for hours",
        first_tokens(50, 50) | SLOW,
        step="2m",
        at="7h",
        labels={"burn": "6x", "severity": "critical"},
    ),
    fires(
        "TTFTBurn",
        "a fifth is late",
        first_tokens(80, 20) | SLOW,
        step="2m",
        at="4h",
        labels={"burn": "3x", "severity": "warning"},
    ),
    fires(
        "TTFTBurn",
        "7 % are late",
        first_tokens(93, 7) | SLOW,
        step="2m",
        at="6h",
        labels={"burn": "1x", "severity": "warning"},
    ),
    quiet("TTFTBurn", "3 % are late", first_tokens(97, 3) | SLOW, step="2m", at="6h"),
    quiet("TTFTBurn", "there is no objective", first_tokens(0, 100), at="70m"),
    quiet("TTFTBurn", "too few requests to tell", first_tokens(0, 0.1) | SLOW, at="70m"),
    quiet(
        "TTFTBurn",
        "late for an hour, and good since ten minutes",
        recovered(60) | SLOW,
        at="75m",
        labels={"burn": "14.4x"},
    ),
    fires(
        "AvailabilityBurn",
        "2 % fail for an hour",
        GOOD | requests(2, outcome="deadline"),
        at="70m",
        labels={"burn": "14.4x"} | _CRITICAL,
    ),
    fires(
        "AvailabilityBurn",
        "no pod was ready for 5 % of the requests",
        GOOD | requests(5, outcome="refused", reason="no-endpoints"),
        at="70m",
        labels={"burn": "14.4x"} | _CRITICAL,
    ),
    fires(
        "AvailabilityBurn",
        "2 in a thousand fail",
        requests(5000, outcome="finished") | requests(10, outcome="engine-failed"),
        step="2m",
        at="6h",
        labels={"burn": "1x", "severity": "warning"},
    ),
    quiet(
        "AvailabilityBurn",
        "half of the low classes are shed on purpose",
        GOOD | requests(100, outcome="refused", reason="shed"),
        at="70m",
    ),
    quiet(
        "AvailabilityBurn",
        "clients leave, and send what is too long",
        GOOD
        | requests(20, outcome="client-gone")
        | requests(20, outcome="refused", reason="too-long"),
        at="70m",
    ),
    quiet(
        "AvailabilityBurn",
        "answers are longer than the user lets any be",
        GOOD | requests(20, outcome="total-deadline"),
        at="70m",
    ),
    quiet(
        "AvailabilityBurn",
        "one of twenty failed: too few to tell",
        requests(0.3, outcome="finished") | requests(0.02, outcome="deadline"),
        at="70m",
    ),
    fires(
        "SheddingTopClass",
        "a tenth of class 9",
        requests(90, outcome="finished", **{"class": "9"})
        | requests(10, outcome="refused", reason="kv-budget", **{"class": "9"}),
        at="70m",
    ),
    quiet(
        "SheddingTopClass",
        "class 8 is shed, and a tenant of class 9 has used its share",
        requests(90, outcome="finished", **{"class": "9"})
        | requests(50, outcome="refused", reason="shed")
        | requests(10, outcome="refused", reason="tenant-share", **{"class": "9"}),
        at="70m",
    ),
    fires("TPOTHigh", "p95 is twice the objective", tokens(0.1) | objective("tpot", 0.05)),
    quiet("TPOTHigh", "p95 is below it", tokens(0.05) | objective("tpot", 0.2)),
    fires("SurvivalLow", "5 % are lost", GOOD | _LOST),
    fires("SurvivalLow", "none ends well", _LOST),
    fires("SurvivalLow", "gates that stop cut streams", GOOD | requests(5, outcome="gate-gone")),
    quiet("SurvivalLow", "two are lost, and no more came", requests(0.1, outcome="unreachable")),
    quiet(
        "SurvivalLow",
        "refusals, clients that leave and answers that are too long are no losses",
        GOOD
        | requests(50, outcome="refused", reason="shed")
        | requests(50, outcome="client-gone")
        | requests(50, outcome="total-deadline"),
    ),
)

ROLLOUT_CASES = (
    fires("RolloutAborted", "at once", condition("Promoted", "False", "RolloutAborted"), at="1m"),
    quiet("RolloutAborted", "it is tried", condition("Promoted", "False", "CanaryRunning")),
    fires("CanaryInconclusive", "no verdict", condition("Promoted", "False", "CanaryInconclusive")),
    quiet(
        "CanaryInconclusive",
        "for a few minutes only",
        condition("Promoted", "False", "CanaryInconclusive"),
        at="5m",
    ),
    fires("CanaryStuck", "all day", condition("Promoted", "False", "CanaryRunning"), at="7h"),
    fires(
        "CanaryStuck",
        "running and inconclusive by turns",
        told("Promoted", "False", **turns("CanaryRunning", "CanaryInconclusive")),
        at="7h",
    ),
    fires(
        "CanaryStuck",
        "all day, and some scrapes failed",
        told("Promoted", "False", CanaryRunning="1x100 stale 1x100 stale _x2 1x3000"),
        at="7h",
    ),
    quiet(
        "CanaryStuck",
        "one after the other",
        told("Promoted", "False", CanaryRunning="1x200 stale _x4 1x3000")
        | told("Promoted", "True", Promoted="_x201 1x3 stale"),
        at="7h",
    ),
    quiet("CanaryStuck", "for an hour", condition("Promoted", "False", "CanaryRunning"), at="1h"),
    quiet(
        "CanaryStuck",
        "paused by somebody",
        condition("Promoted", "False", "RolloutPaused"),
        at="7h",
    ),
    quiet("CanaryStuck", "it is over", condition("Promoted", "True", "Promoted"), at="7h"),
)

WHERE_A_TENTH_MAY_FAIL = (
    fires(
        "AvailabilityBurn",
        "all fail",
        requests(100, outcome="engine-failed"),
        at="70m",
        labels={"burn": "14.4x"} | _CRITICAL,
    ),
    quiet(
        "AvailabilityBurn",
        "half fail",
        requests(50, outcome="finished") | requests(50, outcome="engine-failed"),
        at="70m",
        labels={"burn": "14.4x"} | _CRITICAL,
    ),
)
CASES = (*OPERATOR_CASES, *POOL_CASES, *OVERLOAD_CASES, *OBJECTIVE_CASES, *ROLLOUT_CASES)
