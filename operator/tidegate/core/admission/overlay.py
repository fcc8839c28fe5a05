"""What a pool's `podTemplate` adds to pods, beyond the labels that rendering itself refuses."""

from collections.abc import Iterator

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core import names
from tidegate.core.admission.finding import Finding, refusal

_LABEL_DOMAINS = ("kubernetes.io", "k8s.io", "tidegate.io")
"""Labels below these, and below their subdomains, are what controllers select pods by."""
_ANNOTATION_DOMAINS = ("security.alpha.kubernetes.io", "security.beta.kubernetes.io", "tidegate.io")
"""Annotations that switch AppArmor or seccomp off. Others are for schedulers and scrapers."""
_LABELS = ("controller-revision-hash", "controller-uid", "job-name")
_SYSTEM = "system-"


def check(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield each label, annotation and priority that is not a user's to give to pods."""
    for name, pool in spec.pools.by_name().items():
        path, template = f"spec.pools.{name}.podTemplate", pool.pod_template
        for key in template.labels:
            if key in _LABELS or _is_below(key, _LABEL_DOMAINS):
                yield _foreign(f"{path}.labels['{key}']", key)
        for key in template.annotations:
            if _is_below(key, _ANNOTATION_DOMAINS):
                yield _foreign(f"{path}.annotations['{key}']", key)
        priority = template.priority_class_name
        if priority is not None and priority.startswith(_SYSTEM):
            yield refusal(
                Reason.PRIORITY_RESERVED,
                f"{path}.priorityClassName",
                "pods of this priority would put out those that the cluster itself needs",
            )


def _foreign(field: str, key: str) -> Finding:
    limit = f"{key} is a key of Kubernetes or of Tidegate, whose controllers act on it"
    return refusal(Reason.LABEL_RESERVED, field, limit)


def _is_below(key: str, domains: tuple[str, ...]) -> bool:
    """Compare the key's domain; the prefixes that rendering refuses are told by it."""
    domain = key.rpartition("/")[0]
    if f"{domain}/" in names.RESERVED_PREFIXES:
        return False
    return any(domain == owner or domain.endswith(f".{owner}") for owner in domains)
