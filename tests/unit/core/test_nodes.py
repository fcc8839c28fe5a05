"""Nodes and the classes that they fall into."""

import pytest

from tidegate.core import nodes
from tidegate.core.nodes import GpuPod, NodeClassSetting

H100 = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.count": "8",
}


def node(name="n1", labels=None, gpus=8, **spec):
    return {
        "metadata": {"name": name, "labels": dict(H100 if labels is None else labels)},
        "spec": spec,
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}},
    }


def test_a_labelled_node_has_the_class_of_its_card():
    found = nodes.read(node()).node_class

    assert found.product == "NVIDIA-H100-80GB-HBM3"
    assert found.gpus_per_node == 8
    assert 79 * 2**30 < found.gpu.cuda_total.bytes < 80 * 2**30
    assert dict(found.requirements) == H100


@pytest.mark.parametrize(
    "change",
    [
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"},
        {"nvidia.com/gpu.count": "4"},
        {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
            "nvidia.com/gpu.memory": "9984",
        },
    ],
    ids=["another card", "fewer cards in a node", "a slice of the card"],
)
def test_nodes_that_differ_in_their_gpus_are_of_different_classes(change):
    other = nodes.read(node(labels={**H100, **change})).node_class

    assert other.name != nodes.read(node()).node_class.name


def test_the_name_of_a_class_does_not_depend_on_the_node():
    labels = {**H100, "kubernetes.io/hostname": "elsewhere", "zone": "b"}

    assert nodes.read(node("n2", labels)).node_class == nodes.read(node()).node_class


def test_an_unknown_card_is_taken_by_its_label_with_a_band():
    labels = {**H100, "nvidia.com/gpu.product": "NVIDIA-X900", "nvidia.com/gpu.memory": "100000"}
    total = nodes.read(node(labels=labels)).node_class.gpu.cuda_total

    assert total.low < total.bytes < total.high
    assert total.how == "estimated"


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"nvidia.com/gpu.product": "NVIDIA-X900"},
        {
            **H100,
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-INVALID",
            "nvidia.com/gpu.memory": "0",
        },
    ],
    ids=["no label", "an unknown card without memory", "an invalid MIG layout"],
)
def test_a_node_that_does_not_tell_its_gpu_has_no_class(labels):
    assert nodes.read(node(labels=labels)).node_class is None


def test_the_settings_tell_what_labels_do_not():
    settings = [NodeClassSetting({"pool": "dgx"}, "NVIDIA-GB10", 120 * 2**30, (12, 1))]
    found = nodes.read(node(labels={"pool": "dgx"}, gpus=1), settings).node_class

    assert (found.product, found.gpu.cuda_total.bytes) == ("NVIDIA-GB10", 120 * 2**30)
    assert found.requirements == (("pool", "dgx"),)


def test_a_cloud_label_tells_the_card_where_no_discovery_runs():
    labels = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    found = nodes.read(node(labels=labels)).node_class

    assert found.product == "NVIDIA-H100-80GB-HBM3"
    assert found.requirements == (("node.kubernetes.io/instance-type", "p5.48xlarge"),)


def test_gpus_of_other_deployments_are_not_free_and_our_own_are():
    cluster = [nodes.read(node("n1")), nodes.read(node("n2"))]
    pods = [
        GpuPod("chat", "mine", "n1", 2, "qwen"),
        GpuPod("other", "same-name", "n1", 3, "qwen"),
        GpuPod("chat", "training", "n2", 4),
        GpuPod("chat", "pending", None, 4),
    ]

    assert nodes.free_gpus(cluster, pods, "chat", "qwen") == {"n1": 5, "n2": 4}


def test_a_cordoned_node_has_room_only_for_what_is_there_already():
    cluster = [nodes.read(node("n1", unschedulable=True))]
    pods = [GpuPod("chat", "mine", "n1", 2, "qwen"), GpuPod("chat", "other", "n1", 1)]

    assert nodes.free_gpus(cluster, pods, "chat", "qwen") == {"n1": 2}
    assert nodes.free_gpus(cluster, pods, None, None) == {"n1": 0}


def mixed(**allocatable):
    labels = {
        **H100,
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/mig-1g.10gb.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "nvidia.com/mig-1g.10gb.memory": "9984",
        "nvidia.com/mig-1g.10gb.multiprocessors": "16",
        "nvidia.com/mig-1g.10gb.count": "7",
    }
    document = node(labels=labels)
    counts = {f"nvidia.com/{name.replace('__', '.')}": n for name, n in allocatable.items()}
    document["status"]["allocatable"] = counts
    return document


SLICES = {"mig-1g__10gb": "7"}


def test_a_node_of_whole_cards_and_mig_devices_offers_both():
    whole, device = nodes.offers(mixed(gpu="7", **SLICES))

    assert (whole.name, whole.gpus, whole.node_class.resource) == ("n1", 7, "nvidia.com/gpu")
    assert (device.name, device.gpus) == ("n1/mig-1g.10gb", 7)
    assert device.node_class.resource == "nvidia.com/mig-1g.10gb"
    assert device.node_class.gpus_per_node == 7
    assert dict(device.node_class.requirements) == {
        "nvidia.com/mig-1g.10gb.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "nvidia.com/mig-1g.10gb.memory": "9984",
        "nvidia.com/mig-1g.10gb.count": "7",
    }


