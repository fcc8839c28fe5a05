"""What one operator process logs of its passes."""

import logging

import pytest

from tidegate.flow.outcome import Outcome
from tidegate.flow.ports import Ref
from tidegate.shell.operate import Operator
from tidegate.shell.settings import OperatorSettings
from tidegate.shell.telemetry import Metrics

REF = Ref("ns", "d")


@pytest.fixture
def outcomes(monkeypatch):
    """The outcomes of the next passes."""
    queue = []

    async def reconcile(*arguments):
        return queue.pop(0)

    monkeypatch.setattr("tidegate.shell.operate.reconcile.reconcile", reconcile)
    return queue


async def test_a_pass_is_logged_with_its_cause_when_either_changed(outcomes, caplog):
    caplog.set_level(logging.INFO, "tidegate")
    operator = Operator(object(), OperatorSettings(), Metrics())
    outcomes += [
        Outcome("settled"),
        Outcome("failed", 5.0, "500: etcd"),
        Outcome("failed", 5.0, "500: etcd"),
        Outcome("failed", 5.0, "no answer"),
        Outcome("settled"),
        Outcome("gone"),
    ]
    while outcomes:
        await operator._pass(REF)

    told = [(r.message, getattr(r, "why", ""), r.before) for r in caplog.records]
    assert told == [
        ("pass ended: settled", "", ""),
        ("pass ended: failed", "500: etcd", "settled"),
        ("pass ended: failed", "no answer", "failed"),
        ("pass ended: settled", "", "failed"),
        ("pass ended: gone", "", "settled"),
    ]
