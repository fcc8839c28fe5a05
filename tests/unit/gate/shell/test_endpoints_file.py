"""A file in place of EndpointSlices, for a gate without a cluster."""

import json

import pytest
from tests.unit.gate.shell.documents import config_bytes

from tidegate.api.gate_config import GateConfig
from tidegate.errors import Invalid
from tidegate.gate.shell import endpoints_file

CONFIG = GateConfig.model_validate_json(config_bytes())
SLICE = "qwen-unified-aaaa-h100"


def read(*pods, **more):
    document = json.dumps({"pods": list(pods), **more}).encode()
    return endpoints_file.endpoints(endpoints_file.read(document), CONFIG)


def test_engines_are_pods_of_their_slices():
    told = read(
        {"name": "a", "slice": SLICE, "address": "127.0.0.1", "port": 8001},
        {"name": "b", "slice": SLICE, "address": "127.0.0.1", "terminating": True},
        gates=2,
    )

    a, b = told.pods["unified"]
    assert (a.port, a.revision, a.terminating) == (8001, "aaaa", False)
    assert (b.port, b.terminating) == (8000, True)
    assert told.gates == 2


def test_an_empty_file_has_pools_without_pods():
    assert read().pods == {"unified": ()}


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        ({"name": "a", "slice": "other", "address": "::1"}, r"pods\[0\].slice: other is no slice"),
        ({"name": "a", "slice": SLICE}, r"pods\[0\].address: required"),
        ({"name": "a", "slice": SLICE, "address": "::1", "port": "1"}, r"pods\[0\].port"),
        ({"name": "a", "slice": SLICE, "address": "::1", "pool": "x"}, r"pods\[0\].pool: unknown"),
    ],
)
def test_what_is_wrong_is_named(pod, said):
    with pytest.raises(Invalid, match=said):
        read(pod)


def test_two_engines_of_one_name_are_told():
    pods = [{"name": "a", "slice": SLICE, "address": address} for address in ("::1", "::2")]
    with pytest.raises(Invalid, match=r"pods\[1\].name: a is the name of pods\[0\], too"):
        read(*pods)
