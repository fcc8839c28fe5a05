"""The operator's permissions as the chart takes them: apart where an installation may go without.

They are those of `install`, which has them from the table in `resources`.
"""

from tidegate.flow.ports import Document
from tidegate.shell import install
from tidegate.shell.resources import BY_KIND

_OF_CLUSTER = {resource.plural for resource in BY_KIND.values() if not resource.namespaced}


def permissions() -> dict[str, list[Document]]:
    """Return the rules of roles by the name of their file.

    `cluster` and `namespace` are always given; `cluster-certificates` and `namespace-certificates`
    only where the operator keeps the webhook's certificates itself. `deployments` are given in
    every namespace that is watched.
    """
    objects = install.manifests("image", "namespace", replicas=1)
    rules = {document["kind"]: document["rules"] for document in objects if "rules" in document}
    of_cluster, of_namespace = rules["ClusterRole"], rules["Role"]
    return {
        "cluster": [
            rule for rule in of_cluster if not _registers(rule) and not _is_namespaced(rule)
        ],
        "deployments": [rule for rule in of_cluster if _is_namespaced(rule)],
        "cluster-certificates": [rule for rule in of_cluster if _registers(rule)],
        "namespace": [rule for rule in of_namespace if not _stores(rule)],
        "namespace-certificates": [rule for rule in of_namespace if _stores(rule)],
    }


def _is_namespaced(rule: Document) -> bool:
    """Say whether a rule is about objects of namespaces, so that a Role can give it."""
    return not _OF_CLUSTER.intersection(rule["resources"])


def _registers(rule: Document) -> bool:
    """Say whether a rule lets the operator write `caBundle`."""
    return bool(rule["apiGroups"] == ["admissionregistration.k8s.io"])


def _stores(rule: Document) -> bool:
    """Say whether a rule lets the operator keep certificates in a Secret."""
    return bool(rule["resources"] == ["secrets"])
