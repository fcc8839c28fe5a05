"""Documents as YAML text that kubectl reads as the same documents.

Readers differ in which plain words are numbers or truth values: to PyYAML `1e5`, `0o17` and `y` are
texts, to kubectl they are not. So a text that any of them takes for something else is quoted.
"""

import re
from collections.abc import Iterable
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes no anchors and quotes what other readers would not take for text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_BREAKS = re.compile("[\n\x85\u2028\u2029\ufeff]")
"""Line breaks, of which a reader folds some in a text without double quotes."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _doubt(tag: str, pattern: str, beginnings: str) -> None:
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(beginnings))


_DIGITS = "+-.0123456789"
_doubt("float", r"^[-+]?(\.[0-9_]+|[0-9][0-9_]*\.?[0-9_]*)([eE][-+]?[0-9]+)?$", _DIGITS)
_doubt("int", r"^[-+]?0[oObBxX][0-9a-fA-F_]+$", _DIGITS)
_doubt("bool", r"^[yYnN]$", "yYnN")


def write(documents: Iterable[Any]) -> str:
    """Write documents one after the other."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
