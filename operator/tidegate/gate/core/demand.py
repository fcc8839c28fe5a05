"""What a request asks of the pods, and its place in the queue while it waits."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.gate.core.blocks import BlockRule
from tidegate.gate.core.peak import Growing
from tidegate.gate.exchange import Ask, Decided, Surface, Why

if TYPE_CHECKING:
    from tidegate.gate.core.served import Group

Kind = tuple[int, bool, tuple[str, ...]]
"""Size, whether a pair shares it, and the revisions that can answer it."""
WITHOUT_KV = frozenset({Surface.TOKENIZE, Surface.MODELS})
"""Surfaces that the engine answers without its KV cache."""


class Demand:
    """One request's demand; also the ticket that its client may give back.

    `cost_tokens` is what it is expected to hold at its end: what fairness, the drain speed and
    overtaking are counted in.
    """

    __slots__ = (
        "_leave",
        "ask",
        "asked_at",
        "cost_tokens",
        "deadline",
        "decided",
        "expected_tokens",
        "groups",
        "is_over",
        "kind",
        "needed",
        "needed_by",
        "needed_of",
        "number",
        "overtaken_tokens",
        "prompt_tokens",
        "sequences",
        "spare_output_tokens",
        "spare_prompt_tokens",
        "start_tag",
        "why",
    )

    def __init__(self, ask: Ask, expected_tokens: int, now: float, decided: Decided) -> None:
        self.ask = ask
        self.decided = decided
        self.asked_at = now
        takes_kv = ask.surface not in WITHOUT_KV
        self.prompt_tokens = ask.prompt_tokens if takes_kv else 0
        self.sequences = ask.samples if takes_kv else 0
        """Sequences that an engine's scheduler runs for it; of none it takes nothing."""
        self.expected_tokens = expected_tokens
        """Output tokens that one of its answers is expected to have."""
        self.cost_tokens = self.prompt_tokens + ask.samples * expected_tokens
        self.deadline = now
        self.overtaken_tokens = 0
        """Tokens that were admitted although they came after it."""
        self.spare_prompt_tokens = 0
        self.spare_output_tokens = 0
        """What it must leave room for beside its own: a request of those who are worse off."""
        self.needed: tuple[int, Growing] | None = None
        """Blocks at its end, and how it grows there, by a rule and of so many blocks in all."""
        self.needed_by: BlockRule | None = None
        self.needed_of = 0
        self.groups: tuple[Group, ...] = ()
        """Those whose served share it counts in."""
        self.kind: Kind = (0, False, ())
        """Requests of one kind go to the same places, and need about as much there."""
        self.why = Why.KV_BUDGET
        """Why it found no place when it was tried last."""
        self.number = 0
        self.start_tag = 0.0
        self.is_over = True
        """Whether it has been decided; False while it waits."""
        self._leave: Callable[[Demand, float], None] | None = None

    @property
    def is_due(self) -> bool:
        """Whether as many tokens have overtaken it as it asks for: no more may."""
        return self.overtaken_tokens >= self.cost_tokens

    def waits(self, leave: Callable[["Demand", float], None]) -> None:
        """Say what is to be done when its client goes before it is decided."""
        self.is_over = False
        self._leave = leave

    def leave(self, now: float) -> None:
        """The client is gone: take it out of the queue; no call of `decided` follows."""
        if not self.is_over and self._leave is not None:
            self._leave(self, now)
