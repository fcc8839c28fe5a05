"""Nodes without GPU feature discovery are known by their cloud's labels, or not at all."""

import pytest

from tidegate.facts import gpus, package_data

INSTANCE = "node.kubernetes.io/instance-type"
GKE = "cloud.google.com/gke-accelerator"
KARPENTER = "karpenter.k8s.aws/instance-gpu-"
AUTO_MODE = "eks.amazonaws.com/instance-gpu-"


def aws(prefix, name, memory, count):
    return {f"{prefix}name": name, f"{prefix}memory": memory, f"{prefix}count": count}


@pytest.mark.parametrize(
    ("labels", "product", "count"),
    [
        ({INSTANCE: "p5.48xlarge"}, "NVIDIA-H100-80GB-HBM3", 8),
        ({INSTANCE: "g5.12xlarge"}, "NVIDIA-A10G", 4),
        ({INSTANCE: "g6e.xlarge"}, "NVIDIA-L40S", 1),
        ({INSTANCE: "Standard_NC80adis_H100_v5"}, "NVIDIA-H100-NVL", 2),
        ({INSTANCE: "Standard_ND96amsr_A100_v4"}, "NVIDIA-A100-SXM4-80GB", 8),
        ({GKE: "nvidia-h100-80gb", INSTANCE: "a3-highgpu-8g"}, "NVIDIA-H100-80GB-HBM3", 8),
        ({GKE: "nvidia-l4", INSTANCE: "g2-standard-48"}, "NVIDIA-L4", 4),
        ({GKE: "nvidia-tesla-t4", f"{GKE}-count": "2", INSTANCE: "n1-standard-8"}, "Tesla-T4", 2),
        (aws(KARPENTER, "a100", "40960", "8"), "NVIDIA-A100-SXM4-40GB", 8),
        (aws(KARPENTER, "a100", "81920", "8"), "NVIDIA-A100-SXM4-80GB", 8),
        (aws(AUTO_MODE, "l4", "22888", "1"), "NVIDIA-L4", 1),
    ],
)
def test_the_labels_of_a_cloud_tell_the_card_and_the_count(labels, product, count):
    found = gpus.from_cloud_labels(labels)

    assert (found.product, found.count) == (product, count)
    assert gpus.find(product, None) is not None
    assert set(found.keys) <= set(labels)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {INSTANCE: "m7i.large"},
        {INSTANCE: "g6f.2xlarge"} | aws(KARPENTER, "l4", "5722", "0"),
        aws(KARPENTER, "a100", "", "8"),
        aws(KARPENTER, "t4", "16384", "0"),
        {GKE: "nvidia-tesla-h100", f"{GKE}-count": "8"},
        {GKE: "nvidia-tesla-t4", INSTANCE: "n1-standard-8"},
        {
            GKE: "nvidia-h100-80gb",
            INSTANCE: "a3-highgpu-8g",
            "cloud.google.com/gke-gpu-partition-size": "1g.10gb",
        },
        {"kubernetes.azure.com/accelerator": "nvidia"},
    ],
    ids=[
        "none",
        "no GPU",
        "a fraction",
        "no memory",
        "count 0",
        "invented",
        "no count",
        "MIG",
        "AKS",
    ],
)
def test_labels_that_leave_the_card_open_tell_nothing(labels):
    assert gpus.from_cloud_labels(labels) is None


def test_every_product_of_the_cloud_tables_is_sized_by_its_name():
    tables = package_data.load("cloud_gpus.json")
    products = {product for product, _ in tables["instanceTypes"].values()}
    products |= set(tables["gkeAccelerators"].values())
    products |= {product for sizes in tables["awsNames"].values() for product in sizes.values()}

    assert {product for product in products if gpus.find(product, None) is None} == set()
