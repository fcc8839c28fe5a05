"""Output that cannot be written as it is: a full disk, a closed pipe, a terminal of ASCII."""

import os
import subprocess
import sys

import pytest
from tests.unit.cli.command import A100, EXAMPLES

EXAMPLE = str(EXAMPLES / "unified.yaml")
COMMANDS = [
    ["plan", "-f", EXAMPLE, "--gpu", A100],
    ["plan", "-f", EXAMPLE, "--gpu", A100, "-o", "json"],
    ["plan", "--models"],
    ["check", "-f", EXAMPLE, "--gpu", A100],
    ["render", "-f", EXAMPLE, "--gpu", A100],
    ["crds"],
    ["explain", "BudgetTooSmall"],
    ["manifests", "--image", "a"],
    ["--help"],
]
NAMES = [" ".join(part for part in command if part != EXAMPLE) for command in COMMANDS]


def written_to(output, command, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", *command],
        stdout=output,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_a_pipe_that_closes_is_no_fault(command):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert written_to(writing, command)[::2] == (0, "")
    finally:
        os.close(writing)


@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[5]], ids=[NAMES[0], NAMES[5]])
def test_a_full_disk_is_told_in_one_line(command):
    with open("/dev/full", "wb") as full:
        code, _, err = written_to(full, command)

    assert (code, err) == (2, "tidegate: output: No space left on device\n")


def test_the_marks_of_a_bar_stay_apart_in_ascii():
    code, out, err = written_to(subprocess.PIPE, COMMANDS[0], PYTHONIOENCODING="ascii")
    bar = out.decode("ascii").splitlines()[3]

    assert (code, err) == (0, "")
    assert set(bar) >= {"#", "w", "."}
