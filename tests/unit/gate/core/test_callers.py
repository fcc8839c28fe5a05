import pytest
from tests.unit.gate.core.asking import chat, head, read, reader

from tidegate.gate.core import keys
from tidegate.gate.exchange import Caller, Why

KEYS = keys.parse("team: {key: sk-12345678, priority: 6, tokensInFlight: 5000}")
KEY = {"authorization": "Bearer sk-12345678"}
TRUSTED = {"trusted_peers": ["10.1.0.0/16", "fd00::/8"]}
TEAM = Caller("team", 6, 5000)


def caller(headers=(), peer="10.0.0.9", **tenants):
    of = reader(KEYS, tenants=tenants)
    asks = head(headers=headers, peer=peer)
    refusal = of.head(asks)
    if refusal is not None:
        assert read(chat(), of=of, headers=headers) == refusal or peer != "10.0.0.9"
        return refusal
    return of.read(asks, b'{"messages":[{"role":"user","content":"Hi"}]}', "id").caller


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, Caller("anonymous", 5)),
        (KEY, TEAM),
        ({"authorization": "bearer  sk-12345678 "}, TEAM),
        ({"authorization": "Bearer EMPTY"}, Caller("anonymous", 5)),
        ({"authorization": "Basic sk-12345678"}, Caller("anonymous", 5)),
        ({"authorization": "sk-12345678"}, Caller("anonymous", 5)),
        ({"x-tidegate-priority": "2"}, Caller("anonymous", 2)),
        ({"x-tidegate-priority": "9"}, Caller("anonymous", 5)),
        ({**KEY, "x-tidegate-priority": "0"}, Caller("team", 0, 5000)),
        ({**KEY, "x-tidegate-priority": "9"}, TEAM),
        ({"x-tidegate-tenant": "team"}, Caller("anonymous", 5)),
        ({**KEY, "x-tidegate-tenant": "other"}, TEAM),
    ],
)
def test_a_client_is_who_its_key_says_and_never_raises_its_class(headers, expected):
    assert caller(headers) == expected
    assert caller(headers, peer="nonsense", **TRUSTED) == expected
    assert caller(headers, peer="10.2.0.1", **TRUSTED) == expected


@pytest.mark.parametrize("peer", ["10.1.2.3", "fd00::1", "::ffff:10.1.2.3"])
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-tidegate-tenant": "other"}, Caller("other", 5)),
        ({"x-tidegate-tenant": "other", "x-tidegate-priority": "9"}, Caller("other", 9)),
        ({"x-tidegate-priority": "9"}, Caller("anonymous", 9)),
        ({**KEY, "x-tidegate-tenant": "other"}, TEAM),
        ({**KEY, "x-tidegate-priority": "9"}, Caller("team", 9, 5000)),
    ],
)
def test_a_trusted_peer_says_who_asks(peer, headers, expected):
    assert caller(headers, peer=peer, **TRUSTED) == expected


@pytest.mark.parametrize("value", ["10", "-1", "", "high", "1.0", "²"])
def test_a_class_that_is_none_is_refused(value):
    refusal = caller({"x-tidegate-priority": value})

    assert refusal.status == 400
    assert "x-tidegate-priority" in refusal.message


@pytest.mark.parametrize("value", ["", "A", "a b", "a" * 64, "a\xff"])
def test_a_tenant_that_is_none_is_refused(value):
    refusal = caller({"x-tidegate-tenant": value}, peer="10.1.0.1", **TRUSTED)

    assert refusal.status == 400
    assert "x-tidegate-tenant" in refusal.message


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer EMPTY"}])
def test_where_a_key_is_required_nobody_comes_in_without(headers):
    refusal = caller(headers, require_key=True)

    assert (refusal.status, refusal.why) == (401, Why.UNAUTHENTICATED)
    assert "EMPTY" not in refusal.message
    assert caller(KEY, require_key=True) == TEAM
    assert caller({"x-tidegate-tenant": "team"}, require_key=True).status == 401


def test_where_a_key_is_required_a_trusted_peer_vouches():
    vouched = caller({"x-tidegate-tenant": "other"}, peer="10.1.0.1", require_key=True, **TRUSTED)

    assert vouched == Caller("other", 5)


def test_new_keys_hold_at_once_and_old_ones_no_more():
    of = reader(KEYS)
    assert read(chat(), of=of, headers=KEY).caller == TEAM

    of.use_keys(keys.parse("web: {key: sk-87654321}"))

    assert read(chat(), of=of, headers=KEY).caller.tenant == "anonymous"
    new = {"authorization": "Bearer sk-87654321"}
    assert read(chat(), of=of, headers=new).caller == Caller("web", 5)
