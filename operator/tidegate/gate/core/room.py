"""What a model's length leaves for an answer, and which requests can never fit into it."""

from tidegate.gate.core import faults, surfaces
from tidegate.gate.core.bounds import Output
from tidegate.gate.core.prompt_size import PromptSize
from tidegate.gate.exchange import Surface

_SURELY = 0.5
"""Share of an estimate that a prompt has at least: nearer to the limit the engine decides."""


def fewest(size: PromptSize) -> int:
    """Return the tokens that the longest prompt has at least."""
    return size.longest if size.is_exact else int(size.longest * _SURELY)


def require(size: PromptSize, wanted: Output, surface: Surface, max_model_len: int) -> None:
    """Refuse a prompt and output that cannot fit together, even if the estimate is twice too high.

    Of several prompts each has the model's whole length.

    Raises:
        Fault: with the numbers, and the field to lower where one was named.
    """
    least = fewest(size)
    the_prompt = "the longest prompt" if size.longest < size.tokens else "the prompt"
    if least + _one_token(surface) > max_model_len:
        raise faults.too_long(
            f"{the_prompt.capitalize()} has {_told(size)}; the model takes {max_model_len}, "
            "the answer included. Shorten the prompt."
        )
    left = max_model_len - least
    if wanted.field is not None and wanted.limit is not None and wanted.limit > left:
        raise faults.too_long(
            f"{wanted.field} is {wanted.limit} and {the_prompt} has {_told(size)}; the model takes "
            f"{max_model_len} for both, so that at most {left} are left for the answer.",
            wanted.field,
        )


def _told(size: PromptSize) -> str:
    return f"{'' if size.is_exact else 'about '}{size.longest} tokens"


def least_output(wanted: Output, surface: Surface) -> int:
    """Return the output that an engine must have room for: what was asked for, or one token."""
    named = wanted.limit if wanted.field is not None else None
    return _one_token(surface) if named is None else named


def _one_token(surface: Surface) -> int:
    return 1 if surfaces.generates(surface) else 0


def output_limit(size: PromptSize, wanted: Output, surface: Surface, max_model_len: int) -> int:
    """Return the most tokens that one answer may have; 0 where nothing is generated."""
    if not surfaces.generates(surface):
        return 0
    left = max(1, max_model_len - size.shortest)
    return left if wanted.limit is None else max(1, min(wanted.limit, left))
