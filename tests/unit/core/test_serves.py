"""What the engines of each revision answer to, from the notes on their Deployments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.api.gate_config import GateConfig, RevisionConfig, Serves
from tidegate.core import gate_config, names, serves
from tidegate.core.gate_config import Around

from .render import deployments

LONG = Serves(models=["old"], max_model_len=4096)


def note(serves_: Serves) -> dict[str, str]:
    return {names.ANNOTATION_SERVES: serves.encode(serves_)}


def test_each_slice_notes_what_its_engines_are_started_with():
    asked = deployments.spec(model={"servedNames": ["a", "b"]})
    (found,) = deployments.of_kind(deployments.rendered(asked), "Deployment")
    told = serves.by_revision([("r", found["metadata"]["annotations"])])["r"]
    arguments = found["spec"]["template"]["spec"]["containers"][0]["args"]

    assert told.models == ["a", "b"]
    assert f"--max-model-len={told.max_model_len}" in arguments


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"models": [], "maxModelLen": 1}', '{"models": ["a"]}']
)
def test_a_note_that_cannot_be_read_tells_nothing(text):
    assert serves.by_revision([("r", {names.ANNOTATION_SERVES: text}), ("s", {})]) == {}


def test_a_revision_takes_what_each_of_its_slices_takes():
    short = LONG.model_copy(update={"max_model_len": 1024})
    told = serves.by_revision([("r", note(LONG)), ("r", {}), ("r", note(short)), ("s", note(LONG))])

    assert told == {"r": short, "s": LONG}


def made(ready, shares=None, of=None) -> GateConfig:
    asked = deployments.spec(model={"servedNames": ["new"]})
    (own,) = gate_config.make("chat", "qwen", asked, deployments.plan(asked), Around()).slices
    old = own.model_copy(update={"name": "qwen-old", "revision": "old"})
    around = Around(
        others=(old,),
        ready={("unified", each): 1 for each in ready},
        shares=shares or {},
        serves={"old": LONG} if of is None else of,
    )
    return gate_config.make("chat", "qwen", asked, deployments.plan(asked), around)


NEW = deployments.REVISION


@pytest.mark.parametrize(
    ("ready", "shares", "models"),
    [
        ((NEW, "old"), {NEW: 100, "old": 900}, ["old", "new"]),
        ((NEW, "old"), {NEW: 900, "old": 100}, ["old", "new"]),
        ((NEW, "old"), {NEW: 0, "old": 1000}, ["old"]),
        ((NEW, "old"), {NEW: 1000, "old": 0}, ["new"]),
        ((NEW, "old"), {}, ["old", "new"]),
        (("old",), {}, ["old"]),
        ((NEW,), {}, ["new"]),
        ((), {}, ["old", "new"]),
    ],
)
def test_the_names_are_those_of_the_revisions_with_weight_the_stable_ones_first(
    ready, shares, models
):
    told = made(ready, shares)

    assert told.models == models
    lengths = {each.name: _length(told, each) for each in told.revisions}
    assert lengths["old"] == 4096
    assert told.max_model_len == max(lengths[e.name] for e in told.revisions if e.weight)


def _length(told: GateConfig, each: RevisionConfig) -> int:
    return each.serves.max_model_len if each.serves else told.max_model_len


def test_while_all_answer_to_the_same_the_document_says_it_once():
    asked = deployments.spec(model={"servedNames": ["new"]})
    same = serves.planned(asked, deployments.plan(asked).slices)
    told = made((NEW, "old"), of={"old": same})

    assert all(each.serves is None for each in told.revisions)
    assert "serves" not in gate_config.text(told)


def test_a_slice_that_notes_nothing_is_taken_for_what_the_spec_says():
    told = made((NEW, "old"), of={})

    assert told.models == ["new"]
    assert all(each.serves is None for each in told.revisions)


def test_what_the_engines_were_started_with_goes_before_what_the_spec_leads_to_now():
    told = made((NEW,), of={NEW: LONG})

    assert (told.models, told.max_model_len) == (["old"], 4096)


MANY = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True)


@given(of=st.lists(st.tuples(st.integers(0, 9), MANY, st.integers(1, 99)), min_size=1, max_size=5))
def test_every_name_and_length_that_is_told_belongs_to_a_revision_with_weight(of):
    revisions = [RevisionConfig(name=f"r{n}", weight=weight) for n, (weight, _, _) in enumerate(of)]
    if not any(each.weight for each in revisions):
        return
    known = {
        f"r{n}": Serves(models=models, max_model_len=length)
        for n, (_, models, length) in enumerate(of)
    }
    told = serves.tell(revisions, "r0", known, known["r0"])

    weighted = [known[each.name] for each in revisions if each.weight]
    assert set(told["models"]) == {model for each in weighted for model in each.models}
    assert told["maxModelLen"] == max(each.max_model_len for each in weighted)
    for each in told["revisions"]:
        said = each.serves or Serves(models=told["models"], max_model_len=told["maxModelLen"])
        assert said == known[each.name]
