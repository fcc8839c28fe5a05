"""The documents that a gate of one deployment is told."""

import json

CONFIG = {
    "namespace": "chat",
    "deployment": "qwen",
    "generation": 3,
    "models": ["qwen", "qwen-latest"],
    "maxModelLen": 2048,
    "gateService": "qwen",
    "services": {"unified": "qwen-unified"},
    "slices": [
        {
            "name": "qwen-unified-aaaa-h100",
            "pool": "unified",
            "revision": "aaaa",
            "nodeClass": "h100",
            "kvBlocks": 512,
            "kvTokens": 8192,
            "groups": [{"blockTokens": 16}],
            "maxNumSeqs": 16,
        }
    ],
    "revisions": [{"name": "aaaa", "weight": 1}],
}


def config_bytes(**changes) -> bytes:
    """A configuration as the operator writes it."""
    return json.dumps({**CONFIG, **changes}).encode()


def config_map(text, name="qwen-gate", version="1"):
    """The ConfigMap that holds a text."""
    return {
        "metadata": {"name": name, "resourceVersion": version},
        "data": {"gate.json": text},
    }


def endpoint(name, address, **conditions):
    """An endpoint of a pod."""
    return {
        "addresses": [address],
        "conditions": conditions,
        "targetRef": {"kind": "Pod", "name": name},
    }


def endpoint_slice(service, *endpoints, name=None, version="1", address_type="IPv4"):
    """An EndpointSlice of a Service."""
    return {
        "metadata": {
            "name": name or f"{service}-x1",
            "resourceVersion": version,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": address_type,
        "endpoints": list(endpoints),
    }
