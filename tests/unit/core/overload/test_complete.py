"""What is decided by is complete: a pool of which nothing was told is unknown, not absent."""

from tidegate.api.reasons import Reason
from tidegate.core.overload.complete import complete
from tidegate.core.overload.signal import Sample, Signal, Unknown

KV = ("unified", Signal.KV_USAGE)
SILENCE = Unknown(Reason.METRICS_UNREACHABLE, "no answer")


def test_what_was_told_stays_and_the_rest_is_missing():
    known = Sample(0.5, 1.0)
    signals = complete({KV: known}, ["unified"], None)

    assert signals[KV] == known
    assert signals["unified", Signal.PREFILL_BACKLOG].reason is Reason.METRICS_MISSING


def test_of_a_silent_prometheus_each_signal_has_the_reason_of_the_silence():
    signals = complete(None, ["prefill", "decode"], SILENCE)

    assert signals == {
        ("prefill", Signal.PREFILL_BACKLOG): SILENCE,
        ("decode", Signal.KV_USAGE): SILENCE,
    }


def test_of_a_pool_without_pods_nothing_is_expected():
    assert complete(None, [], SILENCE) == {}
