"""Kubernetes quantities and Go durations."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.api import quantities

NUMBERS = st.one_of(
    st.integers(0, 10**17).map(str),
    st.builds("{}.{}".format, st.integers(0, 10**9), st.integers(0, 999)),
    st.integers(0, 999).map(".{}".format),
)
SUFFIXES = st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E6", "e-2"])
WRITTEN = st.builds("{}{}".format, NUMBERS, SUFFIXES)


@given(WRITTEN)
def test_the_canonical_spelling_keeps_the_amount(written):
    canonical = quantities.canonical_quantity(written)

    assert quantities.parse_quantity(canonical) == quantities.parse_quantity(written)


@given(WRITTEN)
def test_the_canonical_spelling_is_its_own_canonical_spelling(written):
    canonical = quantities.canonical_quantity(written)

    assert quantities.canonical_quantity(canonical) == canonical


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("0", "0"),
        ("0Ki", "0"),
        ("1.5", "1500m"),
        (".5", "500m"),
        ("1000", "1k"),
        ("1000m", "1"),
        ("1e3", "1k"),
        ("1024Ki", "1Mi"),
        ("2000Ki", "2000Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("62.5Ki", "64k"),
        ("0.3Ki", "307200m"),
        ("1.5M", "1500k"),
        (4, "4"),
    ],
)
def test_amounts_are_spelled_as_the_api_server_stores_them(written, canonical):
    assert quantities.canonical_quantity(written) == canonical


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "x",
        "1e",
        "1e309",
        "1e3Ki",
        "--1",
        "1,5",
        "1 Gi",
        "٣Gi",
        "1\n",
        "NaN",
        "inf",
        "1" * 65,
    ],
)
def test_what_is_no_quantity_is_refused(written):
    with pytest.raises(ValueError, match=r"quantity|suffix"):
        quantities.parse_quantity(written)


def test_a_quantity_is_never_rounded():
    digits = "1234567890123456789012345678901234567890.5"

    assert quantities.parse_quantity(digits) == Decimal(digits)
    assert quantities.canonical_quantity("9" * 40 + "Ei") == "9" * 40 + "Ei"


@pytest.mark.parametrize("value", [True, 1.5, float("nan"), None, [], "-1", "2Pi", "1n", "0.5"])
def test_a_size_is_a_whole_number_of_bytes_up_to_1pi(value):
    with pytest.raises(ValueError, match="must be"):
        quantities.parse_bytes(value)


@given(st.integers(0, quantities.MAX_BYTES))
def test_a_spelled_size_reads_back_as_itself(count):
    assert quantities.parse_bytes(quantities.spell_bytes(count)) == count


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0"), (1023, "1023"), (1024, "1.0Ki"), (53579087872, "49.9Gi")]
)
def test_sizes_are_shown_to_people_with_one_decimal(count, shown):
    assert quantities.format_bytes(count) == shown


@pytest.mark.parametrize("value", [True, 4.0, None, "-1", "1.5m", "0.0001", "2e18", "4 cores"])
def test_an_amount_that_kubernetes_would_change_is_refused(value):
    with pytest.raises(ValueError, match=r"must be|unknown suffix"):
        quantities.parse_resource(value)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("0s", 0),
        ("30s", 30),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("1m1m", 120),
        ("5ms1s", 1.005),
        ("24h", 86400),
        ("86400000ms", 86400),
    ],
)
def test_a_duration_is_read_as_go_reads_it(written, seconds):
    assert quantities.parse_duration(written) == seconds


@pytest.mark.parametrize(
    "value",
    [30, 0.5, True, None, "", "30", "s", "-1s", "1 s", "1d", "1us", "1e3s", "٣s", "30s\n", "nan"],
)
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(ValueError, match="such as 30s"):
        quantities.parse_duration(value)


@pytest.mark.parametrize("written", ["24h1ms", "99999h", "24h1s"])
def test_a_duration_has_at_most_a_day(written):
    with pytest.raises(ValueError, match="24h"):
        quantities.parse_duration(written)


@given(st.integers(0, 86_400_000_000))
def test_a_spelled_duration_reads_back_as_itself(microseconds):
    seconds = microseconds / 1_000_000

    assert quantities.parse_duration(quantities.spell_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.0, "0s"), (41.6, "42s"), (60.0, "1m"), (2010.0, "33m 30s"), (7500.0, "2h 5m"),
     (3605.0, "1h"), (90_000.0, "1d 1h")],
)  # fmt: skip
def test_for_people_a_duration_has_its_two_largest_units(seconds, told):
    assert quantities.rounded_duration(seconds) == told
