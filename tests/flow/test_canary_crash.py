"""The operator ends after each write of a rollout and another one goes on: users see nothing."""

import pytest

from tidegate.core.names import LABEL_REVISION

from .api_server import Crash
from .documents import is_ready, labels_of
from .evidences import Evidences
from .moments import Moments
from .test_canary import CANARY, changed, deployed, go_on, rollout, weights
from .world import World

REPLICAS, GPU_BUDGET = 2, 1
STEPS = [{"weight": 10, "analysis": "1m"}, {"weight": 50, "analysis": "1m"}]
SPEC = {**CANARY, "steps": STEPS, "gpuBudget": GPU_BUDGET, "keepFailedFor": "1m"}
ROUND_SECONDS, MOST_ROUNDS, QUIET_ROUNDS = 15, 150, 6


async def take_round(world: World) -> None:
    try:
        await go_on(world, 1, seconds=ROUND_SECONDS)
    except Crash:
        world.restart()
    pods = [pod for pod in world.pods() if is_ready(pod)]  # also those that end since just now
    serving = {labels_of(pod)[LABEL_REVISION] for pod in pods}
    shares = {revision for revision, share in weights(world).items() if share}
    assert shares <= serving, "a share of the requests has pods that serve"
    assert len(world.pods()) <= REPLICAS + GPU_BUDGET, "those that end hold their GPUs still"


async def take_rounds(world: World, phase: str, look=lambda: None) -> World:
    """Let time pass until the rollout has ended and nothing is written any more."""
    quiet = 0
    for _ in range(MOST_ROUNDS):
        before = len(world.api.writes)
        await take_round(world)
        look()
        is_over = rollout(world)["phase"] == phase and len(world.api.writes) == before
        quiet = quiet + 1 if is_over else 0
        if quiet == QUIET_ROUNDS:
            return world
    raise AssertionError(f"not {phase}: {rollout(world)}")


@pytest.mark.timeout(400)  # half a rollout for each write
@pytest.mark.parametrize(("bad", "phase"), [(0.0, "Settled"), (200.0, "Aborted")])
async def test_an_operator_killed_after_each_write_of_a_rollout_changes_nothing(bad, phase):
    plain = await deployed(replicas=REPLICAS, rollout=SPEC, evidences=Evidences(bad=bad))
    await changed(plain, replicas=REPLICAS, rollout=SPEC)
    begun, moments = len(plain.api.writes), Moments(plain)
    await take_rounds(plain, phase, moments)
    crashes = list(moments.crashes())
    assert len(crashes) == len(plain.api.writes) - begun
    for number, crashed in enumerate(crashes):
        await take_rounds(crashed, phase)
        assert crashed.api.crash_after is None, "it was killed"
        assert crashed.shape() == plain.shape(), f"killed after write {number}"
        assert crashed.names == plain.names, "no pod was started twice"
