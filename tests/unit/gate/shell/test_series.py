"""The counters and histograms count as the client library's own do."""

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gate.shell.series import Counter, Histogram

BOUNDS = (0.1, 0.5, 1, 10)


@given(st.lists(st.sampled_from([0, 0.05, 0.1, 0.3, 0.5, 1, 1.5, 10, 11, 1e9])))
def test_it_says_what_the_client_library_says(values):
    ours, theirs = prometheus_client.CollectorRegistry(), prometheus_client.CollectorRegistry()
    fast = Histogram("seconds", "Some seconds.", ("model",), BOUNDS)
    ours.register(fast)
    slow = prometheus_client.Histogram(
        "seconds", "Some seconds.", ("model",), buckets=BOUNDS, registry=theirs
    )
    for value in values:
        fast.labels("m").observe(value)
        slow.labels("m").observe(value)

    def samples(registry):
        return [
            (sample.name, sample.labels, sample.value)
            for family in registry.collect()
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]

    assert samples(ours) == samples(theirs)


def test_a_lump_counts_as_often_as_it_is_told():
    histogram = Histogram("seconds", "Some seconds.", (), BOUNDS)
    histogram.labels().observe(0.3, 8)

    [family] = histogram.collect()
    assert [sample.value for sample in family.samples] == [0, 8, 8, 8, 8, 8, 0.3 * 8]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2.5, 7]))))
def test_a_counter_says_what_the_client_library_says(values):
    ours, theirs = prometheus_client.CollectorRegistry(), prometheus_client.CollectorRegistry()
    fast = Counter("things", "Some things.", ("model",))
    ours.register(fast)
    slow = prometheus_client.Counter("things", "Some things.", ("model",), registry=theirs)
    for model, amount in values:
        fast.labels(model).value += amount
        slow.labels(model).inc(amount)

    for model in "ab":
        told = [r.get_sample_value("things_total", {"model": model}) for r in (ours, theirs)]
        assert told[0] == told[1]


@pytest.mark.parametrize("family", [Counter, Histogram])
def test_series_of_other_values_are_dropped(family):
    bounds = (BOUNDS,) if family is Histogram else ()
    made = family("things", "Some things.", ("model", "revision"), *bounds)
    for revision in ("a", "b", ""):
        made.labels("m", revision)

    made.keep("revision", {"a", ""})

    [told] = made.collect()
    assert {sample.labels["revision"] for sample in told.samples} == {"a", ""}
