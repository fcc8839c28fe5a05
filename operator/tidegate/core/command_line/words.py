"""The words of a command line: what a shell would hand to the engine's parser."""

import re
import shlex
from collections.abc import Sequence

from tidegate.api.reasons import Reason
from tidegate.core import engine_variables
from tidegate.errors import Invalid, Problem, Refused

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_API_SERVER = "vllm.entrypoints.openai.api_server"
_MODULES_WITH_SERVE = ("vllm", "vllm.entrypoints.cli.main")
_FIELD = "--serve"


def split(command: str) -> tuple[str, ...]:
    """Return the arguments behind `vllm serve`; variables before it are dropped.

    A line may go on after a backslash. The engine's older entry point
    (`python -m vllm.entrypoints.openai.api_server`) takes the same flags.

    Raises:
        Invalid: A quote is not closed, or the command is another one.
        Refused: ENV_RESERVED names every variable that changes what is planned.
    """
    try:
        words = shlex.split(command.replace("\\\n", " "))
    except ValueError as error:
        raise Invalid([Problem(_FIELD, f"cannot be split into words: {error}")]) from error
    variables: list[str] = []
    while words and (words[0] == "env" or _ASSIGNMENT.fullmatch(words[0])):
        variables.append(words[0].partition("=")[0])
        words = words[1:]
    arguments = _behind_serve(words)
    if arguments is None:
        start = " ".join(words[:3])[:80]
        raise Invalid([Problem(_FIELD, f"must be a `vllm serve ...` command, not `{start}`")])
    _require_harmless(variables)
    return tuple(arguments)


def config_file(words: Sequence[str]) -> str | None:
    """Return the file that `--config` names; the engine sees only the form of two words."""
    for position, word in enumerate(words[:-1]):
        if word == "--config":
            return words[position + 1]
    return None


def _require_harmless(variables: Sequence[str]) -> None:
    found = dict.fromkeys(variables)
    faults = [f"{name[:80]}: {why}" for name in found if (why := engine_variables.why_not(name))]
    if faults:
        raise Refused(Reason.ENV_RESERVED, f"{'; '.join(faults)}; remove it", _FIELD)


def _behind_serve(words: Sequence[str]) -> Sequence[str] | None:
    if not words:
        return None
    program = words[0].rpartition("/")[2]
    if program == "vllm":
        return words[2:] if words[1:2] == ["serve"] else None
    if program.startswith("python") and words[1:2] == ["-m"]:
        module = words[2] if len(words) > 2 else ""
        if module == _API_SERVER:
            return words[3:]
        if module in _MODULES_WITH_SERVE and words[3:4] == ["serve"]:
            return words[4:]
    return None
