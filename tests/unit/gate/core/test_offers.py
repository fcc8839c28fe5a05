"""Revisions that differ in the model's names or its length: who is asked for what."""

import json

import orjson
import pytest
from tests.unit.gate.core import asking
from tests.unit.gate.core.asking import COMPLETIONS, asked, completion, read

from tidegate.api.gate_config import GateConfig, RevisionConfig, Serves
from tidegate.gate.core import answers
from tidegate.gate.core.choice import Choice
from tidegate.gate.core.offers import Offers
from tidegate.gate.core.reading import Reader
from tidegate.gate.exchange import Pod, Refusal, Why

REVISIONS = [
    RevisionConfig(
        name="stable", weight=900, serves=Serves(models=["tiny", "old"], max_model_len=2048)
    ),
    RevisionConfig(
        name="canary", weight=100, serves=Serves(models=["tiny", "new"], max_model_len=512)
    ),
    RevisionConfig(name="failed", weight=0, serves=Serves(models=["bad"], max_model_len=9999)),
    RevisionConfig(name="untold", weight=100),
]


def config(*names, models=("tiny", "old", "new"), **fields) -> GateConfig:
    held = [each for each in REVISIONS if each.name in (names or ("stable", "canary", "failed"))]
    made = asking.config(revisions=held, max_model_len=2048, **fields)
    return made.model_copy(update={"models": list(models)})


def request(config=None, **fields):
    reader = Reader(config or globals()["config"](), asking.Keys())
    return asked(completion(**fields), COMPLETIONS, reader)


def able(held=None, **fields):
    held = held or config()
    return set(Offers(held).able(request(held, **fields)))


def ids(count):
    return [1] * count


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": "tiny"}, {"stable", "canary"}),
        ({"model": None}, {"stable", "canary"}),
        ({"model": "old"}, {"stable"}),
        ({"model": "new"}, {"canary"}),
        ({"model": "tiny", "prompt": ids(400), "max_tokens": 112}, {"stable", "canary"}),
        ({"model": "tiny", "prompt": ids(400), "max_tokens": 113}, {"stable"}),
        ({"model": "tiny", "prompt": ids(511)}, {"stable", "canary"}),
        ({"model": "tiny", "prompt": ids(512)}, {"stable"}),
        ({"model": None, "prompt": ids(512)}, {"stable"}),
        ({"model": "new", "prompt": ids(511)}, {"canary"}),
        ({"prompt": [ids(400), ids(400)], "max_tokens": 112}, {"stable", "canary"}),
        ({"prompt": [ids(400), ids(512)]}, {"stable"}),
    ],
)
def test_a_request_goes_to_revisions_that_know_its_name_and_take_its_length(fields, expected):
    assert able(**fields) == expected


def test_an_estimate_that_is_too_long_for_all_goes_to_the_longest():
    """It may be twice too high: the engine knows better."""
    assert able(prompt="tide " * 2000) == {"stable"}
    assert able(model="new", prompt="tide " * 500) == {"canary"}


def test_a_revision_of_which_nothing_is_told_answers_to_all_that_the_document_names():
    held = config("canary", "untold")
    assert able(held, model="old", prompt=ids(600)) == {"untold"}
    assert able(held, model="new") == {"canary", "untold"}


@pytest.mark.parametrize(("model", "length"), [("old", 2048), ("tiny", 2048), ("new", 512)])
def test_what_no_revision_of_that_name_takes_is_refused_with_its_number(model, length):
    reader = Reader(config(), asking.Keys())
    refused = read(completion(model=model, prompt=ids(length)), COMPLETIONS, reader)

    assert isinstance(refused, Refusal)
    assert refused.why is Why.TOO_LONG
    assert str(length) in refused.message


@pytest.mark.parametrize("model", ["bad", "", "other"])
def test_a_name_of_a_revision_without_weight_is_not_served(model):
    refused = read(completion(model=model), COMPLETIONS, Reader(config(), asking.Keys()))
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.param) == (404, "model")


def test_each_name_is_listed_with_the_length_and_the_root_that_it_has():
    _, _, body = answers.models(config(), "/v1/models", "id-1")

    listed = {each["id"]: each for each in orjson.loads(body)["data"]}
    assert list(listed) == ["tiny", "old", "new"]
    assert {name: each["max_model_len"] for name, each in listed.items()} == {
        "tiny": 2048,
        "old": 2048,
        "new": 512,
    }
    assert {name: each["root"] for name, each in listed.items()} == dict.fromkeys(listed, "tiny")


def choice(*ready, held=None):
    made = Choice()
    made.configure(held or config(), 0)
    for pool in (held or config()).services:
        pods = [Pod(each, "10.0.0.1", 8000, pool, each, "slice") for each in ready]
        made.endpoints(pool, pods, 0)
    return made


@pytest.mark.parametrize(
    ("ready", "model", "missing"),
    [
        (("stable", "canary"), "old", None),
        (("stable",), "new", Why.NO_ENDPOINTS),
        (("stable",), "tiny", None),
        (("stable",), None, None),
        ((), "tiny", Why.NO_ENDPOINTS),
    ],
)
def test_a_name_whose_revision_has_no_ready_pod_waits_for_no_room_on_others(ready, model, missing):
    ask, made = request(model=model), choice(*ready)

    assert made.complete(ask) is missing
    assert bool(made.revisions(ask)) is (missing is None)


def test_a_name_that_went_while_its_request_waited_is_answered_by_nobody():
    ask, made = request(model="old"), choice("stable", "canary")
    made.configure(config("canary", models=("tiny", "new")), 1)

    assert made.revisions(ask) == []
    assert made.complete(ask) is Why.NO_ENDPOINTS


def test_the_weights_hold_among_those_that_can_answer_whatever_else_is_asked_for():
    """Each kind of request has its shares: none of them takes another's."""
    revisions = [
        RevisionConfig(name="stable", weight=450),
        RevisionConfig(name="fresh", weight=450),
        RevisionConfig(
            name="canary", weight=100, serves=Serves(models=["tiny"], max_model_len=512)
        ),
    ]
    held = asking.config(revisions=revisions, max_model_len=2048)
    reader = Reader(held, asking.Keys())
    made = choice("stable", "fresh", "canary", held=held)
    counted = {"short": [], "long": []}
    for _ in range(1000):
        for kind, tokens in (("short", 8), ("long", 1000)):
            ask = asked(completion(prompt=ids(tokens)), COMPLETIONS, reader)
            counted[kind].append(made.revisions(ask)[0])

    assert {name: counted["short"].count(name) for name in set(counted["short"])} == {
        "stable": 450,
        "fresh": 450,
        "canary": 100,
    }
    assert {name: counted["long"].count(name) for name in set(counted["long"])} == {
        "stable": 500,
        "fresh": 500,
    }


def test_a_document_of_before_is_read_as_it_was():
    before = json.loads(config("stable").model_dump_json(by_alias=True, exclude_none=True))
    for each in before["revisions"]:
        each.pop("serves")
    held = GateConfig.model_validate_json(json.dumps(before))

    for model in ("tiny", "old", "new", None):
        assert able(held, model=model, prompt=ids(2000)) == {"stable"}
