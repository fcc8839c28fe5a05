"""Does the spec fit, on each class of node where it can land? What cannot be known is said so.

Faults of the spec alone are refused always. Those that the nodes decide are refused or told, as
`Enforcement` says; where no node tells its GPU they are unknown.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core import checks, model_config, resolve
from tidegate.core.admission import finding, pod_security, rollout
from tidegate.core.admission.facts import Facts
from tidegate.core.admission.finding import Finding
from tidegate.core.checks import Severity, Verdict, refusals
from tidegate.core.checks.subject import World
from tidegate.core.nodes import Node
from tidegate.core.plan import Plan
from tidegate.core.render import environment, extra_args, pod, render
from tidegate.core.render.render import Owner
from tidegate.errors import Refused, Wait

_UNKNOWN = (Reason.GPU_UNKNOWN,)
_LATER = "the operator checks it before it makes pods"
_UNSEEN_CONFIG = "the ConfigMap is not known here, so nothing that depends on the model was checked"
_UNSEEN_NODES = "no node is known here, so whether the pools fit was not checked"
_SILENT_NODES = (
    "no node tells its GPU, so whether the pools fit is unknown; run GPU feature discovery, or "
    "declare the classes in the operator's nodeClasses setting"
)


@dataclass(frozen=True)
class Judged:
    """What is said of a spec: by itself, and of the nodes. `config` is None where it is unknown."""

    alone: tuple[Finding, ...]
    of_nodes: tuple[Finding, ...]
    plan: Plan | None = None
    config: Mapping[str, Any] | None = None


class Memo:
    """The last specs that were judged against the same nodes; forgets all when nodes change."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._nodes: tuple[Node, ...] | None = None
        self._judged: OrderedDict[str, Judged] = OrderedDict()

    @property
    def size(self) -> int:
        """How many specs are remembered."""
        return len(self._judged)

    def judged(
        self, nodes: tuple[Node, ...] | None, key: str, judge: Callable[[], Judged]
    ) -> Judged:
        """Return what is known by the key, else what `judge` says."""
        if nodes is not self._nodes:
            self._judged.clear()
            self._nodes = nodes
        if key in self._judged:
            self._judged.move_to_end(key)
            return self._judged[key]
        found = self._judged[key] = judge()
        if len(self._judged) > self._most:
            self._judged.popitem(last=False)
        return found

    def adopt(self, other: "Memo") -> None:
        """Take over what another one has judged; nothing of it where the nodes have changed."""
        if other._nodes is self._nodes:
            self._judged |= other._judged
            while len(self._judged) > self._most:
                self._judged.popitem(last=False)


class Unseen(Exception):
    """A spec that was not judged on these nodes before."""


class Recollection(Memo):
    """What a memo remembers, and nothing more: judging is left to somebody who has the time."""

    def __init__(self, memo: Memo) -> None:
        super().__init__()
        self._memo = memo

    def judged(
        self, nodes: tuple[Node, ...] | None, key: str, judge: Callable[[], Judged]
    ) -> Judged:
        """Return what is known by the key.

        Raises:
            Unseen: Nothing is.
        """

        def unseen() -> Judged:
            raise Unseen

        return self._memo.judged(nodes, key, unseen)


def judge(spec: LLMDeploymentSpec, seen: Facts, memo: Memo | None = None) -> Judged:
    """Judge a spec; with a memo, one that was judged before in the same world costs nothing."""
    if memo is None:
        return _judge(spec, seen)
    texts = [seen.config_texts.get(name, "unknown") for name in _texts_of(spec)]
    world = [spec.wire(), texts, seen.model_config, seen.can_judge]
    key = json.dumps(world, sort_keys=True)
    return memo.judged(seen.nodes, key, lambda: _judge(spec, seen))


def _judge(spec: LLMDeploymentSpec, seen: Facts) -> Judged:
    try:
        config = _config(spec, seen)
    except (Refused, Wait) as error:
        return Judged((finding.of_error(error), *without_config(spec)), ())
    if config is None:
        told = finding.warning(Reason.NOT_CHECKED, "spec.model.configRef", _UNSEEN_CONFIG, _LATER)
        return Judged((told, *without_config(spec)), ())
    if not any(node.node_class for node in seen.nodes or ()):
        return _judge_alone(spec, config, seen)
    judged = _judge_on_nodes(spec, config, seen.nodes or ())
    canary = rollout.check_on_nodes(spec, judged.plan, seen.nodes, can_judge=seen.can_judge)
    return replace(judged, alone=(*judged.alone, *canary))


