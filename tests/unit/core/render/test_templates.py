"""Values are data: whatever they hold, they come out of a template as they went in."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError

from tidegate.core.render import templates
from tidegate.core.render.expansion import literal

from .deployments import expanded

HOSTILE = [
    "",
    " leading and trailing ",
    "two\nlines",
    "quotes \" and ' and `",
    "back\\slash \\n \\u0041",
    "{{ 7 * 7 }}",
    "{% for x in y %}",
    "{# gone? #}",
    "${HOME} $(HOME) $HOME $$",
    "yes",
    "no",
    "null",
    "~",
    "true",
    "1e5",
    "1_000",
    "0x1f",
    "012",
    "1:30",
    ".inf",
    "2026-01-01",
    "- item",
    "key: value",
    "# no comment",
    "a #b",
    "*alias",
    "&anchor",
    "!tag",
    "%directive",
    "@at",
    "| block",
    "> folded",
    "---",
    "...",
    "<b>&amp;</b>",
    "Grüße, 世界, 🌊",
    "e\u0301 \u200b \u202e",
    "\x85\u2028\u2029\ufeff",
    "\t\x01\x1f\x7f\x9f",
    "x" * 4096,
]

_TEXT = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"])))
_SCALARS = st.one_of(_TEXT, st.booleans(), st.none(), st.integers(-(2**53), 2**53))
_KEYS = _TEXT.filter(lambda key: len(key) < 512)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.one_of(st.lists(inner), st.dictionaries(_KEYS, inner)), max_leaves=8
)
_READERS = [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)]


@pytest.mark.parametrize("reader", _READERS)
@settings(deadline=None)
@given(value=_VALUES)
def test_a_quoted_value_is_read_as_the_same_value(reader, value):
    assert yaml.load(f"key: {templates.quoted(value)}\n", Loader=reader) == {"key": value}


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_text_goes_through_every_template_place_unchanged(value):
    key = value[:317]  # the longest key of a label; YAML itself stops at 1024 characters
    values = {"name": value, "namespace": value, "selector": {key: value}, "port": 1}

    document = templates.fill("service.yaml.j2", values)

    assert document["metadata"] == {"name": value, "namespace": value}
    assert document["spec"]["selector"] == {key: value}


def test_a_value_that_a_template_lacks_is_an_error_and_not_an_empty_text():
    with pytest.raises(UndefinedError, match="namespace"):
        templates.fill("service-account.yaml.j2", {"name": "x"})


@settings(deadline=None)
@given(_TEXT)
def test_kubernetes_expands_nothing_in_a_literal_text(text):
    assert expanded(literal(text), {"HOME": "/root", "HF_TOKEN": "secret"}) == text
