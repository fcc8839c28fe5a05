"""A line for a request that failed, with its id; never a prompt or a key."""

import json
import logging

import pytest
from tests.unit.gate.shell.finished import finished

from tidegate.gate.exchange import Outcome, Why
from tidegate.gate.shell.logs import JsonLines
from tidegate.gate.shell.request_log import RequestLog, Which

REFUSED = {"outcome": None, "status": 429, "why": Why.KV_BUDGET}
BROKEN = {"outcome": Outcome.ENGINE_FAILED, "status": 200, "why": Why.ENGINE_ERROR}


@pytest.mark.parametrize(
    ("which", "changes", "lines"),
    [
        (Which.ALL, {}, 1),
        (Which.ALL, REFUSED, 1),
        (Which.FAILED, {}, 0),
        (Which.FAILED, REFUSED, 0),
        (Which.FAILED, BROKEN, 1),
        (Which.FAILED, {"outcome": Outcome.CLIENT_GONE}, 0),
        (Which.FAILED, {"outcome": Outcome.DEADLINE, "status": 504}, 1),
        (Which.FAILED, {"outcome": Outcome.TOTAL_DEADLINE}, 1),
        (Which.FAILED, {"outcome": Outcome.GATE_GONE}, 1),
        (Which.NONE, BROKEN, 0),
    ],
)
def test_which_requests_get_a_line(caplog, which, changes, lines):
    with caplog.at_level(logging.INFO):
        RequestLog(which).finished(finished(**changes))

    assert len(caplog.records) == lines


def test_a_line_is_one_json_object_that_tells_whose_request_it_was(caplog):
    with caplog.at_level(logging.INFO):
        RequestLog(Which.ALL).finished(finished(why=None))
    line = json.loads(JsonLines().format(caplog.records[0]))

    assert line["requestId"] == "r-1"
    assert (line["status"], line["outcome"], line["pod"]) == (200, "finished", "engine-1")
    assert (line["promptTokens"], line["outputTokens"], line["ttftSeconds"]) == (100, 20, 0.2)
    assert "reason" not in line
