"""The catalogue of engine versions: what each vLLM release takes, exports and assumes.

`data/engines/<version>.json` holds, per version:

- `flags`: name -> `type`, `default`, and where they apply `aliases`, `negatives` (spellings that
  set it to false), `choices` with `choicesAreOpen`, `many` (takes several values),
  `optionalValue` and `group`. The types are those of `facts.flags.Flag`.
- `kvCacheDtypes`, `speculativeMethods`: the values of two flags, for short.
- `attentionBackends`: name -> `kvCacheDtypes` that the backend declares, null where it declares
  none itself.
- `kvConnectors`: name -> `hybridKvCache`, whether it works with the hybrid KV cache manager.
- `metrics`: exported name -> `type` and, where it is not always there, what it `needs`.
- `renamedMetrics`: old name -> `now` (null: no successor) and `hiddenSince`.
- `removedFlags`: name -> `absentIn` (a version that lacks it) and what to use `instead`.
- `batchDefaults`: from the largest card down, what applies to a device of at least that memory.
- `defaultPort`, `defaultBlockSize`, `cpuBlockSize`, `cpuBatchDefaults`, `source`, `version`.

scripts/facts/engines.py makes these files; docs/reference/engines.md shows them as tables.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.errors import Refused
from tidegate.facts import flags, package_data
from tidegate.facts.flags import Ambiguous, Flag, Match

_VERSION = re.compile(r"^v?(\d+)\.(\d+)(?:\.(\d+))?")
_TAG = re.compile(r"^v?(\d+\.\d+\.\d+(?:rc\d+|\.post\d+|\.dev\d+)?|0\.\d+)(?![\d.])")
# What users write for a KV type, and vLLM's name for it. Where a number of bits has several
# formats, the one that needs no calibration: per token and head.
_FRIENDLY_KV_DTYPES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "e4m3": "fp8_e4m3",
    "e5m2": "fp8_e5m2",
    "int8": "int8_per_token_head",
    "int4": "int4_per_token_head",
    "fp4": "nvfp4",
    "k8v4": "turboquant_k8v4",
    "k3v4": "turboquant_k3v4_nc",
}


@dataclass(frozen=True)
class BatchDefaults:
    """What the API server takes where a flag is absent, by the device."""

    max_num_batched_tokens: int
    max_num_seqs: int


@dataclass(frozen=True)
class Metric:
    """A series as it is exported; `needs` is the flag or set-up without which it is absent."""

    name: str
    kind: str
    needs: str | None


@dataclass(frozen=True, eq=False)
class Engine:
    """One vLLM version. `note` says when another patch of the same minor was asked for."""

    version: str
    note: str | None
    flags: Mapping[str, Flag]
    spellings: Mapping[str, Flag]
    kv_cache_dtypes: tuple[str, ...]
    speculative_methods: tuple[str, ...]
    metrics: Mapping[str, Metric]
    default_port: int
    default_block_size: int
    cpu_block_size: int
    _facts: Mapping[str, Any]

    def resolve(self, argument: str) -> Match | Ambiguous | None:
        """Return the flag that a command line argument names; see `flags.resolve`."""
        return flags.resolve(self.spellings, argument)

    def kv_dtype(self, name: str) -> str:
        """Return vLLM's name for a KV type as users write it.

        Raises:
            Refused: This version has no such type (KV_DTYPE_UNSUPPORTED).
        """
        spelling = _FRIENDLY_KV_DTYPES.get(name.lower(), name.lower())
        if spelling in self.kv_cache_dtypes:
            return spelling
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"vLLM {self.version} has no KV cache type {name}; use one of "
            f"{', '.join(self.kv_cache_dtypes)}, or a short form: {', '.join(self._short_forms())}",
            "spec.kvCache.dtype",
        )

    def _short_forms(self) -> list[str]:
        known = self.kv_cache_dtypes
        return [short for short, full in _FRIENDLY_KV_DTYPES.items() if full in known]

    @property
    def attention_backends(self) -> tuple[str, ...]:
        """The names that --attention-backend takes, sorted; lower case is taken too."""
        return tuple(self._facts["attentionBackends"])

    def kv_dtypes_of_backend(self, backend: str) -> tuple[str, ...] | None:
        """Return the KV types that a backend declares; None where it declares none itself.

        Raises:
            KeyError: This version has no such backend.
        """
        declared = self._facts["attentionBackends"][backend.upper()]["kvCacheDtypes"]
        return None if declared is None else tuple(declared)

    @property
    def kv_connectors(self) -> Mapping[str, bool]:
        """The KV connectors, and whether each works with the hybrid KV cache manager."""
        return {name: row["hybridKvCache"] for name, row in self._facts["kvConnectors"].items()}

    def removed_flag(self, name: str) -> str | None:
        """Return what to use instead of a flag that older versions had; None for any other."""
        row = self._facts["removedFlags"].get(name)
        return None if row is None else str(row["instead"])

    def renamed_metric(self, old_name: str) -> str | None:
        """Return today's name of a metric of older versions; None where there is none."""
        row = self._facts["renamedMetrics"].get(old_name)
        return None if row is None else row["now"]

    def batch_defaults(
        self, device_bytes: int, device_name: str, compute_capability: tuple[int, int] | None
    ) -> BatchDefaults:
        """Return the batch limits that the API server takes by default on a CUDA device.

        `device_bytes` is what CUDA reports, `device_name` the driver's or the product label's.
        """
        capability = "{}.{}".format(*compute_capability) if compute_capability else ""
        for tier in self._facts["batchDefaults"]:
            is_excepted = capability in tier["exceptComputeCapabilities"] or any(
                name in device_name.lower() for name in tier["exceptDeviceNames"]
            )
            if device_bytes >= tier["deviceMemoryAtLeastBytes"] and not is_excepted:
                return BatchDefaults(tier["maxNumBatchedTokens"], tier["maxNumSeqs"])
        raise ValueError(f"{self.version}: no batch defaults for {device_bytes} bytes")

    def cpu_batch_defaults(self, world_size: int) -> BatchDefaults:
        """Return the batch limits that the API server takes by default on CPUs."""
        row = self._facts["cpuBatchDefaults"]
        return BatchDefaults(
            row["maxNumBatchedTokensPerRank"] * world_size, row["maxNumSeqsPerRank"] * world_size
        )


