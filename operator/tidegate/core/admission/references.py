"""What a resource names in its namespace, as questions: may who writes it do this themselves?

The operator reads Secrets for its pods and makes pods. Whoever may write an LLMDeployment must not
get by it what the API server would refuse them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core.admission.finding import Finding, refusal


@dataclass(frozen=True, order=True)
class AccessQuestion:
    """One SubjectAccessReview; `field` is what names the object, and no part of the question."""

    verb: str
    resource: str
    namespace: str
    name: str = ""
    group: str = ""
    field: str = "spec"

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What a cache of answers is asked by, beside the user."""
        return self.verb, self.group, self.resource, self.namespace, self.name

    def denied(self, user: str) -> Finding:
        """Return what is said where the answer is no."""
        what = f"{self.resource} {self.name}".strip()
        return refusal(
            Reason.ACCESS_DENIED,
            self.field,
            f"{user} may not {self.verb} {what} in the namespace {self.namespace}",
        )


def questions(
    old: LLMDeploymentSpec | None,
    new: LLMDeploymentSpec,
    namespace: str,
    *,
    makes_pods: bool,
) -> tuple[AccessQuestion, ...]:
    """Return what is to be asked; of an update only what it adds."""
    known = {(resource, name) for resource, name, _ in _named(old)} if old else set()
    asked: dict[tuple[str, str], AccessQuestion] = {}
    for resource, name, field in _named(new):
        if (resource, name) not in known:
            asked.setdefault(
                (resource, name),
                AccessQuestion("get", resource, namespace, name, field=field),
            )
    pods = (AccessQuestion("create", "pods", namespace),) if makes_pods else ()
    return (*pods, *asked.values())


def _named(spec: LLMDeploymentSpec) -> Iterator[tuple[str, str, str]]:
    """Yield resource, name and field of every object that pods, gates' included, will read."""
    source, ref = spec.model.source, spec.model.config_ref
    if source is not None and source.hugging_face is not None:
        token = source.hugging_face.token_secret_ref
        yield "secrets", token.name, "spec.model.source.huggingFace.tokenSecretRef"
    if source is not None and source.persistent_volume_claim is not None:
        claim = source.persistent_volume_claim.claim_name
        yield "persistentvolumeclaims", claim, "spec.model.source.persistentVolumeClaim"
    if ref is not None:
        yield "configmaps", ref.name, "spec.model.configRef"
    if spec.model.weights.index_ref is not None:
        yield "configmaps", spec.model.weights.index_ref.name, "spec.model.weights.indexRef"
    for index, secret in enumerate(spec.engine.image_pull_secrets):
        yield "secrets", secret, f"spec.engine.imagePullSecrets[{index}]"
    for index, variable in enumerate(spec.engine.env):
        if variable.secret_key_ref is not None:
            yield "secrets", variable.secret_key_ref.name, f"spec.engine.env[{index}].secretKeyRef"
    keys = spec.gate.keys_secret_ref
    if keys is not None and spec.gate.enabled:
        yield "secrets", keys.name, "spec.gate.keysSecretRef"
