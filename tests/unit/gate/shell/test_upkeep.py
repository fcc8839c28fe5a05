"""A bug in one part takes nothing else with it, and a loop that stands still is seen."""

import asyncio
import time

from tests.unit.gate.shell.scripted_api import until

from tidegate.gate.shell import upkeep
from tidegate.gate.shell.metrics import Metrics


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(f"tidegate_gate_{name}", labels)


async def test_a_part_that_fails_is_told_and_started_again(monkeypatch, caplog):
    monkeypatch.setattr(upkeep, "_AGAIN_SECONDS", 0.01)
    metrics, starts = Metrics(), []

    async def part():
        starts.append(1)
        if len(starts) < 3:
            raise RuntimeError("a bug")
        await asyncio.Event().wait()

    task = asyncio.create_task(upkeep.keep("scraper", part, metrics))
    await until(lambda: len(starts) == 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert value(metrics, "internal_errors_total", part="scraper") == 2
    assert "a bug" in caplog.text


async def test_the_core_is_told_the_time_twenty_times_a_second_and_stalls_are_counted():
    metrics, beats = Metrics(), []
    beat = upkeep.Beat(lambda now, wall: beats.append((now, wall)), metrics)
    task = asyncio.create_task(beat.run())
    await asyncio.sleep(0.5)
    assert 5 <= len(beats) <= 11
    assert value(metrics, "loop_stalls_total") == 0
    time.sleep(0.4)  # what a bug would do
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert value(metrics, "loop_stalls_total") == 1
    assert 0.3 <= value(metrics, "loop_stalled_seconds_total") < 2
    assert beat.is_alive()


async def test_a_beat_that_ended_is_not_alive(monkeypatch):
    monkeypatch.setattr(upkeep, "_STANDSTILL_SECONDS", 0.05)
    beat = upkeep.Beat(lambda now, wall: None, Metrics())
    await asyncio.sleep(0.1)

    assert not beat.is_alive()
