"""An answer is read to numbers, or refused by its shape; a body is never repeated."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.overload import rows
from tidegate.core.overload.rows import Row, Unreadable

LABELS = {"namespace": "default", "llmdeployment": "chat", "stat": "value"}


def entry(value="0.5", **labels):
    return {"metric": {**LABELS, **labels}, "value": [1_800_000_000.1, value]}


def test_a_series_becomes_a_figure_with_its_labels():
    read = rows.parse([entry("0.25", pool="unified", pod="p1", engine="0", instance="ignored")])

    assert read == (Row(("default", "chat"), "value", 0.25, "unified", "p1", "0"),)


@pytest.mark.parametrize(
    ("text", "value"), [("+Inf", math.inf), ("-Inf", -math.inf), ("1e3", 1000.0)]
)
def test_values_are_spelled_as_prometheus_does(text, value):
    assert rows.parse([entry(text)])[0].value == value


def test_what_is_no_number_is_told_as_such_and_judged_later():
    assert math.isnan(rows.parse([entry("NaN")])[0].value)


@pytest.mark.parametrize(
    "labels",
    [{"namespace": ""}, {"llmdeployment": ""}, {"stat": ""}, {"namespace": 7}, {"stat": "x" * 300}],
)
def test_a_series_without_the_labels_of_our_scrape_configuration_is_left_out(labels):
    assert rows.parse([entry(**labels)]) == ()


@pytest.mark.parametrize(
    "result",
    [
        None,
        {},
        "secret",
        [1],
        [{}],
        [{"metric": {}, "value": [1]}],
        [{"metric": [], "value": [1, "2"]}],
        [{"metric": LABELS, "values": [[1, "2"]]}],
        [entry("secret")],
        [entry(None)],
        [1_800_000_000, "3"],
    ],
)
def test_another_shape_is_refused_without_a_word_of_it(result):
    with pytest.raises(Unreadable) as refused:
        rows.parse(result)

    assert "secret" not in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["metric", "value", "namespace", "stat"]), inner)
    ),
)


@given(JSON)
def test_any_json_is_read_or_refused(result):
    try:
        read = rows.parse(result)
    except Unreadable:
        return
    assert all(isinstance(row, Row) for row in read)


def test_figures_of_one_key_stand_together_and_a_second_one_is_noted():
    place = ("default", "chat")
    told = rows.by_key(
        [
            Row(place, "value", 1.0, pool="unified"),
            Row(place, "at", 9.0, pool="unified"),
            Row(place, "value", 2.0, pool="decode"),
            Row(place, "value", 3.0, pool="decode"),
        ],
        "pool",
    )

    assert told[place, ("unified",)].values == {"value": 1.0, "at": 9.0}
    assert told[place, ("unified",)].twice == ""
    assert told[place, ("decode",)].twice == "value"
