"""What-ifs: every combination, within bounds, in the order that was asked for."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.batch.cases import LLAMA

from tidegate.core.budget import shape
from tidegate.core.command_line import settings
from tidegate.core.what_if import axes, chart, curves, resource, rows
from tidegate.core.what_if.axes import Axis
from tidegate.core.what_if.curves import Basis, Curve
from tidegate.core.what_if.rows import Row
from tidegate.errors import Invalid, Refused
from tidegate.facts import engines, gpus

RESOURCE = {
    "metadata": {"name": "chat"},
    "spec": {"pools": {"prefill": {"replicas": 1}, "decode": {"replicas": 2}}},
}


def test_values_are_read_as_what_they_are():
    [axis] = axes.parse(["a.b=auto, fp8,4,0.9,true,auto"])

    assert axis == Axis("a.b", ("auto", "fp8", 4, 0.9, True))


@pytest.mark.parametrize("text", ["", "a", "a=", "=1", "a=1,,2", "a=,"])
def test_a_text_without_field_or_values_is_invalid(text):
    with pytest.raises(Invalid, match="FIELD=VALUE,VALUE"):
        axes.parse([text])


def test_a_field_may_be_varied_once():
    with pytest.raises(Invalid, match="twice"):
        axes.parse(["a=1", "a=2"])


@given(st.lists(st.integers(1, 4), max_size=4))
def test_every_combination_comes_once_or_there_are_too_many(sizes):
    given_axes = [Axis(f"f{i}", tuple(range(size))) for i, size in enumerate(sizes)]
    count = 1
    for size in sizes:
        count *= size
    if count > axes.MOST:
        with pytest.raises(Invalid, match=f"= {count} combinations"):
            axes.combinations(given_axes)
        return
    found = axes.combinations(given_axes)

    assert len(found) == len(set(found)) == count


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("kvCache.dtype", {("kvCache", "dtype"): "x"}),
        ("spec.kvCache.dtype", {("kvCache", "dtype"): "x"}),
        ("decode.tensorParallel", {("pools", "decode", "tensorParallel"): "x"}),
        ("pools.decode.tensorParallel", {("pools", "decode", "tensorParallel"): "x"}),
        (
            "tensorParallel",
            {
                ("pools", "prefill", "tensorParallel"): "x",
                ("pools", "decode", "tensorParallel"): "x",
            },
        ),
    ],
)
def test_a_field_is_set_by_its_path_or_a_shorter_one(field, changed):
    made = resource.varied(RESOURCE, ((field, "x"),))

    for path, value in changed.items():
        at = made["spec"]
        for name in path:
            at = at[name]
        assert at == value
    assert "tensorParallel" not in RESOURCE["spec"]["pools"]["decode"]  # the original is untouched


@pytest.mark.parametrize(
    ("field", "part"),
    [
        ("unified.replicas", "no pool unified; it has prefill, decode"),
        ("kvCach.dtype", "did you mean kvCache"),
        ("tensorParalel", "did you mean tensorParallel"),
        ("decode.replicas.x", "replicas is no object"),
    ],
)
def test_a_field_that_is_not_there_is_invalid(field, part):
    with pytest.raises(Invalid, match=part):
        resource.varied(RESOURCE, ((field, 1),))


def test_the_best_come_first_and_the_refused_last():
    refused = Row((("a", 1),), "unified", "GPU", None, Refused("R", "why"))

    assert rows.ordered([refused], "requests") == [refused]
    assert rows.fields([refused]) == ("a",)
    with pytest.raises(Invalid, match=r"--sort.*requests"):
        rows.ordered([], "speed")


MODEL = shape.read(LLAMA)
H100 = gpus.find("NVIDIA-H100-80GB-HBM3", None)


def drawn(**flags):
    engine = settings.settle(flags, MODEL, engines.engine("0.32.0"), H100).engine
    return curves.of(Basis(MODEL, 0.9), engine, H100, ("auto", "fp8", "nvfp4"), 4)


def test_a_curve_falls_and_doubling_gpus_or_halving_bytes_lifts_it():
    found = {(curve.kv_cache_dtype, curve.tensor_parallel): curve for curve in drawn()}

    assert {size for _, size in found} == {1, 2, 4}
    for curve in found.values():
        counts = [count for _, count in curve.points]
        assert counts == sorted(counts, reverse=True)
    assert found["fp8", 1].points[0][1] > 1.9 * found["auto", 1].points[0][1]
    assert found["auto", 2].points[0][1] > 2 * found["auto", 1].points[0][1]


def test_a_kv_type_that_the_model_does_not_take_says_why_there_is_no_curve():
    ada = gpus.find("NVIDIA-L4", None)
    engine = settings.settle({}, MODEL, engines.engine("0.32.0"), ada).engine
    [curve] = curves.of(Basis(MODEL, 0.9), engine, ada, ("fp8_ds_mla",), 1)

    assert curve.points == ()
    assert "KVDtypeUnsupported" in (curve.refusal or "")


def test_lengths_end_with_the_longest():
    assert curves.lengths(4096) == (1024, 1448, 2048, 2896, 4096)
    assert curves.lengths(100) == (100,)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 2**20), st.integers(1, 10**6)), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    )
)
def test_every_point_and_name_lies_in_the_picture(points):
    made = [Curve(f"t{i}", 1, tuple(sorted(p))) for i, p in enumerate(points)]
    [panel] = chart.panels(made)

    for line in panel.lines:
        for marker in line.markers:
            assert panel.left - 0.01 <= marker.x <= panel.right + 0.01
            assert panel.top - 0.01 <= marker.y <= panel.bottom + 0.01
    places = sorted(line.label_y for line in panel.lines)
    assert all(after - before >= 13.9 for before, after in itertools.pairwise(places))


def test_nothing_that_fits_is_no_picture():
    assert chart.panels([Curve("auto", 1, (), "WeightsDoNotFit: too large")]) == ()


@pytest.mark.parametrize(
    ("count", "text"), [(1000, "1,000"), (1024, "1Ki"), (131072, "128Ki"), (2**20, "1Mi")]
)
def test_tokens_are_spelled_short_where_they_are_even(count, text):
    assert chart.tokens(count) == text
