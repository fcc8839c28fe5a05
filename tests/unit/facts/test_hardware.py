"""What cards can do besides holding memory: links to their host, types of weights."""

import pytest

from tidegate.facts import gpus, host_links, package_data, quantization_methods


@pytest.mark.parametrize(
    ("product", "name", "gigabytes"),
    [
        ("Tesla-T4", "PCIe 3.0 x16", 15.75),
        ("NVIDIA-A100-SXM4-80GB", "PCIe 4.0 x16", 31.5),
        ("NVIDIA-H100-80GB-HBM3", "PCIe 5.0 x16", 63.0),
        ("NVIDIA-GH200-480GB", "NVLink-C2C", 450),
        ("NVIDIA-B200", "PCIe 5.0 x16", 63.0),
    ],
)
def test_a_card_reads_its_host_over_a_known_link(product, name, gigabytes):
    link = host_links.of(gpus.find(product, None))

    assert link.name == name
    assert link.bytes_per_second / 1e9 == pytest.approx(gigabytes, rel=0.001)
    assert link.source


@pytest.mark.parametrize("product", ["NVIDIA-GB10", "AMD_Instinct_MI300X_OAM"])
def test_a_link_that_is_not_known_is_none(product):
    card = next(iter(gpus.variants(product)))

    assert host_links.of(card) is None


@pytest.mark.parametrize(
    ("product", "nvlink"),
    [
        ("NVIDIA-L40S", "none"),
        ("NVIDIA-H100-PCIe", "bridge"),
        ("NVIDIA-H100-80GB-HBM3", "built-in"),
        ("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", "none"),
    ],
)
def test_a_card_tells_how_it_is_linked_to_others(product, nvlink):
    assert gpus.find(product, None).nvlink == nvlink


def test_how_an_unknown_card_is_linked_is_not_known():
    assert gpus.unknown("Some-Card", 81920, (9, 0)).nvlink is None


@pytest.mark.parametrize("name", package_data.load("quantization.json"))
def test_each_way_to_quantise_weights_is_whole(name):
    method = quantization_methods.find(name)

    assert method.least >= (6, 0)
    if method.native is not None:
        assert method.native > method.least
        assert method.otherwise


def test_an_unknown_way_to_quantise_weights_is_none():
    assert quantization_methods.find("rot13") is None
