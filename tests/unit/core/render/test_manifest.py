"""What is printed is read alike by PyYAML and by kubectl."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.render import manifest

# plain words that YAML 1.1, YAML 1.2 or kubectl's reader takes for something else than text
AMBIGUOUS = [
    *("1e5", "1E+5", "-1e3", "1.", ".5", "5_0", "0o17", "0x1f", "0b11", "017", "1:30", "+1"),
    *("y", "Y", "n", "N", "yes", "no", "on", "off", "true", "False"),
    *("~", "null", "=", "<<", ".inf", "-.INF", ".nan", "2026-01-01"),
]


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_a_text_that_any_reader_takes_for_something_else_is_quoted(text):
    written = manifest.write([{"key": text, text: "value"}])

    assert written.startswith(f"key: '{text}'\n'{text}': value")


def test_numbers_and_truth_values_are_not_quoted():
    assert manifest.write([{"a": 8000, "b": 0.9, "c": True, "d": None}]) == (
        "a: 8000\nb: 0.9\nc: true\nd: null\n"
    )


def test_a_value_that_stands_twice_is_written_twice():
    shared = {"app": "x"}

    assert manifest.write([{"a": shared, "b": shared}]) == "a:\n  app: x\nb:\n  app: x\n"


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(min_size=1, max_size=8), st.text()), min_size=1))
def test_what_is_written_is_read_as_the_same(documents):
    assert list(yaml.safe_load_all(manifest.write(documents))) == documents
