"""EndpointSlices say which pods get requests, which get no more, and how many gates there are."""

import pytest
from tests.unit.gate.shell.documents import CONFIG, config_bytes, endpoint, endpoint_slice

from tidegate.api.gate_config import GateConfig
from tidegate.gate.shell import endpoints

POD = "qwen-unified-aaaa-h100-5d8f7c-x2x4z"


def config(**changes) -> GateConfig:
    return GateConfig.model_validate_json(config_bytes(**changes))


def pods(*slices, **changes):
    return endpoints.read(slices, config(**changes)).pods["unified"]


def test_a_ready_pod_is_told_with_its_slice_and_revision():
    [pod] = pods(endpoint_slice("qwen-unified", endpoint(POD, "10.0.0.1", ready=True)))

    assert (pod.name, pod.address, pod.port) == (POD, "10.0.0.1", 8000)
    assert (pod.pool, pod.revision, pod.slice_name) == (
        "unified",
        "aaaa",
        CONFIG["slices"][0]["name"],
    )
    assert not pod.terminating


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"ready": True, "serving": True, "terminating": False}, "serves"),
        ({}, "serves"),
        ({"ready": None}, "serves"),
        ({"ready": False, "serving": False, "terminating": False}, "absent"),
        ({"ready": False, "serving": True, "terminating": True}, "going"),
        ({"ready": False, "serving": False, "terminating": True}, "going"),
        ({"ready": True, "serving": True, "terminating": True}, "going"),
    ],
)
def test_the_conditions_of_an_endpoint_decide(conditions, expected):
    found = pods(endpoint_slice("qwen-unified", endpoint(POD, "10.0.0.1", **conditions)))

    assert [("going" if pod.terminating else "serves") for pod in found] == (
        [] if expected == "absent" else [expected]
    )


def test_a_pod_that_moves_from_one_slice_to_another_is_one_pod_and_ready_if_either_says_so():
    going = endpoint(POD, "10.0.0.1", ready=False, terminating=True)
    ready = endpoint(POD, "10.0.0.1", ready=True)
    for first, second in ((going, ready), (ready, going)):
        [pod] = pods(
            endpoint_slice("qwen-unified", first, name="a"),
            endpoint_slice("qwen-unified", second, name="b"),
        )
        assert not pod.terminating


def test_pods_of_a_slice_that_the_configuration_does_not_name_get_nothing_and_are_told():
    told = endpoints.read(
        [endpoint_slice("qwen-unified", endpoint("qwen-unified-bbbb-h100-5d8f7c-q", "10.0.0.2"))],
        config(),
    )

    assert told.pods == {"unified": ()}
    assert told.unknown == ("qwen-unified-bbbb-h100-5d8f7c-q",)


def test_a_pod_is_of_the_pool_whose_service_has_it():
    assert pods(endpoint_slice("other", endpoint(POD, "10.0.0.1", ready=True))) == ()


@pytest.mark.parametrize(
    ("ready", "expected"), [((), 1), ((False,), 1), ((True,), 1), ((True, True, False), 2)]
)
def test_gates_are_counted_by_their_ready_endpoints_and_there_is_at_least_this_one(ready, expected):
    gates = endpoint_slice(
        "qwen", *(endpoint(f"g{i}", f"10.0.1.{i}", ready=r) for i, r in enumerate(ready))
    )
    assert endpoints.read([gates], config()).gates == expected


def test_a_gate_in_two_address_families_is_one_gate():
    four = endpoint_slice("qwen", endpoint("g1", "10.0.1.1", ready=True), name="a")
    six = endpoint_slice(
        "qwen", endpoint("g1", "fd00::1", ready=True), name="b", address_type="IPv6"
    )
    assert endpoints.read([four, six], config()).gates == 1


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"metadata": None},
        {"endpoints": None},
        {"endpoints": [None, 3, {}]},
        {"endpoints": [{"addresses": [], "targetRef": {"name": POD}}]},
        {"endpoints": [{"addresses": [None], "targetRef": {"name": POD}}]},
        {"endpoints": [{"addresses": ["10.0.0.1"]}]},
        {
            "endpoints": [{"addresses": ["10.0.0.1"], "targetRef": {"name": POD}}],
            "addressType": "FQDN",
        },
    ],
)
def test_what_is_malformed_is_passed_over_and_the_rest_stands(broken):
    good = endpoint_slice("qwen-unified", endpoint(POD, "10.0.0.1", ready=True))
    assert len(pods(good, {**endpoint_slice("qwen-unified", name="zz"), **broken})) == 1


def test_what_is_kept_on_disk_says_the_same():
    told = endpoint_slice(
        "qwen-unified",
        {**endpoint(POD, "10.0.0.1", ready=True), "zone": "a", "hints": {}},
    )
    told["metadata"]["managedFields"] = [1]
    kept = endpoints.without_the_rest(told)

    assert endpoints.read([kept], config()) == endpoints.read([told], config())
    assert "managedFields" not in kept["metadata"]


def test_the_services_watched_are_those_of_the_pools_and_of_the_gates():
    assert endpoints.services(config()) == ("qwen", "qwen-unified")
