"""What the gates of a deployment are told: from its spec, its plan and what is there of it.

A gate sizes requests by the numbers of the plan. Those of an older revision were planned from
another spec, so each slice carries its own on its Deployment, from its making to its end.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from tidegate.api.gate_config import (
    GateConfig,
    KVGroup,
    RevisionConfig,
    Serves,
    ShedShare,
    ShiftShare,
    SliceConfig,
)
from tidegate.api.gate_spec import GateSpec
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.quantities import spell_duration
from tidegate.core import names, serves
from tidegate.core.budget.groups import Group
from tidegate.core.budget.reach import AllTokens, Chunk, States, Window
from tidegate.core.plan import Plan, SlicePlan

_UNIFIED, _PAIR = ("unified",), ("prefill", "decode")
_WHOLE = 1000
_MOST_REVISIONS = 16
_MOST_SLICES = 512
_NULL_BLOCKS = 1
"""The engine keeps one block of its pool for itself."""


@dataclass(frozen=True)
class Around:
    """What is there beside the plan.

    `others` are slices that run and are not the plan's: older revisions, classes that it left.
    `ready` counts ready pods by (pool, revision). `generation` is the resource's. `shares` are what
    a rollout gives each revision, in thousandths; by ready pods where it says nothing.
    `kept` are slices of the plan that go on with the numbers that they were made with.
    `serves` is what the engines of each revision answer to, where their slices tell it.
    `shed` and `shift` are what the slow loop, or a person, has decided.
    """

    generation: int = 0
    others: tuple[SliceConfig, ...] = ()
    ready: Mapping[tuple[str, str], int] = field(default_factory=dict)
    kept: tuple[SliceConfig, ...] = ()
    shed: ShedShare | None = None
    shift: ShiftShare | None = None
    shares: Mapping[str, int] = field(default_factory=dict)
    serves: Mapping[str, Serves] = field(default_factory=dict)


def make(
    namespace: str, name: str, spec: LLMDeploymentSpec, plan: Plan, around: Around
) -> GateConfig:
    """Return the configuration of a deployment's gates."""
    kept = {entry.name: entry for entry in around.kept}
    planned = (of_slice(name, plan.revision, entry) for entry in plan.slices)
    own = [kept.get(entry.name, entry) for entry in planned]
    slices = own + sorted(around.others, key=lambda entry: entry.name)
    pools = _pools_in_use(tuple(spec.pools.by_name()), around.ready)
    ready = {key: count for key, count in around.ready.items() if key[0] in pools}
    revisions = weights(plan.revision, slices, ready, around.shares)
    asked = serves.planned(spec, plan.slices)
    gate = spec.gate
    return GateConfig.model_validate(
        {
            "namespace": namespace,
            "deployment": name,
            "generation": around.generation,
            **serves.tell(revisions, plan.revision, around.serves, asked),
            "gateService": name,
            "services": {pool: names.pool_name(name, pool) for pool in pools},
            "enginePort": names.ENGINE_PORT,
            "slices": slices[:_MOST_SLICES],
            "headroom": gate.headroom,
            "slo": spec.slo.wire() if spec.slo else {},
            "limits": _limits(gate),
            "deadlines": gate.deadlines.wire(),
            "shed": around.shed,
            "shift": around.shift,
            "tenants": {
                "requireKey": gate.require_key,
                "defaultPriority": gate.default_priority,
                "trustedPeers": gate.trusted_peers,
            },
        }
    )


def of_slice(deployment: str, revision: str, entry: SlicePlan) -> SliceConfig:
    """Return what gates are told of a slice."""
    class_name = entry.node_class.name
    pool = entry.sizing.pool
    return SliceConfig.model_validate(
        {
            "name": names.slice_name(deployment, entry.pool, revision, class_name),
            "pool": entry.pool,
            "revision": revision,
            "nodeClass": class_name,
            "kvBlocks": pool.num_blocks - _NULL_BLOCKS,
            "kvTokens": pool.cache_size_tokens,
            "groups": [of_group(group) for group in pool.groups],
            "maxNumSeqs": entry.engine.max_num_seqs,
            "prefillTokensPerSecond": entry.prefill_tokens_per_second,
        }
    )


