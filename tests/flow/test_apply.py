"""A user applies a resource, changes it, and deletes it."""

from .world import A100, H100, World

PAIR = {"prefill": {"replicas": 1}, "decode": {"replicas": 2}}


async def test_an_applied_resource_becomes_ready_pods():
    world = World()
    world.node("n1")
    world.apply()
    await world.run()
    assert len(world.ready("unified")) == 2
    assert world.condition("Ready")["status"] == "True"
    status = world.status()
    assert status["pods"] == "2/2"
    assert status["kvTokens"] > 0
    assert {c["type"] for c in status["conditions"]} == {
        "Ready", "Reconciling", "Stalled", "BudgetFits", "Available",
    }  # fmt: skip
