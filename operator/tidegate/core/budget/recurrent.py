"""Recurrent mixers: state of a fixed size for each sequence, whatever its length.

A state is a window of the convolution and, but for short convolutions, a recurrent part. Tensor
parallel divides both; a speculated token widens the window by one. Sizes in elements of one GPU,
as vLLM 0.32 and 0.33 shape them.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class StateSize:
    """Elements of one state on one GPU: of the convolution's window and of the recurrent part."""

    window: int
    recurrent: int


class Recurrent(Protocol):
    """A recurrent mixer."""

    def fault(self, tensor_parallel: int) -> str | None:
        """Return why the state cannot be divided over so many GPUs, or None."""

    def state(self, tensor_parallel: int, speculated: int) -> StateSize:
        """Return the state on each GPU when `speculated` tokens are drafted in a step."""

    def parameters(self, hidden: int) -> int:
        """Return the weights of the mixer in a model of that hidden size."""

    @property
    def width(self) -> int:
        """Elements of a token between the projections into the mixer and out of it."""


@dataclass(frozen=True)
class Mamba1:
    """A selective state space: each of `inner` channels has a state of its own."""

    inner: int
    state_size: int
    kernel: int
    step_rank: int

    def fault(self, tensor_parallel: int) -> str | None:
        """Return why the state cannot be divided over so many GPUs, or None."""
        return _undivided(tensor_parallel, self.inner, "channels of the recurrent layers")

    def state(self, tensor_parallel: int, speculated: int) -> StateSize:
        """Return the state on each GPU; the engine keeps no room for speculated tokens."""
        channels = self.inner // tensor_parallel
        return StateSize(channels * (self.kernel - 1), channels * self.state_size)

    def parameters(self, hidden: int) -> int:
        """Return the weights of the mixer in a model of that hidden size."""
        steps = (self.step_rank + 2 * self.state_size) + self.step_rank
        return self.inner * (3 * hidden + steps + self.kernel + self.state_size)

    @property
    def width(self) -> int:
        """Elements of a token between the projections into the mixer and out of it."""
        return 3 * self.inner


@dataclass(frozen=True)
class Mamba2:
    """A state space in heads; `groups` of them share their input and output projections."""

    heads: int
    head_dim: int
    groups: int
    state_size: int
    kernel: int
    inner: int

    def fault(self, tensor_parallel: int) -> str | None:
        """Return why the state cannot be divided over so many GPUs, or None."""
        if self.groups != 1 and self.groups % tensor_parallel:
            return f"does not divide the {self.groups} groups of the recurrent layers"
        return _undivided(tensor_parallel, self.heads, "heads of the recurrent layers")

    def state(self, tensor_parallel: int, speculated: int) -> StateSize:
        """Return the state on each GPU; a single group is held by all of them."""
        groups = tensor_parallel if self.groups % tensor_parallel else self.groups
        channels = (self.inner + 2 * groups * self.state_size) // tensor_parallel
        heads = self.heads // tensor_parallel
        return StateSize(
            channels * (self.kernel - 1 + speculated), heads * self.head_dim * self.state_size
        )

    def parameters(self, hidden: int) -> int:
        """Return the weights of the mixer in a model of that hidden size."""
        return hidden * (2 * self.inner + self._mixed + self.heads) + self._mixed * self.kernel

    @property
    def width(self) -> int:
        """Elements of a token between the projections into the mixer and out of it."""
        return 2 * self.inner + self._mixed

    @property
    def _mixed(self) -> int:
        return self.inner + 2 * self.groups * self.state_size


@dataclass(frozen=True)
class GatedDelta:
    """A gated delta net: a matrix for each value head, written to by keys.

    `exports_states` of layers that can hand out the state in the midst of a prefill.
    """

    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    kernel: int
    exports_states: bool = True

    def fault(self, tensor_parallel: int) -> str | None:
        """Return why the state cannot be divided over so many GPUs, or None."""
        fault = _undivided(tensor_parallel, self.key_heads, "key heads of the recurrent layers")
        return fault or _undivided(
            tensor_parallel, self.value_heads, "value heads of the recurrent layers"
        )

    def state(self, tensor_parallel: int, speculated: int) -> StateSize:
        """Return the state on each GPU when `speculated` tokens are drafted in a step."""
        heads = self.value_heads // tensor_parallel
        return StateSize(
            self._mixed // tensor_parallel * (self.kernel - 1 + speculated),
            heads * self.value_dim * self.key_dim,
        )

    @property
    def _mixed(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    def parameters(self, hidden: int) -> int:
        """Return the weights of the mixer in a model of that hidden size."""
        values = self.value_heads * self.value_dim
        projected = self._mixed + 2 * values + 2 * self.value_heads
        return hidden * projected + self._mixed * self.kernel

    @property
    def width(self) -> int:
        """Elements of a token between the projections into the mixer and out of it."""
        return 2 * self._mixed + 2 * self.value_heads * self.value_dim


@dataclass(frozen=True)
class DeltaAttention:
    """Kimi's delta attention: a gated delta net whose heads forget by the channel.

    `has_whole_gate` of an output gate as wide as the heads, where others have two thin matrices.
    `hands_out_states` of layers whose prefill kernel can hand out a state midway.
    """

    heads: int
    head_dim: int
    kernel: int
    has_whole_gate: bool = False
    hands_out_states: bool = False

    def fault(self, tensor_parallel: int) -> str | None:
        """Return why the state cannot be divided over so many GPUs, or None."""
        return _undivided(tensor_parallel, self.heads, "heads of the delta attention")

    def state(self, tensor_parallel: int, speculated: int) -> StateSize:
        """Return the state on each GPU when `speculated` tokens are drafted in a step."""
        heads = self.heads // tensor_parallel
        return StateSize(
            3 * heads * self.head_dim * (self.kernel - 1 + speculated),
            heads * self.head_dim * self.head_dim,
        )

    def parameters(self, hidden: int) -> int:
        """Return the weights of the mixer in a model of that hidden size."""
        wide = self.heads * self.head_dim
        thin = hidden * self.head_dim + self.head_dim * wide
        gate = hidden * wide if self.has_whole_gate else thin
        return 4 * hidden * wide + gate + thin + hidden * self.heads + 3 * wide * self.kernel

    @property
    def width(self) -> int:
        """Elements of a token between the projections into the mixer and out of it."""
        return 6 * self.heads * self.head_dim


@dataclass(frozen=True)
class ShortConvolution:
    """A gated convolution over the last few tokens: a window and nothing else."""

    channels: int
    cached_tokens: int

    def fault(self, tensor_parallel: int) -> str | None:
        """Return why the state cannot be divided over so many GPUs, or None."""
        return _undivided(tensor_parallel, self.channels, "channels of the convolutions")

    def state(self, tensor_parallel: int, speculated: int) -> StateSize:
        """Return the state on each GPU when `speculated` tokens are drafted in a step."""
        channels = self.channels // tensor_parallel
        return StateSize(channels * (self.cached_tokens - 1 + speculated), 0)

    def parameters(self, hidden: int) -> int:
        """Return the weights of the mixer in a model of that hidden size."""
        return self.channels * (4 * hidden + self.cached_tokens)

    @property
    def width(self) -> int:
        """Elements of a token between the projections into the mixer and out of it."""
        return 4 * self.channels


def _undivided(tensor_parallel: int, count: int, what: str) -> str | None:
    return f"does not divide the {count} {what}" if count % tensor_parallel else None