@cache
def versions() -> tuple[str, ...]:
    """Return the versions that the catalogue covers, the oldest first."""
    return tuple(sorted(package_data.names("engines"), key=_numbers))


@cache
def engine(version: str) -> Engine:
    """Return a version's facts; another patch of a known minor takes the nearest known patch.

    Raises:
        Refused: No patch of that minor is known (ENGINE_VERSION_UNKNOWN).
    """
    match = _VERSION.match(version)
    near = [v for v in versions() if match and _numbers(v)[:2] == _numbers(version)[:2]]
    if not near:
        raise Refused(
            Reason.ENGINE_VERSION_UNKNOWN,
            f"vLLM {version} is not in the catalogue; it knows {', '.join(versions())}",
            "spec.engine.version",
        )
    nearest = min(near, key=lambda known: abs(_numbers(known)[2] - _numbers(version)[2]))
    is_same = nearest == version.removeprefix("v")
    note = None if is_same else f"the facts of vLLM {nearest} stand in for those of {version}"
    return _make(package_data.load(f"engines/{nearest}.json"), note)


@cache
def metric_generations(name: str) -> tuple[str, ...]:
    """Return a metric's name of today, then those by which older versions export it."""
    rows = [
        (old, row["now"])
        for version in versions()
        for old, row in package_data.load(f"engines/{version}.json")["renamedMetrics"].items()
    ]
    return (name, *dict.fromkeys(old for old, now in rows if now == name))


def version_of_image(image: str) -> str | None:
    """Return the vLLM version that an image's tag tells; None for a tag that tells none."""
    name = image.split("@")[0].rpartition("/")[2]
    match = _TAG.match(name.partition(":")[2])
    return match[1] if match else None


def is_same_minor(one: str, other: str) -> bool:
    """Tell whether two versions differ by a patch at most; a text that is no version is unlike."""
    matches = [_VERSION.match(version) for version in (one, other)]
    minors = [match.groups()[:2] for match in matches if match is not None]
    return len(minors) == 2 and minors[0] == minors[1]


def _numbers(version: str) -> tuple[int, int, int]:
    match = _VERSION.match(version)
    if match is None:
        raise ValueError(f"{version!r} is no version")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def _make(facts: Mapping[str, Any], note: str | None) -> Engine:
    known = {name: _flag(name, row) for name, row in facts["flags"].items()}
    return Engine(
        version=facts["version"],
        note=note,
        flags=known,
        spellings={spelling: flag for flag in known.values() for spelling in flag.spellings},
        kv_cache_dtypes=tuple(facts["kvCacheDtypes"]),
        speculative_methods=tuple(facts["speculativeMethods"]),
        metrics={n: Metric(n, m["type"], m.get("needs")) for n, m in facts["metrics"].items()},
        default_port=facts["defaultPort"],
        default_block_size=facts["defaultBlockSize"],
        cpu_block_size=facts["cpuBlockSize"],
        _facts=facts,
    )


def _flag(name: str, row: Mapping[str, Any]) -> Flag:
    return Flag(
        name=name,
        kind=row["type"],
        default=row["default"],
        aliases=tuple(row.get("aliases", ())),
        negatives=tuple(row.get("negatives", ())),
        choices=tuple(row.get("choices", ())),
        choices_are_open=row.get("choicesAreOpen", False),
        takes_many=row.get("many", False),
        value_is_optional=row.get("optionalValue", False),
        group=row["group"],
    )
