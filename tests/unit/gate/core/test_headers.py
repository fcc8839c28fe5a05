import itertools

import pytest
from tests.unit.gate.core.asking import head

from tidegate.gate.core import headers
from tidegate.gate.exchange import Caller


@pytest.mark.parametrize("value", ["a", "req-1", "x" * 128, "a/b:c{}"])
def test_a_sane_request_id_is_kept(value):
    made = headers.request_id(head(headers={"x-request-id": value}), lambda: "made")

    assert made == value


@pytest.mark.parametrize("value", ["", " ", "a b", "x" * 129, "é", "a\tb", "a\x7f"])
def test_any_other_is_replaced(value):
    made = headers.request_id(head(headers={"x-request-id": value}), lambda: "made")

    assert made == "made"


def test_each_request_without_an_id_gets_its_own():
    ids = map(str, itertools.count())

    made = {headers.request_id(head(), lambda: next(ids)) for _ in range(3)}

    assert len(made) == 3


def test_another_gate_is_told_the_way_and_who_asks_but_no_claims_of_the_client():
    asks = head(
        headers={
            "authorization": "Bearer sk-1",
            "traceparent": "00-1",
            "x-tidegate-shifted": "chat/first",
            "x-tidegate-tenant": "root",
            "x-tidegate-priority": "9",
            "x-vllm-priority": "-1",
            "cookie": "c",
        }
    )

    sent = headers.for_gate(asks, "id-1", "chat/tiny", Caller("team", 3))

    assert sorted(sent) == [
        (b"authorization", b"Bearer sk-1"),
        (b"content-type", b"application/json"),
        (b"traceparent", b"00-1"),
        (b"x-request-id", b"id-1"),
        (b"x-tidegate-priority", b"3"),
        (b"x-tidegate-shifted", b"chat/first, chat/tiny"),
        (b"x-tidegate-tenant", b"team"),
    ]
    assert (
        not {headers.TENANT, headers.PRIORITY}
        & dict(headers.for_gate(asks, "id-1", "chat/tiny")).keys()
    )
