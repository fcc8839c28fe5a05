"""An engine that hangs is restarted by its liveness probe, and status says so."""

import pytest

KILLED_SECONDS = 330.0
"""The probe gives a busy engine three minutes; the rest is the engine's end and the next pass."""


@pytest.mark.timeout(KILLED_SECONDS + 200)
def test_a_hung_engine_is_restarted_and_named(hung_engine):
    condition = hung_engine.wait_for("Ready", "False", "LivenessKilled", KILLED_SECONDS)

    assert "liveness probe" in condition["message"]
    assert "previous log" in condition["message"]
    hung_engine.patch({"engine": {"env": []}})
    hung_engine.wait_settled()
    hung_engine.delete()  # its GPU is for the scenarios that follow
