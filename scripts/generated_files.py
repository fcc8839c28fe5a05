"""Write or check the generated files: the table of what is generated, and from what."""

import argparse
import difflib
import subprocess
import sys
from pathlib import Path

import dashboards

from tidegate.api import generated
from tidegate.shell.chart import generated as chart

TOP = Path(__file__).resolve().parents[1]
OTHER_GENERATORS = ("scripts/facts/reference.py",)
"""Programs that write their own pages, and that know --check as well."""


def main() -> int:
    """Run the command; 0 when every file is current, 1 when --check found one that is not."""
    parser = argparse.ArgumentParser(prog="scripts/generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    check = parser.parse_args().check
    files = generated.files() | chart.files() | dashboards.files()
    stale = {path: text for path, text in files.items() if _read(path) != text}
    for path, text in stale.items():
        if check:
            sys.stdout.writelines(_difference(path, text))
        else:
            (TOP / path).parent.mkdir(parents=True, exist_ok=True)
            (TOP / path).write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    if check and stale:
        print(f"not current: {', '.join(stale)}; run scripts/generate", file=sys.stderr)
    others = [_run(program, check) for program in OTHER_GENERATORS]
    return 1 if (check and stale) or any(others) else 0


def _run(program: str, check: bool) -> int:
    arguments = ["--check"] if check else []
    return subprocess.run([sys.executable, TOP / program, *arguments], check=False).returncode


def _read(path: str) -> str | None:
    try:
        return (TOP / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _difference(path: str, text: str) -> list[str]:
    now = (_read(path) or "").splitlines(keepends=True)
    return list(difflib.unified_diff(now, text.splitlines(keepends=True), path, "generated"))[:40]


if __name__ == "__main__":
    sys.exit(main())
