"""A canary under another name or with another length: what clients may ask for, and of whom."""

import pytest

from tidegate.core import names
from tidegate.gate.core.choice import Choice
from tidegate.gate.core.keys import Keys
from tidegate.gate.core.reading import Reader
from tidegate.gate.exchange import Ask, Head, Pod

from .documents import labels_of
from .evidences import Evidences
from .test_canary import CANARY, deployed, go_on, rollout, until, weights
from .world import A100, World

OLD, NEW = {"servedNames": ["chat-v1"]}, {"servedNames": ["chat-v2"]}
SHORT = {"maxModelLen": 1024, "maxNumBatchedTokens": 2048}
PAIR = {"prefill": {"replicas": 2}, "decode": {"replicas": 2}}


def config(world: World):
    return world.gates.config(world.gates.pods()[0])


def apply(world: World, pools=None, rollout=CANARY, **spec) -> None:
    world.apply(pools=pools or {"unified": {"replicas": 2}}, rollout=rollout, **spec)


async def under_way(weight=10, evidences=None, **spec) -> World:
    """A deployment whose canary has its first share."""
    world = await deployed(evidences=evidences or Evidences(requests=0), model=OLD)
    apply(world, **spec)
    for _ in range(60):
        await go_on(world, 1)
        if rollout(world)["summary"].startswith(f"1/2 {weight}%"):
            return world
    raise AssertionError(rollout(world))


class Gate:
    """A gate with the configuration and the pods of now, as a client meets it."""

    def __init__(self, world: World) -> None:
        self.config = config(world)
        self.reader = Reader(self.config, Keys())
        self.choice = Choice()
        self.choice.configure(self.config, 0.0)
        self.pods = {pod["metadata"]["name"]: pod for pod in world.pods()}
        for pool in self.config.services:
            ready = [pod["metadata"]["name"] for pod in world.ready(pool)]
            self.choice.endpoints(
                pool,
                [Pod(name, "10.0.0.1", 8000, pool, self.revision(name), "s") for name in ready],
                0.0,
            )

    def revision(self, name: str) -> str:
        return labels_of(self.pods[name])[names.LABEL_REVISION]

    def ask(self, model: str | None = None, prompt: int = 8, output: int = 16) -> str | None:
        """Return the revision that a request goes to; None where it is refused.

        Fails where the engines of that revision would refuse what the gate sends them.
        """
        named = "" if model is None else f'"model": "{model}", '
        body = f'{{{named}"prompt": {[1] * prompt}, "max_tokens": {output}}}'.encode()
        asked = self.reader.read(Head("POST", "/v1/completions", "", [], "10.0.0.9"), body, "id")
        if not isinstance(asked, Ask):
            return None
        revision = self.choice.revisions(asked)[0]
        for name in self.pods:
            if self.revision(name) == revision:
                arguments = self.pods[name]["spec"]["containers"][0]["args"]
                assert model is None or model in served(arguments), (model, arguments)
                assert prompt + output <= length(arguments)
        return revision


def served(arguments):
    at = next(n for n, text in enumerate(arguments) if text.startswith("--served-model-name"))
    told = arguments[at].partition("=")[2]
    return [told] if told else [text for text in arguments[at + 1 :] if not text.startswith("-")]


def length(arguments):
    return int(next(text for text in arguments if "--max-model-len" in text).partition("=")[2])


async def test_a_new_name_is_served_when_its_revision_has_a_share_and_the_old_one_until_then():
    world = await deployed(model=OLD, evidences=Evidences(requests=0))
    apply(world, model=NEW)
    await world.reconcile()

    assert config(world).models == ["chat-v1"]
    assert Gate(world).ask("chat-v1") == rollout(world)["stable"]
    assert Gate(world).ask("chat-v2") is None


async def test_while_both_have_a_share_both_names_answer_each_by_its_own_revision():
    world = await under_way(model=NEW)
    told, gate = rollout(world), Gate(world)

    assert config(world).models == ["chat-v1", "chat-v2"]
    assert {gate.ask("chat-v1") for _ in range(40)} == {told["stable"]}
    assert {gate.ask("chat-v2") for _ in range(40)} == {told["canary"]}
    assert [gate.ask() for _ in range(40)].count(told["canary"]) == 4


async def test_a_name_that_both_know_is_shared_by_their_weights():
    world = await under_way(model={"servedNames": ["chat-v2", "chat-v1"]})
    told, gate = rollout(world), Gate(world)

    assert config(world).models == ["chat-v1", "chat-v2"]
    assert [gate.ask("chat-v1") for _ in range(40)].count(told["canary"]) == 4