def test_a_mig_device_has_its_memory_and_its_share_of_multiprocessors():
    whole, device = nodes.offers(mixed(gpu="7", **SLICES))
    card, part = whole.node_class.gpu, device.node_class.gpu

    assert part.cuda_total.bytes == 9984 * 2**20
    assert part.bf16_flops == pytest.approx(card.bf16_flops * 16 / 132)
    assert part.nvlink == "none"


def test_a_node_of_mig_devices_alone_offers_no_whole_cards():
    [device] = nodes.offers(mixed(**SLICES))

    assert device.node_class.resource == "nvidia.com/mig-1g.10gb"


def test_mig_devices_that_are_all_alike_are_another_class_than_mixed_ones():
    alike = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "nvidia.com/gpu.memory": "9984",
        "nvidia.com/gpu.count": "7",
    }
    [device] = nodes.offers(mixed(**SLICES))
    single = nodes.read(node(labels=alike, gpus=7))

    assert single.node_class.resource == "nvidia.com/gpu"
    assert single.node_class.gpu.cuda_total == device.node_class.gpu.cuda_total
    assert single.node_class.name != device.node_class.name


def test_gpus_are_free_by_resource():
    cluster = nodes.offers(mixed(gpu="7", **SLICES))
    pods = [
        GpuPod("chat", "whole", "n1", 2),
        GpuPod("chat", "part", "n1", 1, resource="nvidia.com/mig-1g.10gb"),
        GpuPod("chat", "elsewhere", "n1", 1, resource="nvidia.com/mig-2g.20gb"),
    ]

    assert nodes.free_gpus(cluster, pods, None, None) == {"n1": 5, "n1/mig-1g.10gb": 6}


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([{"nvidia.com/gpu": "2"}], [], {"nvidia.com/gpu": 2}),
        ([{"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}], [], {"nvidia.com/gpu": 2}),
        ([{"nvidia.com/gpu": "1"}], [{"nvidia.com/gpu": "4"}], {"nvidia.com/gpu": 4}),
        (
            [{"nvidia.com/mig-1g.10gb": "1", "nvidia.com/gpu.shared": "1"}],
            [],
            {"nvidia.com/mig-1g.10gb": 1, "nvidia.com/gpu.shared": 1},
        ),
        ([{"nvidia.com/gpu.product": "1", "cpu": "4", "amd.com/gpu": "1"}], [], {}),
        ([{"nvidia.com/gpu": "many"}, {}], [], {}),
    ],
)
def test_what_a_pod_asks_for_is_counted_by_resource(containers, init, expected):
    spec = {
        "containers": [{"resources": {"limits": limits}} for limits in containers],
        "initContainers": [{"resources": {"limits": limits}} for limits in init],
    }

    assert nodes.gpus_of_pod(spec) == expected


def test_the_settings_declare_what_a_node_offers_of_another_resource():
    settings = [
        NodeClassSetting(
            {"pool": "mig"}, "Part", 20 * 2**30, (9, 0), resource="nvidia.com/mig-2g.20gb"
        )
    ]
    document = node(labels={"pool": "mig"})
    document["status"]["allocatable"]["nvidia.com/mig-2g.20gb"] = "3"
    whole, device = nodes.offers(document, settings)

    assert whole.node_class is None
    assert device.node_class.product == "Part"


def test_time_sharing_that_gke_tells_makes_a_class_of_shares():
    labels = {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/gke-accelerator-count": "1",
        "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
        "cloud.google.com/gke-max-shared-clients-per-gpu": "3",
    }
    found = nodes.read(node(labels=labels, gpus=3)).node_class

    assert (found.gpu.is_shared, found.gpu.sharers, found.gpus_per_node) == (True, 3, 3)
    assert dict(found.requirements) == labels


@pytest.mark.parametrize("count", ["", "many", "-1", "1e3", None])
def test_a_count_that_is_no_number_counts_as_none(count):
    document = node()
    document["status"]["allocatable"] = {} if count is None else {"nvidia.com/gpu": count}

    assert nodes.read(document).gpus == 0


@pytest.mark.parametrize(
    ("told", "expected"),
    [("1056Gi", 1056 * 2**30), ("1057000000Ki", 1057000000 * 2**10), (None, None), ("lots", None)],
)
def test_the_memory_of_the_host_is_what_pods_may_have_and_unknown_is_not_zero(told, expected):
    document = node()
    if told is not None:
        document["status"]["allocatable"]["memory"] = told

    assert nodes.read(document).memory_bytes == expected


@pytest.mark.parametrize("memory", ["abc", "-5", "9" * 30, ""])
def test_a_memory_label_that_is_no_number_is_not_replaced_by_the_size_of_the_catalogue(memory):
    assert nodes.read(node(labels={**H100, "nvidia.com/gpu.memory": memory})).node_class is None


def test_a_known_card_of_another_memory_size_has_its_compute_capability():
    found = nodes.read(node(labels={**H100, "nvidia.com/gpu.memory": "60000"})).node_class

    assert found.gpu.compute_capability == (9, 0)
    assert found.gpu.cuda_total.bytes < 60000 * 2**20