def of_group(group: Group) -> KVGroup:
    """Return a group of layers as gates count it: equal to `Group.blocks_of` for every length."""
    match group.reach:
        case AllTokens(context_parallel):
            return KVGroup(block_tokens=group.block_size * context_parallel)
        case Window(window, in_flight, retained):
            cap = window - 1 + retained + in_flight
            return KVGroup(block_tokens=group.block_size, cap_tokens=cap, extra_blocks=1)
        case Chunk(chunk, in_flight):
            return KVGroup(block_tokens=group.block_size, cap_tokens=chunk + in_flight)
        case States(count):
            return KVGroup(block_tokens=group.block_size, cap_tokens=0, extra_blocks=count)


def _pools_in_use(asked: tuple[str, ...], ready: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    """Return the pools that requests go to: those that are asked for, once they can serve.

    A gate serves by one mode at a time. While `unified` becomes a pair, or the reverse, it goes on
    with the former one until a revision has a ready pod in each pool of the new one.
    """
    former = _PAIR if asked == _UNIFIED else _UNIFIED
    return former if _can_serve(former, ready) and not _can_serve(asked, ready) else asked


def _can_serve(pools: tuple[str, ...], ready: Mapping[tuple[str, str], int]) -> bool:
    revisions = {revision for _, revision in ready}
    return any(all(ready.get((pool, each)) for pool in pools) for each in revisions)


def weights(
    current: str,
    slices: Iterable[SliceConfig],
    ready: Mapping[tuple[str, str], int],
    shares: Mapping[str, int],
) -> list[RevisionConfig]:
    """Return each revision's share in thousandths: as a rollout has it, else by its ready pods.

    One without ready pods that write answers gets none. While no revision can answer all have the
    same share: whichever is ready first then serves, without the operator.
    """
    revisions = list(dict.fromkeys([current, *(entry.revision for entry in slices)]))
    serving = {revision: _serving(revision, ready) for revision in revisions[:_MOST_REVISIONS]}
    told = {name: shares.get(name, 0) if count else 0 for name, count in serving.items()}
    if any(told.values()):
        return [RevisionConfig(name=name, weight=share) for name, share in told.items()]
    if not any(serving.values()):
        serving = dict.fromkeys(serving, 1)
    total = sum(serving.values())
    return [
        RevisionConfig(name=revision, weight=_thousandths(count, total))
        for revision, count in serving.items()
    ]


def _serving(revision: str, ready: Mapping[tuple[str, str], int]) -> int:
    """Count the ready pods that write answers; those of a pair need one that reads prompts."""
    decode = ready.get(("decode", revision), 0) if ready.get(("prefill", revision)) else 0
    return ready.get(("unified", revision), 0) + decode


def _thousandths(count: int, total: int) -> int:
    return max(1, round(_WHOLE * count / total)) if count else 0


def _limits(gate: GateSpec) -> dict[str, Any]:
    limits = gate.limits
    wire: dict[str, Any] = {
        "bodyBytes": limits.body,
        "headerBytes": limits.headers,
        "choices": limits.choices,
        "prompts": limits.prompts,
        "logprobs": limits.logprobs,
        "connections": limits.connections,
        "maxQueue": gate.max_queue,
        "queueTimeout": spell_duration(gate.queue_timeout),
    }
    if gate.tenant_tokens_in_flight is not None:
        wire["tenantTokensInFlight"] = gate.tenant_tokens_in_flight
    return wire


def text(config: GateConfig) -> str:
    """Return the document as it is written: the same for equal configurations."""
    return json.dumps(config.wire(), indent=1) + "\n"


def encode(entry: SliceConfig) -> str:
    """Return a slice's part as its Deployment carries it."""
    return json.dumps(entry.wire(), separators=(",", ":"))


def decode(annotations: Mapping[str, str]) -> SliceConfig | None:
    """Read a slice's part from the annotations of its Deployment; None where there is none."""
    try:
        return SliceConfig.model_validate_json(annotations[names.ANNOTATION_GATE])
    except (KeyError, ValidationError):
        return None


def of_others(annotated: Sequence[Mapping[str, str]]) -> tuple[SliceConfig, ...]:
    """Read the parts of slices from the annotations of their Deployments."""
    return tuple(entry for each in annotated if (entry := decode(each)) is not None)
