"""Every committed vector of the engine's planner, as a case of a batch."""

import json

import pytest
from tests.unit.core.batch.cases import FIELDS, rejections, vectors

from tidegate.core.batch import answer as batch


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["id"])
def test_the_answer_equals_the_planner_in_every_field(vector):
    got = batch.answer(json.dumps(vector["case"]), 1).document
    pool = vector["pool"]

    assert got["refused"] is None
    assert got["fits"] is pool["fits"]
    expected = {ours: pool[theirs] for ours, theirs in FIELDS.items() if theirs in pool}
    assert {key: got["kv"][key] for key in expected} == expected


@pytest.mark.parametrize("case", rejections(), ids=lambda case: json.dumps(case["engine"]["args"]))
def test_what_the_engine_refuses_is_refused(case):
    got = batch.answer(json.dumps(case), 1).document

    assert got["refused"]["reason"]
    assert "kv" not in got
