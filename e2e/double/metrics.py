"""The metrics of vLLM: names, labels, buckets, and what is counted when."""

from __future__ import annotations

from collections.abc import Sequence as Listing
from dataclasses import dataclass

from e2e.double.config import EngineConfig
from e2e.double.exposition import Histogram, Labels, Metric, Scalar, expose
from e2e.double.memory import Pool
from e2e.double.scheduler import Scheduler, Totals
from e2e.double.sequences import FinishReason, Sequence

LATENCY = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0),
    *(240.0, 480.0, 960.0, 1920.0, 7680.0),
)
FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
BETWEEN_TOKENS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0),
)
STEP_TOKENS = (1, 8, *(2**power for power in range(4, 15)))
CHOICES = (1, 2, 5, 10, 20)
PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)
TRANSFER = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
TRANSFER_BYTES = tuple(2 ** (10 + power) for power in range(1, 25, 2))
DESCRIPTORS = (10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10000, 20000, 50000)

SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
CACHE_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
REFUSALS = ("max_num_queued_reqs", "max_num_queued_tokens")
KV_FETCH_STAGES = ("waiting_to_start", "in_progress", "completed_waiting")

# Fields of vLLM 0.32's CacheConfig that the double does not use, with their defaults: all fields
# are labels of cache_config_info.
UNUSED_CACHE_FIELDS = {
    "kv_cache_layout": "None",
    "prefix_match_unit": "None",
    "is_attention_free": "False",
    "sliding_window": "None",
    "prefix_caching_hash_algo": "sha256",
    "prefix_cache_retention_interval": "0",
    "kv_cache_dtype_skip_layers": "[]",
    "mamba_page_size_padded": "None",
    "skip_page_size_padded": "None",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_ssm_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "enable_mamba_shared_prefix_checkpoint": "False",
    "replayssm_buffer_len": "16",
    "use_replayssm": "False",
    "use_kda_recoverssm": "False",
    "num_cpu_blocks": "None",
    "cache_hit_alignment_tokens": "None",
    "kv_sharing_fast_prefill": "False",
    "swa_bounded_replay": "True",
    "kv_offloading_size": "None",
    "kv_offloading_backend": "native",
    "_block_size_resolved": "True",
}


def token_bounds(max_model_len: int) -> list[int]:
    """Return the 1-2-5 series up to the longest sequence."""
    series = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    return [bound for bound in series if bound <= max_model_len]


@dataclass(frozen=True)
class Transfer:
    """One fetch of KV from another engine."""

    seconds: float
    bytes: int
    descriptors: int