async def test_another_model_id_without_served_names_leaves_the_old_model_to_its_users():
    world = await deployed(evidences=Evidences(requests=0))
    apply(world, model={"id": "/models/tiny-2"})
    await world.reconcile()
    assert config(world).models == ["/models/tiny"]
    await go_on(world, 20)

    assert config(world).models == ["/models/tiny", "/models/tiny-2"]


@pytest.mark.parametrize("pools", [None, PAIR], ids=["unified", "pair"])
async def test_an_abort_gives_name_and_length_back(pools):
    world = World(evidences=Evidences(requests=0))
    world.node("a1", A100, 8)
    apply(world, pools, model=OLD)
    await world.run()
    apply(world, pools, model=NEW, engine=SHORT)
    await go_on(world, 20)
    assert sum(1 for share in weights(world).values() if share) == 2, rollout(world)

    command = {"action": "Abort", "revision": rollout(world)["canary"], "token": "x"}
    apply(world, pools, {**CANARY, "command": command}, model=NEW, engine=SHORT)
    await go_on(world, 3)

    told, gate = config(world), Gate(world)
    assert rollout(world)["phase"] == "Aborted"
    assert (told.models, told.max_model_len) == (["chat-v1"], 2048)
    assert gate.ask("chat-v1", prompt=1500) == rollout(world)["stable"]
    assert gate.ask("chat-v2") is None


@pytest.mark.parametrize(("before", "after"), [(2048, 1024), (1024, 2048)])
async def test_what_only_one_revision_takes_goes_to_that_one(before, after):
    world = World(evidences=Evidences(requests=0))
    world.node("a1", A100, 8)
    apply(world, engine={**SHORT, "maxModelLen": before})
    await world.run()
    apply(world, engine={**SHORT, "maxModelLen": after})
    await go_on(world, 20)
    told, gate = rollout(world), Gate(world)
    longer = told["stable"] if before > after else told["canary"]

    assert config(world).max_model_len == 2048
    assert {gate.ask("/models/tiny", prompt=1200) for _ in range(40)} == {longer}
    assert {gate.ask("/models/tiny", prompt=100, output=1000) for _ in range(40)} == {longer}
    short = [gate.ask("/models/tiny", prompt=100) for _ in range(40)]
    assert short.count(told["canary"]) == 4
    assert gate.ask("/models/tiny", prompt=2048) is None


async def test_after_the_promotion_the_old_name_is_gone():
    world = await under_way(model=NEW, evidences=Evidences())
    await until(world, "Settled")
    await go_on(world, 5)

    assert config(world).models == ["chat-v2"]
    assert all(each.serves is None for each in config(world).revisions if each.weight)


async def test_fresh_pods_of_stable_answer_as_stable_does():
    world = await under_way(model=NEW, rollout={**CANARY, "baseline": True})
    gate = Gate(world)

    assert config(world).models == ["chat-v1", "chat-v2"]
    fresh = next(name for name, share in weights(world).items() if "-baseline-" in name and share)
    assert {gate.ask("chat-v1") for _ in range(60)} == {rollout(world)["stable"], fresh}


async def test_slices_of_a_version_that_did_not_note_it_get_the_note_and_no_other_pods():
    world = await deployed(model=OLD, evidences=Evidences(requests=0))
    uids = {pod["metadata"]["uid"] for pod in world.pods()}
    forget(world)
    world.restart()
    await world.run()
    assert config(world).models == ["chat-v1"]

    apply(world, model=NEW)
    await world.reconcile()

    assert config(world).models == ["chat-v1"]
    assert uids <= {pod["metadata"]["uid"] for pod in world.pods()}


async def test_without_a_note_of_stable_gates_are_told_what_the_spec_says():
    """An operator that did not note it was replaced in the middle of a canary."""
    world = await under_way(model=NEW)
    forget(world)
    world.restart()
    await world.reconcile()

    assert config(world).models == ["chat-v2"]


def forget(world: World) -> None:
    for found in world.deployments():
        annotations = found["metadata"]["annotations"]
        left = {k: v for k, v in annotations.items() if k != names.ANNOTATION_SERVES}
        key = ("Deployment", "default", found["metadata"]["name"])
        world.api.patch(key, metadata={**found["metadata"], "annotations": left})
