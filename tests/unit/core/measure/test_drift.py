"""The plan beside what was measured: by how much it is off, and which term is."""

from dataclasses import replace

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.measure import drift
from tidegate.core.measure.learn import Reading
from tidegate.facts.startup_log import StartupLog

GIB = 2**30


def as_planned(planned):
    """An engine that finds just what the estimates say, in GiB."""
    budget, engine = planned.sizing.budget, planned.engine
    outside = drift.runtime.outside(engine).bytes
    return {
        "weights": budget.weights.bytes / GIB,
        "activations": budget.activations.bytes / GIB,
        "graphs": budget.cuda_graphs.bytes / GIB,
        "non_torch": (budget.runtime.bytes - outside) / GIB,
    }


def test_an_engine_as_planned_is_not_off(planned, hear):
    found = drift.of(planned, hear(planned, **as_planned(planned)))

    assert abs(found.percent) < 0.1
    assert found.term is None
    status, reason, _ = drift.judge([found], 5.0)
    assert (status, reason) == ("False", Reason.AS_PLANNED)


@pytest.mark.parametrize(
    ("name", "more", "word"),
    [
        ("weights", 6, "weights take"),
        ("activations", 8, "activations take"),
        ("graphs", 7, "CUDA graphs take"),
        ("non_torch", 9, "the runtime takes"),
        ("activations", -2, "activations take"),
    ],
)
def test_the_term_that_is_off_is_named(planned, hear, name, more, word):
    terms = as_planned(planned)
    found = drift.of(planned, hear(planned, **terms | {name: max(0, terms[name] + more)}))

    status, reason, message = drift.judge([found], 1.0)

    assert status == "True"
    wanted = Reason.KV_SMALLER_THAN_PLANNED if more > 0 else Reason.KV_LARGER_THAN_PLANNED
    assert reason == wanted
    assert word in message
    assert f"{found.measured_tokens:,} tokens" in message


def test_other_blocks_are_told_before_any_term(planned, hear):
    found = drift.of(planned, hear(planned, block_size=64))
    assert found.term == "its blocks hold 64 tokens instead of 16"


def test_without_a_log_the_drift_is_told_and_the_term_is_not(planned, hear):
    reading = Reading(hear(planned, activations=20).cache, StartupLog())
    _, _, message = drift.judge([drift.of(planned, reading)], 5.0)
    assert "does not tell which term" in message


def test_the_worst_slice_is_the_one_that_is_told(planned, hear):
    little = drift.of(planned, hear(planned, activations=8))
    much = replace(drift.of(planned, hear(planned, activations=20)), pool="decode")

    status, _, message = drift.judge([little, much], 5.0)

    assert status == "True"
    assert message.startswith("decode on ")


def test_no_data_is_neither_good_nor_bad():
    status, reason, _ = drift.judge([], 5.0)
    assert (status, reason) == ("Unknown", Reason.NOT_MEASURED)


@pytest.mark.parametrize(("limit", "status"), [(9.9, "True"), (10.0, "False")])
def test_the_limit_itself_is_not_over_it(planned, hear, limit, status):
    found = replace(
        drift.of(planned, hear(planned)), planned_tokens=100_000, measured_tokens=90_000
    )
    assert drift.judge([found], limit)[0] == status
