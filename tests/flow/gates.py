"""Gates of these tests: pods without GPUs, and what they tell on their admin port."""

import json
from dataclasses import dataclass, field

from tidegate.api.gate_config import CONFIG_KEY, GateConfig
from tidegate.core import names
from tidegate.flow.ports import Configured, Document, ReadFailed, Tried

from .api_server import ApiServer, key_of
from .documents import container, is_ending, labels_of, owns


@dataclass
class Gates:
    """The gates of all deployments; what each test makes wrong with them.

    `asked` are the pods that were asked for their configuration, `tried` the revisions whose pair
    was tried. `refusal` is what all say against their configuration, `incompatible` are revisions
    through which no request gets, `is_absent` keeps pods from starting. `frozen` is what they have
    instead of what is written: they have not seen it yet.
    """

    api: ApiServer
    is_absent: bool = False
    is_silent: bool = False
    refusal: str = ""
    frozen: GateConfig | None = None
    incompatible: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)

    # the port

    async def configuration(self, pod: Document) -> Configured:
        self.asked.append(pod["metadata"]["name"])
        if self.is_silent:
            raise ReadFailed(f"pod {pod['metadata']['name']}: no answer")
        return Configured((self.frozen or self.config(pod)).generation, self.refusal)

    async def try_pair(self, pod: Document, revision: str) -> Tried:
        self.tried.append(revision)
        if revision in self.incompatible:
            return Tried(False, "p-1", "d-1", "status 500: other layout")
        return Tried(True, "p-1", "d-1")

    def config(self, pod: Document) -> GateConfig:
        """Return what a gate has: it sees each change at once."""
        name, namespace = labels_of(pod)["tidegate.io/deployment"], pod["metadata"]["namespace"]
        found = self.api.objects["ConfigMap", namespace, names.gate_name(name)]
        return GateConfig.model_validate_json(found["data"][CONFIG_KEY])

    # the cluster's part

    def step(self, time: str) -> None:
        """Make and remove the gates' pods; they are ready at once."""
        for deployment in self.deployments():
            pods = [pod for pod in self.pods() if owns(deployment, pod)]
            wanted = 0 if self.is_absent else deployment["spec"]["replicas"]
            for number in range(len(pods), wanted):
                self.api.put(_pod(deployment, number, time))
            for pod in pods[wanted:]:
                self.api.remove(key_of(pod))
            counts = {"replicas": wanted, "readyReplicas": wanted, "availableReplicas": wanted}
            self.api.patch(
                key_of(deployment), status={name: count for name, count in counts.items() if count}
            )

    def deployments(self) -> list[Document]:
        return [found for found in self._of_gates("Deployment") if not is_ending(found)]

    def pods(self) -> list[Document]:
        return self._of_gates("Pod")

    def _of_gates(self, kind: str) -> list[Document]:
        return [
            found
            for key, found in sorted(self.api.objects.items())
            if key[0] == kind and labels_of(found).get("app.kubernetes.io/component") == names.GATE
        ]


def told(document: Document) -> Document:
    """Return what a ConfigMap of a gate says, without what differs from way to way."""
    config: Document = json.loads(document["data"][CONFIG_KEY])
    return {**config, "generation": "any"}


def _pod(deployment: Document, number: int, time: str) -> Document:
    metadata, template = deployment["metadata"], deployment["spec"]["template"]
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-5d4f8c7b9-{number}",
            "namespace": metadata["namespace"],
            "labels": template["metadata"]["labels"],
            "ownerReferences": [
                {
                    "kind": "ReplicaSet",
                    "name": f"{metadata['name']}-5d4f8c7b9",
                    "uid": metadata["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {**template["spec"], "nodeName": "a1"},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.2",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time}],
            "containerStatuses": [container(name=names.GATE, ready=True, state={"running": {}})],
        },
    }
