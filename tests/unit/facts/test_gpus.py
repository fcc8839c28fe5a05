"""The catalogue of GPUs against labels that were seen in real clusters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.api.figures import How
from tidegate.facts import gpus

MIB = 2**20
GIB = 2**30

SEEN = sorted(label for label, standing in gpus.product_standings().items() if standing == "seen")
# A MIG device on a card whose slices nobody has shown: only its own label tells its memory.
WITHOUT_A_TABLE = {"NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-2g.48gb"}
# product, label MiB, GiB that CUDA gives
KNOWN = [
    ("Tesla-T4", 15360, 14.562),
    ("NVIDIA-A10G", 23028, 22.058),
    ("NVIDIA-L4", 23034, 22.034),
    ("NVIDIA-L40S", 46068, 44.392),
    ("NVIDIA-A100-SXM4-40GB", 40960, 39.493),
    ("NVIDIA-A100-SXM4-80GB", 81920, 79.151),
    ("NVIDIA-H100-80GB-HBM3", 81559, 79.182),
    ("NVIDIA-H100-NVL", 95830, 93.086),
    ("NVIDIA-H200", 143771, 139.801),
    ("NVIDIA-B200", 183359, 178.351),
    ("NVIDIA-GB200", 189471, 184.31),
]


@pytest.mark.parametrize("label", SEEN)
def test_every_label_that_was_seen_is_known(label):
    assert gpus.find(label, None) or gpus.variants(label) or label in WITHOUT_A_TABLE


@pytest.mark.parametrize(("product", "label_mib", "gib"), KNOWN)
def test_the_total_is_what_cuda_gives_not_what_the_label_says(product, label_mib, gib):
    total = gpus.find(product, label_mib).cuda_total

    assert total.bytes == pytest.approx(gib * GIB, rel=1e-4)
    assert total.how is How.MEASURED
    assert total.high <= label_mib * MIB
    assert total.source


@pytest.mark.parametrize(
    ("product", "label_mib", "gib"),
    [
        ("NVIDIA-GB300", 284208, 276.5),
        ("NVIDIA-GB300", 256703, 247.68),
        ("NVIDIA-GeForce-RTX-4090", 24564, 23.516),
        ("NVIDIA-GeForce-RTX-4090", 49140, 47.371),
        ("NVIDIA-L20", 46068, 44.392),
        ("NVIDIA-L20", 49140, 47.268),
        ("NVIDIA-RTX-A6000", 49140, 47.431),
        ("NVIDIA-RTX-A6000", 46068, 44.427),
        ("NVIDIA-H20", 97871, 95.005),
    ],
)
def test_memory_tells_the_cards_of_one_name_apart(product, label_mib, gib):
    assert gpus.find(product, label_mib).cuda_total.bytes == pytest.approx(gib * GIB, rel=1e-4)


@pytest.mark.parametrize(
    "product",
    ["NVIDIA-GB300", "NVIDIA-GeForce-RTX-4090", "NVIDIA-L20", "NVIDIA-RTX-A6000", "NVIDIA-H20"],
)
def test_a_name_that_leaves_the_memory_open_is_not_enough(product):
    assert gpus.find(product, None) is None
    assert gpus.variants(product)


def test_a100_of_40_and_80_gb_are_not_mixed_up():
    small, large = (gpus.find(f"NVIDIA-A100-SXM4-{size}GB", None) for size in (40, 80))

    assert small.cuda_total.high < large.cuda_total.low
    assert gpus.find("NVIDIA-A100-SXM4-40GB", 81920) is None


@pytest.mark.parametrize(
    ("product", "label_mib"),
    [("NVIDIA-H20", 143771), ("NVIDIA-B200", 196608), ("NVIDIA-RTX-PRO-5000-Blackwell", 73415)],
)
def test_memory_that_no_known_variant_has_is_not_guessed(product, label_mib):
    assert gpus.find(product, label_mib) is None


@pytest.mark.parametrize(("product", "label_mib"), [("Tesla-T4", 15109), ("NVIDIA-A10G", 22731)])
def test_the_label_of_an_old_driver_is_nearly_the_total(product, label_mib):
    total = gpus.find(product, label_mib).cuda_total

    assert total.how is How.ESTIMATED
    assert total.bytes == pytest.approx(label_mib * MIB, rel=0.002)


def test_a_shared_card_shows_the_whole_card_and_says_so():
    whole = gpus.find("NVIDIA-H100-80GB-HBM3", 81559)
    shared = gpus.find("NVIDIA-H100-80GB-HBM3-SHARED", 81559)

    assert shared.is_shared
    assert not whole.is_shared
    assert shared.cuda_total == whole.cuda_total


def test_the_label_of_a_mig_device_is_its_total():
    device = gpus.find("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", 9984)

    assert (device.cuda_total.low, device.cuda_total.high) == (9984 * MIB, 9984 * MIB)
    assert device.mig_profile == "1g.10gb"
    assert device.compute_capability == (9, 0)
    assert device.nvlink_bytes_per_second is None


def test_a_mig_device_has_the_share_of_speed_of_its_slices():
    whole = gpus.find("NVIDIA-A100-SXM4-80GB", 81920)
    device = gpus.find("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", 40192)

    assert device.bf16_flops == pytest.approx(whole.bf16_flops * 3 / 7)


def test_the_multiprocessors_of_a_mig_device_tell_its_share_better_than_its_slices():
    whole = gpus.find("NVIDIA-A100-SXM4-80GB", 81920)
    device = gpus.find("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", 40192, 42)

    assert device.bf16_flops == pytest.approx(whole.bf16_flops * 42 / 108)


def test_a_mig_device_has_the_bandwidth_of_its_part_of_the_memory():
    whole = gpus.find("NVIDIA-A100-SXM4-80GB", 81920)
    device = gpus.find("NVIDIA-A100-SXM4-80GB-MIG-1g.20gb", 19968)
    share = device.memory_bandwidth_bytes_per_second / whole.memory_bandwidth_bytes_per_second

    assert share == pytest.approx(2 / 8, rel=0.03), "two of eight slices of memory"


@pytest.mark.parametrize("sharers", [1, 2, 3, 10])
def test_the_parts_of_a_card_by_mps_never_add_up_to_more_than_the_card(sharers):
    whole = gpus.find("NVIDIA-L40S", 46068)
    part = gpus.shared_by_mps(whole, sharers)

    assert part.cuda_total.bytes * sharers <= whole.cuda_total.bytes
    assert part.bf16_flops * sharers <= whole.bf16_flops
    assert part.is_used_by_others
    assert not whole.is_used_by_others


def test_a_mig_profile_is_not_sized_from_its_name():
    device = gpus.find("NVIDIA-H200-MIG-1g.18gb", None)

    assert device.cuda_total.bytes == 16 * GIB
    assert gpus.find("NVIDIA-H200-MIG-3g.71gb", None) is None


def test_a_mig_device_can_be_shared_as_well():
    device = gpus.find("A100-SXM4-40GB-MIG-1g.5gb-SHARED", 4864)

    assert device.is_shared
    assert device.mig_profile == "1g.5gb"


def test_a_node_whose_mig_layout_is_invalid_has_no_gpu():
    assert gpus.find("NVIDIA-H100-80GB-HBM3-MIG-INVALID", 0) is None


def test_a_card_without_a_memory_label_is_known_by_its_name():
    assert gpus.find("NVIDIA-GB10", None).compute_capability == (12, 1)


def test_what_is_not_known_of_a_card_is_none_and_not_zero():
    for product in gpus.known_products():
        for gpu in gpus.variants(product):
            speeds = (gpu.memory_bandwidth_bytes_per_second, gpu.bf16_flops, gpu.fp8_flops)
            assert 0 not in speeds
            assert gpu.nvlink_bytes_per_second != 0


def test_every_speed_of_a_card_has_its_source():
    gpu = gpus.find("NVIDIA-H100-80GB-HBM3", 81559)

    assert gpu.bf16_flops == 989 * 10**12
    assert gpu.memory_bandwidth_bytes_per_second == 3350 * 10**9
    assert gpu.nvlink_bytes_per_second == 450 * 10**9
    assert {"memoryBandwidth", "bf16Flops", "fp8Flops", "nvlink"} <= dict(gpu.sources).keys()


def test_a_card_that_can_take_a_bridge_is_not_said_to_have_nvlink():
    gpu = gpus.find("NVIDIA-A100-80GB-PCIe", 81920)

    assert gpu.nvlink_bytes_per_second is None
    assert "NVLink only with a bridge" in gpu.notes


@given(st.integers(min_value=1, max_value=2**21))
def test_the_band_of_an_unknown_card_holds_its_value(label_mib):
    total = gpus.unknown("NVIDIA-Something", label_mib, (9, 0)).cuda_total

    assert 0 < total.low <= total.bytes <= total.high <= label_mib * MIB
    assert total.how is How.ESTIMATED


@given(st.integers(min_value=1, max_value=2**21), st.integers(min_value=1, max_value=1024))
def test_an_unknown_card_with_more_memory_is_never_sized_smaller(label_mib, more_mib):
    less = gpus.unknown("X", label_mib, None).cuda_total.bytes
    more = gpus.unknown("X", label_mib + more_mib, None).cuda_total.bytes

    assert less <= more


@pytest.mark.parametrize("product", gpus.known_products())
def test_a_known_card_would_have_been_sized_well_if_it_were_unknown(product):
    for row in gpus._cards()[product]["variants"]:
        for label_mib in row["labels"] if row["total"] else []:
            band = gpus.unknown(product, label_mib, None).cuda_total
            assert band.low <= row["total"]["low"]
            assert row["total"]["high"] <= band.high
            assert band.bytes <= row["total"]["value"]


def test_an_unknown_mig_device_is_sized_by_its_label():
    device = gpus.unknown("NVIDIA-R100-MIG-1g.20gb-SHARED", 19000, (13, 0))

    assert device.cuda_total.bytes == 19000 * MIB
    assert device.is_shared


@given(st.text(max_size=80), st.none() | st.integers(min_value=0, max_value=2**20))
def test_any_text_on_a_label_is_answered(product, label_mib):
    found = gpus.find(product, label_mib)

    assert found is None or found.product == product
