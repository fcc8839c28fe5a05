import hashlib

import pytest

from tidegate.errors import Invalid
from tidegate.gate.core import keys
from tidegate.gate.core.keys import Keys
from tidegate.gate.exchange import Caller

DIGEST = hashlib.sha256(b"sk-hashed-one").hexdigest()
FILE = f"""
# the teams
research: {{key: sk-research-1, priority: 7, tokensInFlight: 200000}}
batch:
  keys: [sk-batch-old, sk-batch-new]
  priority: 1
web: {{keySha256: {DIGEST}}}
"""


@pytest.mark.parametrize(
    ("key", "caller"),
    [
        ("sk-research-1", Caller("research", 7, 200_000)),
        ("sk-batch-old", Caller("batch", 1)),
        ("sk-batch-new", Caller("batch", 1)),
        ("sk-hashed-one", Caller("web", 4)),
        ("sk-research-2", None),
        (DIGEST, None),
        ("", None),
    ],
)
def test_a_key_tells_its_tenant_class_and_limit(key, caller):
    assert keys.parse(FILE).find(key.encode(), 4) == caller


@pytest.mark.parametrize("text", ["", "---\n", "{}", "# nothing\n"])
def test_an_empty_file_has_no_keys(text):
    assert len(keys.parse(text)) == 0


def test_no_keys_know_nobody():
    assert Keys().find(b"sk-research-1", 5) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a", "mapping"),
        ("a: 1\n  b: 2", "line 2 is not YAML"),
        ("a: {key: sk-12345678}\na: {key: sk-87654321}", "lines 1 and 2"),
        ("a: {}", "needs a key"),
        ("a: {key: short}", "a.key"),
        ("a: {key: 12345678}", "a.key"),
        ("a: {key: 'sk 12345678'}", "a.key"),
        ("a: {keySha256: abc}", "a.keySha256"),
        ("a: {key: sk-12345678, priority: 10}", "a.priority"),
        ("a: {key: sk-12345678, priority: true}", "a.priority"),
        ("a: {key: sk-12345678, tokensInFlight: 0}", "a.tokensInFlight"),
        ("a: {key: sk-12345678, rate: 3}", "a.rate"),
        ("A_b: {key: sk-12345678}", "A_b"),
        ("a: {key: sk-12345678}\nb: {key: sk-12345678}", "has a key of a"),
        ("a: &x {key: sk-12345678}\nb: *x", "has a key of a"),
        ("x" * (2**20 + 1), "at most"),
        ("a: !!python/object:os.system {}", "not YAML"),
        ("a: 2026-99-99", "not YAML"),
    ],
)
def test_a_bad_file_is_refused_with_the_field(text, says):
    with pytest.raises(Invalid) as raised:
        keys.parse(text)

    assert says in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "a: {key: 'sk topsecret'}",
        "a: {key: sk-topsecret, priority: 11}",
        "a: {key: [sk-topsecret]}",
        "a: {keySha256: sk-topsecret}",
        "a: {key: sk-topsecret\nb",
        "a: sk-topsecret",
        "sk-topsecret",
        "- sk-topsecret",
    ],
)
def test_no_error_shows_a_key(text):
    with pytest.raises(Invalid) as raised:
        keys.parse(text)

    assert "topsecret" not in str(raised.value)
    assert "topsecret" not in repr(raised.value)


def test_keys_are_held_hashed():
    held = keys.parse(FILE)

    assert "sk-research-1" not in repr(vars(held))
    assert b"sk-research-1" not in repr(vars(held)).encode()
