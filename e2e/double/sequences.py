"""One sequence on its way through the engine. Mutable: the scheduler owns it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from e2e.double.generation import Sampling


class FinishReason(StrEnum):
    """Why a sequence ended; the words of vLLM's API and metrics."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"
    REPETITION = "repetition"


@dataclass(frozen=True)
class RemoteKV:
    """The KV blocks of a prompt that another engine holds."""

    engine_id: str
    request_id: str
    host: str
    port: int
    block_ids: tuple[int, ...]
    token_count: int


@dataclass
class Times:
    """Moments of a sequence on the engine's clock, in seconds."""

    arrived: float
    scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None


@dataclass(eq=False)
class Sequence:
    """A prompt, what was generated for it, and where its KV lies.

    Attributes:
        context: the tokens that the KV stands for; differs from `prompt` where blocks of another
            prompt were loaded.
        computed: tokens whose KV is in `blocks`.
        hold: keep the blocks after the end, for a decode engine to fetch.
        is_remote_pending: the KV of `remote` was not asked for yet.
    """

    id: str
    prompt: tuple[int, ...]
    sampling: Sampling
    times: Times
    priority: int = 0
    remote: RemoteKV | None = None
    hold: bool = False
    cache_salt: str = ""
    context: tuple[int, ...] = ()
    output: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)
    computed: int = 0
    seed: int | None = None
    finish: FinishReason | None = None
    stop_reason: int | str | None = None
    preemptions: int = 0
    local_hit_tokens: int = 0
    external_tokens: int = 0
    held_blocks: tuple[int, ...] = ()
    is_remote_pending: bool = False

    def __post_init__(self) -> None:
        self.context = self.context or self.prompt
        self.is_remote_pending = self.remote is not None

    @property
    def length(self) -> int:
        """All tokens so far, prompt and output."""
        return len(self.prompt) + len(self.output)

    def slice(self, start: int, stop: int) -> tuple[int, ...]:
        """Return the tokens between two positions, counted over context and output."""
        cut = len(self.context)
        if stop <= cut:
            return self.context[start:stop]
        output = tuple(self.output[max(0, start - cut) : stop - cut])
        return self.context[start:cut] + output if start < cut else output
