"""Another Tidegate takes over what an earlier one made: engines go on, and what is new waits."""

import pytest

from tidegate.api.reasons import Reason
from tidegate.core import gate_config
from tidegate.core.render import timing

from .scenarios import PAIR, image
from .world import A100, World

LATER = 45


@pytest.fixture(params=[{}, {"pools": PAIR}], ids=["unified", "pair"])
async def world(request) -> World:
    world = World()
    world.node("a1", A100)
    world.apply(**request.param)
    await world.run()
    assert world.condition("Ready")["status"] == "True"
    return world


@pytest.fixture
def upgrade(world, monkeypatch):
    """Begin a process of another version, whose pods would have another probe."""

    def begin(seconds: int = LATER) -> None:
        monkeypatch.setattr(timing, "PROBE_PERIOD_SECONDS", seconds)
        world.restart()

    return begin


def templates(world):
    return {d["metadata"]["name"]: d["spec"]["template"] for d in world.deployments()}


def period(template):
    return template["spec"]["containers"][0]["readinessProbe"]["periodSeconds"]


async def test_a_version_that_renders_otherwise_writes_no_template_and_says_what_waits(
    world, upgrade
):
    before, names = templates(world), {pod["metadata"]["uid"] for pod in world.pods()}
    written = len(world.api.writes)

    upgrade()
    await world.run()

    assert templates(world) == before
    assert {pod["metadata"]["uid"] for pod in world.pods()} == names
    assert all(write[1] == "LLMDeployment" for write in world.api.writes[written:])
    told = world.condition("RenderingCurrent")
    assert (told["status"], told["reason"]) == ("False", Reason.RENDERED_BEFORE)
    assert all(name in told["message"] for name in before)
    assert world.condition("Ready")["status"] == "True"


async def test_the_version_before_comes_back_and_nothing_waits_any_more(world, upgrade):
    before = templates(world)
    original = timing.PROBE_PERIOD_SECONDS
    upgrade()
    await world.run()

    upgrade(original)
    await world.run()

    assert templates(world) == before
    assert world.condition("RenderingCurrent")["status"] == "True"


async def test_the_next_revision_takes_the_newer_rendering_along(world, upgrade):
    upgrade()
    await world.run()
    spec = {"pools": PAIR} if world.ready("decode") else {}

    world.apply(engine=image("next"), **spec)
    await world.run()

    assert {period(template) for template in templates(world).values()} == {LATER}
    assert world.condition("RenderingCurrent")["status"] == "True"


async def test_a_template_changed_by_hand_is_put_right_though_a_newer_one_waits(world, upgrade):
    before = templates(world)
    upgrade()
    await world.run()
    changed = world.deployments()[0]
    key = ("Deployment", "default", changed["metadata"]["name"])
    template = changed["spec"]["template"]
    by_hand = {**template, "spec": {**template["spec"], "serviceAccountName": "somebody"}}
    world.api.patch(key, spec={**changed["spec"], "template": by_hand})

    await world.run()

    assert templates(world) == before


async def test_a_scaled_slice_gets_pods_of_the_kept_template(world, upgrade):
    before = len(world.pods())
    upgrade()
    more = {**PAIR, "decode": {"replicas": 3}} if world.ready("decode") else None
    world.apply(pools=more or {"unified": {"replicas": 3}})
    await world.run()

    periods = {period({"spec": pod["spec"]}) for pod in world.pods()}
    assert len(world.pods()) == before + 1
    assert LATER not in periods


async def test_gates_are_told_what_the_kept_engines_were_made_with(world, upgrade, monkeypatch):
    """Engines that keep their flags keep their KV: a version that counts otherwise waits, too."""
    before = gate_documents(world)
    assert before
    monkeypatch.setattr(gate_config, "_NULL_BLOCKS", 9)

    upgrade()
    await world.run()

    assert gate_documents(world) == before


def gate_documents(world):
    return {k: v for k, v in world.shape().items() if k.startswith("ConfigMap")}


async def test_without_its_note_a_slice_is_rendered_anew(world, upgrade):
    """So it is for slices of a version that kept no note, and where somebody took it away."""
    upgrade()
    await world.run()
    for found in world.deployments():
        annotations = found["metadata"]["annotations"]
        left = {k: v for k, v in annotations.items() if k != "tidegate.io/rendered"}
        key = ("Deployment", "default", found["metadata"]["name"])
        world.api.patch(key, metadata={**found["metadata"], "annotations": left})

    await world.run()

    assert {period(template) for template in templates(world).values()} == {LATER}
