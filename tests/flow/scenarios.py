"""Histories of a deployment, each as the steps that a user or the cluster takes.

A step changes the world; between two steps everything comes to rest. The same histories are run
plainly, with a crash after every write, with stale caches and with failing calls; all end alike.
"""

from collections.abc import Callable
from dataclasses import dataclass

from .world import A100, H100, World

Step = Callable[[World], object]
PAIR = {"prefill": {"replicas": 1}, "decode": {"replicas": 2}}


def image(version: str) -> dict[str, object]:
    return {"image": f"registry.local/vllm:{version}", "version": "0.32.0"}


@dataclass(frozen=True)
class Scenario:
    """`gpus` is how many the one node of class A100 has; `h100` adds a second class."""

    name: str
    gpus: int
    steps: tuple[Step, ...]
    h100: int = 0

    def world(self) -> World:
        world = World()
        world.engines.is_silent = True  # what is learnt depends on the way: see test_measured
        world.node("a1", A100, self.gpus)
        if self.h100:
            world.node("h1", H100, self.h100)
        return world


SCENARIOS = (
    Scenario("apply", 4, (lambda w: w.apply(),)),
    Scenario("apply a pair", 4, (lambda w: w.apply(pools=PAIR),)),
    Scenario(
        "more replicas, then fewer",
        4,
        (
            lambda w: w.apply(),
            lambda w: w.apply(pools={"unified": {"replicas": 4}}),
            lambda w: w.apply(pools={"unified": {"replicas": 1}}),
        ),
    ),
    Scenario(
        "a new image with a free GPU",
        3,
        (lambda w: w.apply(), lambda w: w.apply(engine=image("next"))),
    ),
    Scenario(
        "a new image without a free GPU",
        2,
        (lambda w: w.apply(), lambda w: w.apply(engine=image("next"))),
    ),
    Scenario(
        "another KV type on two classes",
        2,
        (
            lambda w: w.apply(pools={"unified": {"replicas": 4}}),
            lambda w: w.apply(pools={"unified": {"replicas": 4}}, kvCache={"dtype": "bf16"}),
        ),
        h100=2,
    ),
    Scenario(
        "a pair with a new image and no free GPU",
        3,
        (lambda w: w.apply(pools=PAIR), lambda w: w.apply(pools=PAIR, engine=image("next"))),
    ),
    Scenario(
        "a new image by recreation",
        2,
        (
            lambda w: w.apply(rollout={"strategy": "Recreate"}),
            lambda w: w.apply(rollout={"strategy": "Recreate"}, engine=image("next")),
        ),
    ),
    Scenario(
        "one pool becomes two",
        4,
        (lambda w: w.apply(), lambda w: w.apply(pools=PAIR)),
    ),
    Scenario(
        "down to zero and up again",
        4,
        (
            lambda w: w.apply(),
            lambda w: w.apply(pools={"unified": {"replicas": 0}}),
            lambda w: w.apply(),
        ),
    ),
)
