"""Where each kind lives on the API server, and what the operator may do with it.

`RULES` and its companions are the one table of permissions: the install manifest is made from it,
and a test asserts that the operator asks for nothing else.
"""

from dataclasses import dataclass

from tidegate.api.llmdeployment import GROUP, KIND, PLURAL, VERSION


@dataclass(frozen=True)
class Resource:
    """A kind's place: `api_version` as documents write it, `plural` as paths do."""

    kind: str
    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
        """Return the path of a collection (no name), an object, or its subresource."""
        root = "/apis/" if "/" in self.api_version else "/api/"
        path = f"{root}{self.api_version}"
        if self.namespaced and namespace is not None:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name is not None:
            path += f"/{name}"
        return f"{path}/{sub}" if sub else path


_ALL = (
    Resource(KIND, f"{GROUP}/{VERSION}", PLURAL),
    Resource("Node", "v1", "nodes", namespaced=False),
    Resource("Pod", "v1", "pods"),
    Resource("Service", "v1", "services"),
    Resource("ServiceAccount", "v1", "serviceaccounts"),
    Resource("ConfigMap", "v1", "configmaps"),
    Resource("Secret", "v1", "secrets"),
    Resource("PersistentVolumeClaim", "v1", "persistentvolumeclaims"),
    Resource("Event", "v1", "events"),
    Resource("Deployment", "apps/v1", "deployments"),
    Resource("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets"),
    Resource("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies"),
    Resource("Role", "rbac.authorization.k8s.io/v1", "roles"),
    Resource("RoleBinding", "rbac.authorization.k8s.io/v1", "rolebindings"),
    Resource("Lease", "coordination.k8s.io/v1", "leases"),
    Resource(
        "SubjectAccessReview",
        "authorization.k8s.io/v1",
        "subjectaccessreviews",
        namespaced=False,
    ),
    Resource(
        "MutatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        namespaced=False,
    ),
    Resource(
        "ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        namespaced=False,
    ),
)
BY_KIND = {resource.kind: resource for resource in _ALL}

OWNED_KINDS = (
    "ConfigMap",
    "Deployment",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Role",
    "RoleBinding",
    "Service",
    "ServiceAccount",
)
"""Kinds that are rendered, applied and deleted."""

WEBHOOK_SECRET = "tidegate-webhook-tls"
"""The Secret with the webhook's certificates, in the operator's own namespace."""
WEBHOOK_CONFIGURATION = "tidegate"
"""The name of both webhook configurations."""

_OWN = ["create", "delete", "get", "list", "patch", "watch"]
RULES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # (API group, resource, verbs), in alphabetical order so that nothing is repeated or missed
    ("", "configmaps", tuple(_OWN)),
    ("", "events", ("create",)),
    ("", "nodes", ("list", "watch")),
    ("", "persistentvolumeclaims", ("get",)),
    ("", "pods", ("list", "watch")),
    ("", "pods/log", ("get",)),
    ("", "secrets", ("get",)),
    ("", "serviceaccounts", tuple(_OWN)),
    ("", "services", tuple(_OWN)),
    ("apps", "deployments", tuple(_OWN)),
    ("authorization.k8s.io", "subjectaccessreviews", ("create",)),  # may the user read that Secret?
    ("discovery.k8s.io", "endpointslices", ("get", "list", "watch")),  # gates are given this right
    ("networking.k8s.io", "networkpolicies", tuple(_OWN)),
    ("policy", "poddisruptionbudgets", tuple(_OWN)),
    ("rbac.authorization.k8s.io", "rolebindings", tuple(_OWN)),
    ("rbac.authorization.k8s.io", "roles", tuple(_OWN)),  # without `escalate`: only what it has
    (GROUP, PLURAL, ("get", "list", "watch")),
    (GROUP, f"{PLURAL}/finalizers", ("update",)),  # to set owner references that block deletion
    (GROUP, f"{PLURAL}/status", ("update",)),
)
"""Permissions over the cluster."""

NAMED_RULES: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    # (API group, resource, verbs, names)
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        ("get", "patch"),
        (WEBHOOK_CONFIGURATION,),
    ),
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        ("get", "patch"),
        (WEBHOOK_CONFIGURATION,),
    ),
)
"""Permissions over single objects of the cluster."""

LEASE_RULES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("coordination.k8s.io", "leases", ("create", "get", "update")),
)
"""Permissions in the operator's own namespace."""

CERTIFICATE_RULES: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("", "secrets", ("create",), ()),  # of what is not there yet, no name can be told
    ("", "secrets", ("get", "update"), (WEBHOOK_SECRET,)),
)
"""Permissions over the webhook's certificates, in the operator's own namespace."""
