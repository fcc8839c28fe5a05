"""What a resource names in its own namespace: ConfigMap, Secrets, claim."""

from collections.abc import Iterator, Sequence

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.model_spec import KeyRef
from tidegate.api.reasons import Reason
from tidegate.errors import Wait
from tidegate.flow.memory import FetchedText, Memory
from tidegate.flow.ports import Clock, Cluster, Ref

TEXT_AGE_SECONDS = 30.0
"""A ConfigMap is asked for again after this: changes are seen, and a pass at rest makes no call."""
_RETRY_SECONDS = 10.0


async def texts(
    ref: Ref, wanted: Sequence[KeyRef | None], cluster: Cluster, clock: Clock, memory: Memory
) -> tuple[str | None, ...]:
    """Return the value of each ConfigMap's key, None where it is not wanted or not there."""
    now, known = clock.monotonic(), memory.texts.get(ref, {})
    fresh: dict[tuple[str, str], FetchedText] = {}
    for key in wanted:
        if key is None:
            continue
        name = (key.name, key.key)
        if name in known and known[name].is_fresh(now, TEXT_AGE_SECONDS):
            fresh[name] = known[name]
            continue
        found = await cluster.get("ConfigMap", ref.namespace, key.name)
        fresh[name] = FetchedText(((found or {}).get("data") or {}).get(key.key), now)
    memory.texts[ref] = fresh
    return tuple(None if key is None else fresh[key.name, key.key].text for key in wanted)


async def check(ref: Ref, spec: LLMDeploymentSpec, cluster: Cluster) -> None:
    """See that what the pods will need is there before they are made.

    Raises:
        Wait: Something is not there (yet); the message names it.
    """
    for key in sorted({*_secret_keys(spec)}):
        name, entry = key
        found = await cluster.get("Secret", ref.namespace, name)
        if found is None:
            raise _missing(f"the Secret {name} does not exist; create it with the key {entry}")
        if entry not in (found.get("data") or {}):
            raise _missing(f"the Secret {name} has no key {entry}; add it")
    source = spec.model.source
    claim = source.persistent_volume_claim if source else None
    if (
        claim
        and await cluster.get("PersistentVolumeClaim", ref.namespace, claim.claim_name) is None
    ):
        raise _missing(f"the PersistentVolumeClaim {claim.claim_name} does not exist; create it")


def _secret_keys(spec: LLMDeploymentSpec) -> Iterator[tuple[str, str]]:
    source = spec.model.source
    if source and source.hugging_face:
        ref = source.hugging_face.token_secret_ref
        yield ref.name, ref.key
    for variable in spec.engine.env:
        if variable.secret_key_ref:
            yield variable.secret_key_ref.name, variable.secret_key_ref.key
    keys = spec.gate.keys_secret_ref
    if keys is not None and spec.gate.enabled:
        yield keys.name, keys.key


def _missing(message: str) -> Wait:
    return Wait(Reason.REFERENCE_MISSING, message, _RETRY_SECONDS)
