"""Turns the text of `vllm serve --help=all` into the flags of operator/tidegate/facts/data/engines.

    python scripts/facts/engines.py VERSION HELP_FILE [--metrics METRICS_FILE]

Names, value types, choices and defaults are taken from the help text; its prose is not. What the
text does not tell (the type of a value without a default, attention backends, batch defaults,
metrics that only some setups export) is kept by hand in engine_rules.json, which says where each
comes from. The shape of the result is described in operator/tidegate/facts/engines.py.
"""

import argparse
import ast
import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "operator" / "tidegate" / "facts" / "data" / "engines"

_GROUP = re.compile(r"^(\S[^:]*):$")
_OPTION = re.compile(r"^  (-.*)$")
_PROSE_INDENT = " " * 24
_DEFAULT = "(default: "
_INVERSE = {"--enable-": "--disable-", "--disable-": "--enable-"}


def read_options(text: str) -> list[tuple[str, str, str]]:
    """Return (group, heading, prose) of each option in argparse's help text."""
    options: list[list[str]] = []
    group = "options"
    is_open = False
    for line in text.splitlines():
        if heading := _GROUP.match(line):
            group, is_open = heading[1], False
        elif option := _OPTION.match(line):
            heading_text, _, prose = option[1].partition("  ")
            options.append([group, heading_text, prose.strip()])
            is_open = True
        elif is_open and line.startswith(_PROSE_INDENT):
            options[-1][2] += " " + line.strip()
        elif line.strip():
            is_open = False
    return [(group, heading, prose) for group, heading, prose in options]


def make_flag(group: str, heading: str, prose: str, rules: dict[str, Any]) -> tuple[str, Any]:
    """Return (name, facts) of one option."""
    types = rules["types"]
    spellings, value = _split_heading(heading)
    longs = [spelling for spelling in spellings if spelling.startswith("--")]
    name = types.get(f"name:{longs[0]}", longs[0])
    negatives = _negatives(name, longs)
    flag: dict[str, Any] = {"group": group}
    if aliases := [s for s in spellings if s != name and s not in negatives]:
        flag["aliases"] = aliases
    if negatives:
        flag["negatives"] = negatives
    choices, are_enforced = _choices(value)
    default_text = _default_text(prose)
    flag["type"] = types.get(name) or _type(value, prose, choices, default_text)
    if "..." in value:
        flag["many"] = True
    if value.startswith("["):
        flag["optionalValue"] = not choices
    if choices:
        is_integer = flag["type"] == "int"
        flag["choices"] = [int(choice) if is_integer else choice for choice in choices]
        flag["choicesAreOpen"] = not are_enforced or name in rules["openChoices"]
    if not flag.get("optionalValue", True):
        del flag["optionalValue"]
    flag["default"] = _default(default_text)
    return name, flag


def _split_heading(heading: str) -> tuple[list[str], str]:
    """Part `--tensor-parallel-size N, -tp N` into its spellings and the form of the value."""
    spellings = re.findall(r"(?:^|, )(-{1,2}[\w-]+)", heading)
    value = heading[len(spellings[0]) :]
    value = value.split(f", {spellings[1]}")[0] if len(spellings) > 1 else value
    return spellings, value.strip()


def _negatives(name: str, longs: list[str]) -> list[str]:
    """Return every spelling that sets the flag to false.

    vLLM 0.33 shows `--disable-x` for `--enable-x` (and the reverse) and still takes the
    `--no-` forms, which its help no longer shows (EnableDisableAction in argparse_utils.py).
    """
    shown = [spelling for spelling in longs if spelling != name]
    inverse = next((name.replace(a, b, 1) for a, b in _INVERSE.items() if name.startswith(a)), "")
    no_form = "--no-" + name.removeprefix("--")
    if inverse and inverse in shown:
        return [no_form, inverse]
    return [no_form] if no_form in shown else []


def _choices(value: str) -> tuple[list[str], bool]:
    """Return the listed values, and whether argparse itself refuses any other."""
    if value.startswith("{"):
        listed = value[1 : value.index("}")].split(",")
        return [choice for choice in listed if choice != "None"], True
    if value.startswith("['"):
        return list(ast.literal_eval(value)), False
    return [], True


def _default_text(prose: str) -> str | None:
    start = prose.rfind(_DEFAULT)
    return prose[start + len(_DEFAULT) :].rstrip().removesuffix(")") if start >= 0 else None


def _type(value: str, prose: str, choices: list[str], default: str | None) -> str:
    if not value:
        return "bool"
    if "JSON keys passed individually" in prose or (default or "").startswith("{"):
        return "json"
    if "Parse human-readable integers" in prose:
        return "human-int-or-auto" if "special value" in prose else "human-int"
    if choices:
        return "int" if all(choice.isdigit() for choice in choices) else "str"
    if default and re.fullmatch(r"-?\d+", default):
        return "int"
    if default and re.fullmatch(r"-?\d+\.\d+", default):
        return "float"
    return "str"


def _default(text: str | None) -> Any:
    """Return the default as a JSON value; an object that only Python can print is left out."""
    if text is None or re.match(r"^[A-Z]\w+ ?\w*\(", text):
        return None
    if text == "set()":
        return []
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return (
            None if text.startswith("{") else text.rpartition(".")[2] if "Enum." in text else text
        )
    return value if isinstance(value, bool | int | float | list | dict) or value is None else text


def make_engine(version: str, help_text: str, rules: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of one version: flags from the help text, the rest from the rules."""
    flags = dict(make_flag(*option, rules) for option in read_options(help_text))
    facts = {**rules["common"], **rules["versions"][version]}
    return {
        "version": version,
        "kvCacheDtypes": flags["--kv-cache-dtype"]["choices"],
        "speculativeMethods": flags["--spec-method"]["choices"],
        "flags": flags,
        **facts,
    }


def read_metrics(text: str) -> dict[str, dict[str, str]]:
    """Return the metrics of a `name type` list."""
    return {
        name: {"type": kind} for name, kind in map(str.split, filter(str.strip, text.splitlines()))
    }


def main() -> None:
    """Write one version's data file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version")
    parser.add_argument("help_file", type=Path)
    parser.add_argument("--metrics", type=Path, required=True)
    arguments = parser.parse_args()
    rules = json.loads((HERE / "engine_rules.json").read_text())
    engine = make_engine(arguments.version, arguments.help_file.read_text(), rules)
    engine["metrics"] = read_metrics(arguments.metrics.read_text()) | engine["metrics"]
    path = DATA / f"{arguments.version}.json"
    path.write_text(dump(engine))
    print(f"{path.name}: {len(engine['flags'])} flags, {len(engine['metrics'])} metrics")


def dump(engine: dict[str, Any]) -> str:
    """Return JSON with one flag, metric or backend on a line, so that a diff reads well."""
    parts = []
    for key, value in engine.items():
        if (
            isinstance(value, dict)
            and value
            and all(isinstance(v, dict | list | str) for v in value.values())
        ):
            rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{rows}\n }}")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