class Metrics:
    """All series of one engine.

    Args:
        config: whose flags are labels.
        pool: whose size is told.
        created_at: Unix time of the start.
    """

    def __init__(self, config: EngineConfig, pool: Pool, created_at: float) -> None:
        self._created_at = created_at
        self._metrics: dict[str, Metric] = {}
        self._model = ("model_name", config.served_names[0])
        self._labels: Labels = (self._model, ("engine", "0"))
        self._seen = Totals()
        self._is_consumer = bool(config.connector and config.connector.is_consumer)
        self._declare(token_bounds(pool.max_model_len))
        if config.connector and config.connector.moves_kv:
            self._declare_transfer()
        self._info(config, pool)

    def text(self) -> str:
        """Return the exposition."""
        return expose(self._metrics, self._created_at)

    @property
    def generated_tokens(self) -> int:
        """Output tokens since the start."""
        return int(self._scalar("generation_tokens_total").values[self._labels])

    # --- what happened

    def update(self, scheduler: Scheduler) -> None:
        """Set the gauges, and the counters that the scheduler keeps."""
        waiting = [*scheduler.waiting, *scheduler.loaded]
        remote = sum(sequence.is_remote_pending for sequence in waiting)
        deferred = len(scheduler.loading)
        self._put("num_requests_running", len(scheduler.running))
        self._put("num_requests_waiting", len(waiting) + deferred)
        self._put("num_requests_waiting_by_reason", len(waiting), reason="capacity")
        self._put("num_requests_waiting_by_reason", deferred, reason="deferred")
        self._put("kv_cache_usage_perc", scheduler.cache.pool.usage)
        if self._is_consumer:
            counts = (remote, deferred, len(scheduler.loaded))
            for stage, count in zip(KV_FETCH_STAGES, counts, strict=True):
                self._put("num_requests_kv_fetch_by_stage", count, stage=stage)
        now, seen = scheduler.totals, self._seen
        local, external = now.local_hits - seen.local_hits, now.external_hits - seen.external_hits
        self._add("num_preemptions_total", now.preemptions - seen.preemptions)
        self._add("prefix_cache_queries_total", now.local_queries - seen.local_queries)
        self._add("prefix_cache_hits_total", local)
        self._add(
            "external_prefix_cache_queries_total", now.external_queries - seen.external_queries
        )
        self._add("external_prefix_cache_hits_total", external)
        self._add("prompt_tokens_cached_by_source_total", local, source="device")
        self._add("prompt_tokens_cached_by_source_total", external, source="p2p")
        self._seen = Totals(**vars(now))

    def step(self, prompt_tokens: int, output_tokens: int) -> None:
        """Count the tokens of a step that were new: prompts that got ready, and outputs."""
        if prompt_tokens or output_tokens:
            self._observe("iteration_tokens_total", prompt_tokens + output_tokens)

    def first_token(self, sequence: Sequence, now: float) -> None:
        """Count a prompt whose prefill ended."""
        length, external = len(sequence.prompt), sequence.external_tokens
        local = sequence.local_hit_tokens
        self._add("prompt_tokens_total", length)
        self._add("prompt_tokens_cached_total", local + external)
        for source, tokens in zip(
            SOURCES, (length - local - external, local, external), strict=True
        ):
            self._add("prompt_tokens_by_source_total", tokens, source=source)
        self._observe("time_to_first_token_seconds", now - sequence.times.arrived)

    def tokens(self, count: int, seconds_since_last: float | None) -> None:
        """Count output tokens of a sequence, and the time since its one before."""
        self._add("generation_tokens_total", count)
        if seconds_since_last is not None:
            self._observe("inter_token_latency_seconds", seconds_since_last)

    def finished(self, sequence: Sequence, choices: int, now: float) -> None:
        """Count a sequence that ended."""
        reason = sequence.finish or FinishReason.ABORT
        self._add("request_success_total", 1, finished_reason=reason)
        times, made = sequence.times, len(sequence.output)
        started = times.scheduled if times.scheduled is not None else now
        first = times.first_token if times.first_token is not None else now
        self._observe("request_prompt_tokens", len(sequence.prompt))
        self._observe("request_generation_tokens", made)
        self._observe("request_max_num_generation_tokens", made)
        self._observe("request_params_n", choices)
        self._observe("request_params_max_tokens", sequence.sampling.max_tokens)
        self._observe("request_num_preemptions", sequence.preemptions)
        cached = sequence.local_hit_tokens + sequence.external_tokens
        self._observe("request_prefill_kv_computed_tokens", len(sequence.prompt) - cached)
        self._observe("e2e_request_latency_seconds", now - times.arrived)
        self._observe("request_queue_time_seconds", started - times.arrived)
        self._observe("request_inference_time_seconds", now - started)
        self._observe("request_prefill_time_seconds", first - started)
        self._observe("request_decode_time_seconds", now - first)
        if made > 1:
            self._observe("request_time_per_output_token_seconds", (now - first) / (made - 1))

    def refused(self, reason: str) -> None:
        """Count a request that a queue limit refused."""
        self._scalar("admission_rejections_total").add((self._model, ("reason", reason)))

    def transferred(self, transfer: Transfer) -> None:
        """Count a successful fetch of KV."""
        self._observe("nixl_xfer_time_seconds", transfer.seconds)
        self._observe("nixl_post_time_seconds", 0.0)
        self._observe("nixl_bytes_transferred", transfer.bytes)
        self._observe("nixl_num_descriptors", transfer.descriptors)

    def transfer_problem(self, name: str, count: int = 1) -> None:
        """Count under one of the nixl counters, such as `failed_transfers`."""
        self._add(f"nixl_num_{name}_total", count)

    # --- declarations

    def _declare(self, lengths: Listing[float]) -> None:
        for name in ("flops", "read_bytes", "write_bytes"):
            self._counter(f"estimated_{name}_per_gpu_total")
        for name in ("num_requests_running", "num_requests_waiting"):
            self._gauge(name)
        self._gauge("num_requests_waiting_by_reason", "reason", ("capacity", "deferred"))
        if self._is_consumer:
            self._gauge("num_requests_kv_fetch_by_stage", "stage", KV_FETCH_STAGES)
        sleep_states = ("awake", "weights_offloaded", "discard_all")
        self._gauge("engine_sleep_state", "sleep_state", sleep_states)
        self._put("engine_sleep_state", 1, sleep_state="awake")
        self._gauge("kv_cache_usage_perc")
        for prefix in ("prefix", "external_prefix", "mm"):
            self._counter(f"{prefix}_cache_queries_total")
            self._counter(f"{prefix}_cache_hits_total")
        for name in ("num_preemptions_total", "prompt_tokens_total"):
            self._counter(name)
        self._counter("prompt_tokens_by_source_total", "source", SOURCES)
        self._counter("prompt_tokens_cached_total")
        self._counter("prompt_tokens_cached_by_source_total", "source", CACHE_TIERS)
        self._counter("generation_tokens_total")
        self._counter("request_success_total", "finished_reason", tuple(FinishReason))
        refusals = self._metrics["admission_rejections_total"] = self._new_scalar(
            "admission_rejections_total", "counter"
        )
        for reason in REFUSALS:
            refusals.add((self._model, ("reason", reason)), 0)
        for name, bounds in (
            ("request_prompt_tokens", lengths),
            ("request_generation_tokens", lengths),
            ("iteration_tokens_total", STEP_TOKENS),
            ("request_max_num_generation_tokens", lengths),
            ("request_params_n", CHOICES),
            ("request_params_max_tokens", lengths),
            ("time_to_first_token_seconds", FIRST_TOKEN),
            ("inter_token_latency_seconds", BETWEEN_TOKENS),
            ("request_time_per_output_token_seconds", BETWEEN_TOKENS),
            ("e2e_request_latency_seconds", LATENCY),
            ("request_queue_time_seconds", LATENCY),
            ("request_inference_time_seconds", LATENCY),
            ("request_prefill_time_seconds", LATENCY),
            ("request_decode_time_seconds", LATENCY),
            ("request_num_preemptions", PREEMPTIONS),
            ("request_prefill_kv_computed_tokens", lengths),
        ):
            self._histogram(name, bounds)

    def _declare_transfer(self) -> None:
        self._histogram("nixl_xfer_time_seconds", TRANSFER)
        self._histogram("nixl_post_time_seconds", (0.001, *TRANSFER))
        self._histogram("nixl_bytes_transferred", TRANSFER_BYTES)
        self._histogram("nixl_num_descriptors", DESCRIPTORS)
        for name in (
            "failed_transfers",
            "failed_notifications",
            "kv_expired_reqs",
            "notifications_after_expiry",
        ):
            self._counter(f"nixl_num_{name}_total")

    def _info(self, config: EngineConfig, pool: Pool) -> None:
        own = {
            "block_size": pool.block_tokens,
            "user_specified_block_size": config.is_block_given,
            "gpu_memory_utilization": config.wanted.utilization,
            "cache_dtype": config.cache_dtype,
            "num_gpu_blocks_override": config.wanted.blocks_override,
            "enable_prefix_caching": config.caches_prefixes,
            "num_gpu_blocks": pool.block_count,
            "effective_attention_block_size": pool.block_tokens,
            "kv_cache_size_tokens": pool.size_tokens,
            "kv_cache_max_concurrency": pool.max_concurrency,
            "hash_block_size": pool.block_tokens,
            "kv_cache_memory_bytes": config.kv_bytes_given,
        }
        fields = {name: str(value) for name, value in own.items()} | UNUSED_CACHE_FIELDS
        self._metrics["cache_config_info"] = info = self._new_scalar("cache_config_info", "gauge")
        info.put((*fields.items(), ("engine", "0")), 1)

    def _new_scalar(self, name: str, kind: str) -> Scalar:
        return Scalar(f"vllm:{name}", kind, _help(name))

    def _scalar(self, name: str) -> Scalar:
        metric = self._metrics[name]
        assert isinstance(metric, Scalar)
        return metric

    def _gauge(self, name: str, label: str = "", values: tuple[str, ...] = ("",)) -> None:
        self._metrics[name] = metric = self._new_scalar(name, "gauge")
        for value in values:
            metric.put(self._with({label: value} if label else {}), 0)

    def _counter(self, name: str, label: str = "", values: tuple[str, ...] = ("",)) -> None:
        self._gauge(name, label, values)
        self._scalar(name).kind = "counter"

    def _histogram(self, name: str, bounds: Listing[float]) -> None:
        self._metrics[name] = metric = Histogram(f"vllm:{name}", _help(name), bounds)
        metric.touch(self._labels)

    def _with(self, labels: dict[str, str]) -> Labels:
        return (*self._labels, *labels.items())

    def _add(self, name: str, amount: float, **labels: str) -> None:
        self._scalar(name).add(self._with(labels), amount)

    def _put(self, name: str, value: float, **labels: str) -> None:
        self._scalar(name).put(self._with(labels), value)

    def _observe(self, name: str, value: float) -> None:
        metric = self._metrics[name]
        assert isinstance(metric, Histogram)
        metric.observe(self._labels, value)


def _help(name: str) -> str:
    return name.removesuffix("_total").replace("_", " ").capitalize() + "."
