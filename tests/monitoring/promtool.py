"""promtool, and the rules that it tests."""

import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from e2e.cluster import binaries
from e2e.cluster.settings import Settings

TOP = Path(__file__).parents[2]
FILES = TOP / "charts" / "tidegate" / "files" / "monitoring"
RULES = FILES / "rules.yaml"
_RECORDED = re.compile(r"tidegate:\w+:\w+")


@functools.cache
def program() -> str:
    """Return where promtool is; without it, no rule can be tested."""
    found = shutil.which("promtool", path=binaries.search_path(Settings.from_environment()))
    if found is None:
        pytest.skip("promtool is not there: scripts/cluster build prometheus")
    return found


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool, whatever comes of it."""
    return subprocess.run([program(), *words], capture_output=True, text=True, timeout=60)


def wrong_queries(folder: Path, queries: list[str]) -> str:
    """Return which queries are none, and why; empty where all parse."""
    recorded = [{"record": f"query:{number}", "expr": q} for number, q in enumerate(queries)]
    file = folder / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": recorded}]}))
    done = run("check", "rules", "--lint=none", file)
    return "" if done.returncode == 0 else done.stderr


def rules_of(alert: str) -> dict:
    """Return the rules of one alert: itself, and the recordings that it builds on."""
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    every = [rule for group in document["groups"] for rule in group["rules"]]
    kept = [rule for rule in every if rule.get("alert") == alert]
    wanted: set[str] = set()
    for rule in kept:  # grows while it is walked
        for name in set(_RECORDED.findall(rule["expr"])) - wanted:
            wanted.add(name)
            kept += [rule for rule in every if rule.get("record") == name]
    return {"groups": [{"name": alert, "rules": [rule for rule in every if rule in kept]}]}


def failures(folder: Path, alert: str, tests: dict, recorded: dict[str, str] | None = None) -> str:
    """Run a test of an alert as promtool has it; return what failed, empty where nothing did.

    Args:
        folder: Where the files are made.
        alert: Its name.
        tests: What promtool is to try.
        recorded: Other expressions for recordings, by their name.
    """
    rules, file = folder / "rules.yaml", folder / "test.yaml"
    tried = rules_of(alert)
    for rule in tried["groups"][0]["rules"]:
        rule["expr"] = (recorded or {}).get(rule.get("record"), rule["expr"])
    rules.write_text(yaml.safe_dump(tried), encoding="utf-8")
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)]} | tests), encoding="utf-8")
    done = run("test", "rules", file)
    return "" if done.returncode == 0 else done.stdout + done.stderr
