"""How many KV blocks tokens take: the engine's own rule, from the plan's groups of layers."""

from collections.abc import Sequence

from tidegate.api.gate_config import KVGroup


class BlockRule:
    """Blocks of a request on the pods of one slice."""

    __slots__ = ("_groups", "_plain")

    def __init__(self, groups: Sequence[KVGroup]) -> None:
        self._groups = tuple((g.block_tokens, g.cap_tokens, g.extra_blocks) for g in groups)
        first = groups[0]
        is_plain = len(groups) == 1 and first.cap_tokens is None and not first.extra_blocks
        self._plain = first.block_tokens if is_plain else 0

    def of(self, tokens: int) -> int:
        """Return the blocks of a sequence of `tokens`; 0 of none."""
        if tokens <= 0:
            return 0
        if self._plain:  # most models: every layer attends to everything
            return -(-tokens // self._plain)
        return sum(
            -(-(tokens if cap is None or tokens < cap else cap) // block) + extra
            for block, cap, extra in self._groups
        )

    def of_request(
        self, prompt_tokens: int, output_tokens: int, samples: int, prompts: int = 1
    ) -> int:
        """Return the blocks of `samples` answers to so many prompts, taken as equally long.

        The answers to one share its blocks; each further one has its own output.
        """
        if prompts > 1:
            each = -(-prompt_tokens // prompts)
            return prompts * self.of_request(each, output_tokens, samples // prompts)
        blocks = self.of(prompt_tokens + output_tokens)
        if samples > 1:
            blocks += (samples - 1) * self.of(output_tokens)
        return blocks
