"""However many gates share a pod, and however they come and go, the pod is never given twice.

A simulated pod (see simulation.py) that a crowd has just come to, so that all that is held grows at
once; each client meets a gate by chance, as a Service has it.
"""

import random

import pytest
from tests.unit.gate import simulation as sim

from tidegate.api.gate_config import Slo
from tidegate.gate.core.admissions import Admissions
from tidegate.gate.core.choice import Choice

SLO = Slo(time_to_first_token="3s")
LONG = sim.Mix(100, 300, spread=0.05)
"""Long answers: what a gate holds is far from what it will hold."""
ENGINE = sim.Engine()
SECONDS = 70.0
PER_SECOND = 6.0
"""About twice what the pod can bear."""
CHANGE_AT = 8.0
"""The first answers are half made; all gates together have given what the pod can hold."""


class Gates:
    """Several gates before the same pods; `happens` changes their number in mid-run."""

    def __init__(self, count, happens, seed):
        self.now_serving = [sim.Gated(SLO) for _ in range(count)]
        self.peak_share = 0.0
        self.admitted = {}
        self._dice = random.Random(seed)
        self._happens = happens
        self._gate_of = {}

    def start(self, world):
        for gate in self.now_serving:
            gate.start(world)
        self._divide()
        world.later(CHANGE_AT, lambda: self._happens(self, world))

    def _divide(self):
        for gate in self.now_serving:
            gate.core.gates(len(self.now_serving))

    # what happens

    def join(self, world):
        """One more gate starts."""
        gate = sim.Gated(SLO)
        gate.core = Admissions(jitter=random.Random(2).random, choice=Choice(), joins=True)
        gate.start(world)
        self.now_serving.append(gate)
        self._divide()

    def leave(self, world):
        """A gate is told to stop: it gets nobody new, and ends what it has."""
        self.now_serving.pop()
        self._divide()

    def die(self, world):
        """A gate is killed: its engines see its connections break, the others hear of it later."""
        gone = self.now_serving.pop()
        for request, gate in self._gate_of.items():
            if gate is gone and request.seat is not None and request.ended_at is None:
                request.has_left = True
                for pod in world.pods.values():
                    pod.leave(request)
        world.later(1.0, self._divide)

    # what a world asks of its policy

    def arrive(self, world, request):
        gate = self._gate_of[request] = self._dice.choice(self.now_serving)
        gate.arrive(world, request)

    def produced(self, world, request, name, tokens):
        self._gate_of[request].produced(world, request, name, tokens)

    def ended(self, world, request, name):
        gate = self._gate_of[request]
        self.admitted[gate] = self.admitted.get(gate, 0) + 1
        gate.ended(world, request, name)

    def tick(self, world):
        for gate in {*self.now_serving, *self._gate_of.values()}:
            gate.tick(world)
        for pod in world.pods.values():
            self.peak_share = max(self.peak_share, 1 - pod.free / ENGINE.kv_blocks)


def run(count, happens, seed):
    arrivals = sim.poisson([(LONG, 1)], PER_SECOND, SECONDS, seed)
    gates = Gates(count, happens, seed)
    world = sim.World(gates, arrivals, engine=ENGINE).run(SECONDS)
    return gates, world


HAPPENINGS = {
    "two become three": (2, Gates.join),
    "one becomes two": (1, Gates.join),
    "one of three leaves": (3, Gates.leave),
    "one of two leaves": (2, Gates.leave),
    "one of three dies": (3, Gates.die),
}


@pytest.mark.parametrize(("count", "happens"), HAPPENINGS.values(), ids=HAPPENINGS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_engine_is_given_twice(count, happens, seed):
    gates, world = run(count, happens, seed)

    assert world.preemptions == 0
    assert gates.peak_share > 0.6, "nor is it left idle"


def test_a_gate_that_joined_serves_its_part_in_the_end():
    gates, _ = run(2, Gates.join, 1)

    joined = gates.now_serving[-1]
    served = sum(gates.admitted.values())
    # it has its third after half a minute, and answers take a while
    assert gates.admitted[joined] > 0.1 * served


def test_after_a_death_the_others_have_its_part():
    gates, _ = run(2, Gates.die, 1)

    (left,) = gates.now_serving
    (pod,) = left.core.view(SECONDS, SECONDS).pods
    assert pod.capacity_blocks == int(0.95 * ENGINE.kv_blocks)
