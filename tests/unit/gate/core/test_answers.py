import orjson
import pytest
from tests.unit.gate.core.asking import config

from tidegate.gate.core import answers
from tidegate.gate.exchange import Refusal, Why


def reply(refusal, request_id="id-1"):
    status, headers, body = answers.refusal(refusal, request_id)
    return status, dict(headers), orjson.loads(body)["error"]


@pytest.mark.parametrize("why", list(Why))
def test_every_refusal_is_an_error_object_of_openai(why):
    status, headers, error = reply(Refusal(429, why, "Later.", "rate_limit_error", "n", 7))

    assert status == 429
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"x-tidegate-reason"] == why.value.encode()
    assert headers[b"x-request-id"] == b"id-1"
    assert headers[b"retry-after"] == b"7"
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["message"], error["type"], error["param"]) == ("Later.", "rate_limit_error", "n")


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (Refusal(400, Why.TOO_LONG, "m"), "context_length_exceeded"),
        (Refusal(401, Why.UNAUTHENTICATED, "m"), "invalid_api_key"),
        (Refusal(404, Why.NOT_FOUND, "m", param="model"), "model_not_found"),
        (Refusal(404, Why.NOT_FOUND, "m"), "not_found"),
        (Refusal(429, Why.KV_BUDGET, "m"), "kv-budget"),
    ],
)
def test_codes_are_openais_where_clients_act_on_them(refusal, code):
    assert reply(refusal)[2]["code"] == code


def test_headers_say_what_the_status_needs():
    assert reply(Refusal(405, Why.METHOD, "m", allow="GET"))[1][b"allow"] == b"GET"
    assert reply(Refusal(401, Why.UNAUTHENTICATED, "m"))[1][b"www-authenticate"] == b"Bearer"
    assert reply(Refusal(508, Why.SHIFT_LOOP, "m"))[1][b"x-should-retry"] == b"false"
    plain = reply(Refusal(400, Why.BAD_REQUEST, "m"), request_id="")[1]
    assert plain.keys() == {b"content-type", b"x-tidegate-reason"}


def test_a_broken_stream_ends_with_one_event_of_one_line():
    event = answers.error_event(Refusal(502, Why.ENGINE_ERROR, "a\nb\r\nc", "server_error"))

    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2
    assert orjson.loads(event[6:])["error"]["message"] == "a\nb\r\nc"


def test_models_are_listed_with_their_length():
    status, _, body = answers.models(config(), "/v1/models", "id-1")

    listed = orjson.loads(body)
    assert (status, listed["object"]) == (200, "list")
    assert [model["id"] for model in listed["data"]] == ["tiny", "tiny-alias"]
    assert all(model["max_model_len"] == 1024 for model in listed["data"])
    assert all(model["object"] == "model" for model in listed["data"])


@pytest.mark.parametrize("spelled", ["org/name", "org%2Fname"])
def test_one_model_is_found_by_its_name(spelled):
    served = config().model_copy(update={"models": ["org/name"]})

    status, _, body = answers.models(served, f"/v1/models/{spelled}", "id-1")

    assert (status, orjson.loads(body)["id"]) == (200, "org/name")
    assert answers.models(served, "/v1/models/name", "id-1")[0] == 404