def _texts_of(spec: LLMDeploymentSpec) -> list[tuple[str, str]]:
    """Return name and key of the ConfigMaps that say what the model is."""
    refs = (spec.model.config_ref, spec.model.weights.index_ref)
    return [(ref.name, ref.key) for ref in refs if ref is not None]


def _config(spec: LLMDeploymentSpec, seen: Facts) -> Mapping[str, Any] | None:
    """Return the model's config.json, None where a part is in a ConfigMap that is not known."""
    if seen.model_config is not None:
        return seen.model_config
    if any(name not in seen.config_texts for name in _texts_of(spec)):
        return None
    config, index = (
        None if ref is None else seen.config_texts[ref.name, ref.key]
        for ref in (spec.model.config_ref, spec.model.weights.index_ref)
    )
    return model_config.of(spec.model, config, index)


def without_config(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield the faults that show whatever the model is."""
    for check in _checks_without_config(spec):
        try:
            check()
        except Refused as refused:
            yield finding.of_error(refused)


def _checks_without_config(spec: LLMDeploymentSpec) -> Iterator[Callable[[], object]]:
    yield lambda: resolve.engine_of(spec.engine).kv_dtype(spec.kv_cache.dtype)
    yield lambda: extra_args.normalised(spec.engine.extra_args, resolve.engine_of(spec.engine))
    yield lambda: environment.check(spec.engine.env)
    for name, pool in spec.pools.by_name().items():
        yield partial(pod.check_template, name, pool.pod_template)


def _judge_alone(spec: LLMDeploymentSpec, config: Mapping[str, Any], seen: Facts) -> Judged:
    world = World(config, ())
    faults = refusals.of_spec(spec, world)
    told = [refusals.verdict(spec, world, fault, faults) for fault in faults]
    reason, limit = (
        (Reason.NOT_CHECKED, _UNSEEN_NODES)
        if seen.nodes is None
        else (Reason.GPU_UNKNOWN, _SILENT_NODES)
    )
    unknown = finding.warning(reason, "spec.pools", limit, _LATER)
    return Judged(tuple(map(finding.of_verdict, told)), (unknown,), config=config)


def _judge_on_nodes(
    spec: LLMDeploymentSpec, config: Mapping[str, Any], nodes: tuple[Node, ...]
) -> Judged:
    plan, verdicts = checks.check_spec(spec, config, nodes)
    alone: list[Finding] = []
    of_nodes: list[Finding] = []
    by_itself = _by_itself(spec, config, verdicts)
    for verdict in verdicts:
        found = finding.of_verdict(verdict)
        if verdict.severity is Severity.REFUSE and verdict.reason in _UNKNOWN:
            found = replace(found, severity=Severity.WARN)
        is_alone = (verdict.reason, verdict.field) in by_itself
        (alone if is_alone else of_nodes).append(found)
    if plan is not None and not any(found.is_refusal for found in (*alone, *of_nodes)):
        alone += _rendered_faults(spec, plan)
    return Judged(tuple(alone), tuple(of_nodes), plan, config)


def _by_itself(
    spec: LLMDeploymentSpec, config: Mapping[str, Any], verdicts: list[Verdict]
) -> set[tuple[str, str | None]]:
    """Return reason and field of the faults that no node could mend."""
    if not any(verdict.severity is Severity.REFUSE for verdict in verdicts):
        return set()
    return {(f.reason, f.field) for f in refusals.of_spec(spec, World(config, ()))}


def _rendered_faults(spec: LLMDeploymentSpec, plan: Plan) -> list[Finding]:
    """Return what is wrong with the pods as rendered; those of a pool are alike on all classes."""
    owner = Owner("default", "name", None)
    first = [plan.of_pool(pool)[0] for pool in spec.pools.by_name()]
    return rendered_faults([render.deployment(owner, spec, plan, entry, {}) for entry in first])


def rendered_faults(documents: list[dict[str, Any]]) -> list[Finding]:
    """Return what the pods of rendered Deployments break of Pod Security `restricted`."""
    return [
        found
        for document in documents
        if document["kind"] == "Deployment"
        for found in pod_security.check(document["spec"]["template"])
    ]
