"""Which nodes a pool can land on, and what is said when there is none."""

import pytest

from tidegate.api.pool_spec import NodeRequirement, Pool, Toleration
from tidegate.api.reasons import Reason
from tidegate.core import landing, nodes
from tidegate.errors import Refused

CARD = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068"}
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def node(name="n1", labels=None, gpus=4, **spec):
    return nodes.read(
        {
            "metadata": {"name": name, "labels": {**CARD, **(labels or {})}},
            "spec": spec,
            "status": {"allocatable": {"nvidia.com/gpu": gpus}},
        }
    )


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        ({"key": "gpu", "value": "yes"}, TAINT, True),
        ({"key": "gpu", "value": "no"}, TAINT, False),
        ({"key": "gpu", "operator": "Exists"}, TAINT, True),
        ({"operator": "Exists"}, TAINT, True),
        ({"key": "other", "operator": "Exists"}, TAINT, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, TAINT, False),
        ({"key": "x"}, {**TAINT, "effect": "PreferNoSchedule"}, True),
        ({"key": "gpu"}, {"key": "gpu", "effect": "NoSchedule"}, True),
    ],
)
def test_taints_are_tolerated_as_the_scheduler_does(toleration, taint, expected):
    assert landing.tolerates([Toleration.model_validate(toleration)], taint) is expected


@pytest.mark.parametrize(
    ("requirement", "labels", "expected"),
    [
        (("zone", "In", ["a", "b"]), {"zone": "a"}, True),
        (("zone", "In", ["a"]), {}, False),
        (("zone", "NotIn", ["a"]), {}, True),
        (("zone", "NotIn", ["a"]), {"zone": "a"}, False),
        (("zone", "Exists", []), {"zone": ""}, True),
        (("zone", "DoesNotExist", []), {"zone": ""}, False),
        (("gen", "Gt", ["3"]), {"gen": "4"}, True),
        (("gen", "Gt", ["4"]), {"gen": "4"}, False),
        (("gen", "Lt", ["4"]), {"gen": "3"}, True),
        (("gen", "Lt", ["4"]), {"gen": "three"}, False),
    ],
)
def test_requirements_are_met_as_the_scheduler_decides(requirement, labels, expected):
    key, operator, values = requirement
    asked = NodeRequirement(key=key, operator=operator, values=values)

    assert landing.meets(asked, labels) is expected


@pytest.mark.parametrize(
    ("pool", "there", "message"),
    [
        (
            Pool(node_selector={"zone": "a"}),
            [node(labels={"zone": "b"})],
            "1 do not match nodeSelector",
        ),
        (Pool(), [node(taints=[TAINT])], "1 have a taint that the pool does not tolerate"),
        (Pool(), [node(gpus=0), node("n2", gpus=0)], "2 have no nvidia.com/gpu"),
        (Pool(), [], "matches none of 0 nodes"),
    ],
    ids=["selector", "taint", "no GPU", "no node"],
)
def test_a_pool_without_a_node_says_which_condition_failed_on_how_many(pool, there, message):
    with pytest.raises(Refused, match=message) as caught:
        landing.find("unified", pool, there)

    assert caught.value.reason == Reason.NO_NODE_CLASS
    assert caught.value.field == "spec.pools.unified"


def test_nodes_that_hide_their_gpu_are_named_as_such():
    hidden = nodes.read(
        {"metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": "1"}}}
    )

    with pytest.raises(Refused, match="no label and no setting") as caught:
        landing.find("unified", Pool(), [hidden])

    assert caught.value.reason == Reason.GPU_UNKNOWN


def test_a_pin_to_a_class_that_is_not_there_names_those_that_are():
    pool = Pool.model_validate(
        {"nodeClasses": [{"product": "NVIDIA-L40S"}, {"product": "NVIDIA-H900"}]}
    )

    with pytest.raises(Refused, match=r"NVIDIA-H900 .* can land on NVIDIA-L40S") as caught:
        landing.find("unified", pool, [node()])

    assert caught.value.reason == Reason.NODE_CLASS_MISSING
    assert caught.value.field == "spec.pools.unified.nodeClasses[1].product"


@pytest.mark.parametrize(
    "away",
    [
        {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
        {
            "unschedulable": True,
            "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
        },
    ],
    ids=["unreachable", "cordoned"],
)
def test_a_node_that_is_away_for_a_moment_keeps_its_class(away):
    assert landing.find("unified", Pool(), [node(**away)]).by_class
