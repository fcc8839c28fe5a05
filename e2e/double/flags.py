"""The command line of `vllm serve`: the flags of one version, parsed as vLLM's parser does."""

from __future__ import annotations

import argparse
import json
import re
from argparse import ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from e2e.double import connector

# One table of flags for the operator and the double; the image keeps both files where the checkout
# has them.
TABLES = Path(__file__).parents[2] / "operator/tidegate/facts/data/engines"
SUFFIX = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
BINARY_FACTORS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

Fact = dict[str, Any]


class Parser(argparse.ArgumentParser):
    """Parser of `vllm serve`; unknown arguments are reported by the outer command, as in vLLM."""

    def parse(self, args: Sequence[str]) -> Namespace:
        """Parse; ends the process with code 2 and argparse's message on a wrong argument."""
        known, unknown = self.parse_known_args(merge_dotted(spell(args)))
        if unknown:
            self.refuse_unknown(unknown)
        return known

    def refuse_unknown(self, unknown: Sequence[str]) -> NoReturn:
        """End the process as for arguments that this version does not have."""
        self.prog, self.usage = "vllm", "vllm [-h] [-v] {chat,complete,serve,bench} ..."
        self.error(f"unrecognized arguments: {' '.join(unknown)}")


def read_table(version: str) -> dict[str, Any]:
    """Return what is known of a vLLM version.

    Raises:
        ValueError: there is no table of that version.
    """
    path = TABLES / f"{version}.json"
    if not path.is_file():
        known = sorted(table.stem for table in TABLES.glob("*.json"))
        raise ValueError(f"no flags of vLLM {version!r} are known; known versions: {known}")
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return table


def make_parser(table: Mapping[str, Any]) -> Parser:
    """Return the parser of a vLLM version."""
    parser = Parser(prog="vllm serve", usage="vllm serve [model_tag] [options]")
    parser.add_argument("model_tag", nargs="?", default=None)
    flags: dict[str, Fact] = table["flags"]
    for name, fact in flags.items():
        if name == "--help":  # the parser has its own
            continue
        _add(parser, name, fact)
    return parser


def human_readable_int(text: str) -> int:
    """Read `2k` as 2000 and `2K` as 2048; a plain number otherwise.

    Raises:
        ArgumentTypeError: decimals before a binary suffix.
        ValueError: anything else that is not a whole number.
    """
    match = SUFFIX.fullmatch(text.strip())
    if not match:
        return int(text)
    number, suffix = match.groups()
    if suffix in FACTORS:
        return int(float(number) * FACTORS[suffix])
    if "." in number:
        raise ArgumentTypeError(
            f"Decimals are not allowed with binary suffixes like {suffix}. Did you mean to use "
            f"{number}{suffix.lower()} instead?"
        )
    return int(number) * BINARY_FACTORS[suffix]


def human_readable_int_or_auto(text: str) -> int:
    """Read as `human_readable_int`, with `auto` and -1 for "as long as fits"."""
    return -1 if text.strip().lower() in ("auto", "-1") else human_readable_int(text)


def spell(args: Sequence[str]) -> list[str]:
    """Write `_` in flag names as `-` and `-O3` in full."""
    spelled: list[str] = []
    for arg in args:
        if arg.startswith("--"):
            name, equals, value = arg.partition("=")
            head, dot, tail = name.partition(".")
            spelled.append(head.replace("_", "-") + dot + tail + equals + value)
        elif arg.startswith("-O") and len(arg) > 2:
            spelled += ["--optimization-level", arg[2:].removeprefix("=")]
        else:
            spelled.append(arg)
    return spelled


def merge_dotted(args: Sequence[str]) -> list[str]:
    """Gather `--flag.key value` into one `--flag '{"key": value}'`."""
    merged: dict[str, dict[str, Any]] = {}
    others: list[str] = []
    rest = iter(args)
    for arg in rest:
        name, equals, value = arg.partition("=")
        if not (name.startswith("--") and "." in name):
            others.append(arg)
            continue
        flag, *keys = name.split(".")
        place = merged.setdefault(flag, {})
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = _json_or_text(value if equals else next(rest, ""))
    for flag, value_of_keys in merged.items():
        others += [flag, json.dumps(value_of_keys)]
    return others


def _add(parser: Parser, name: str, fact: Fact) -> None:
    names = [name, *fact.get("aliases", ())]
    if fact["type"] == "bool":
        is_pair = bool(fact.get("negatives"))
        parser.add_argument(
            *names, action=BooleanOptionalAction if is_pair else "store_true", default=None
        )
        return
    options: dict[str, Any] = {"type": _reader(name, fact), "default": None}
    if fact.get("many"):
        options["nargs"] = "+"
    elif fact.get("optionalValue"):
        options["nargs"] = "?"
    if fact.get("choices") and not fact.get("choicesAreOpen"):
        options["choices"] = fact["choices"]
    parser.add_argument(*names, **options)


def _reader(name: str, fact: Fact) -> Callable[[str], Any]:
    if name == "--kv-transfer-config":
        return connector.parse
    kinds: dict[str, Callable[[str], Any]] = {
        "int": int,
        "float": float,
        "json": json.loads,
        "human-int": human_readable_int,
        "human-int-or-auto": human_readable_int_or_auto,
        "str": str,
    }
    reader = kinds[fact["type"]]
    # vLLM wraps the types of fields that may be absent, and then words the refusal itself.
    is_wrapped = fact.get("default") is None and fact["type"] != "human-int-or-auto"
    return _wrapped(reader) if is_wrapped else reader


def _wrapped(reader: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return reader(text)
        except ValueError:
            raise ArgumentTypeError(f"Value {text} cannot be converted to {reader}.") from None

    return read


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
