"""What mixes the tokens of a sequence in a layer, and what it keeps of the tokens before.

A decoder layer has one mixer as a rule; a hybrid one has attention beside a recurrent mixer, and
some layers have none. These are facts of the model alone: no engine, no GPU.
"""

from dataclasses import dataclass

from tidegate.core.budget.recurrent import Recurrent


@dataclass(frozen=True)
class Indexer:
    """Picks the tokens that sparse attention reads; keeps a key of its own for each."""

    heads: int
    head_dim: int


@dataclass(frozen=True)
class LowRank:
    """Ranks that queries, and keys and values, pass through on their way from the hidden state.

    Keys end in `rope_dim` elements that all heads share; values are `value_dim` wide, and cached
    as wide as keys.
    """

    query_rank: int
    latent_rank: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True)
class Attention:
    """Attention with keys and values of each KV head: MHA, GQA or MQA.

    `window` and `chunk` bound in tokens what the layer attends to; with neither it attends to all
    tokens so far. A layer that `shares_kv` reads the cache of an earlier one and keeps none;
    `is_gated` multiplies what it attended to by a gate as wide as the queries. With an `indexer` it
    reads only blocks of tokens that this picks; `low_rank` is of projections and changes no cache.
    Without `has_own_weights` they are counted with a block that several layers share.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_head_dim: int
    has_bias: bool = False
    window: int | None = None
    chunk: int | None = None
    has_sinks: bool = False
    shares_kv: bool = False
    is_gated: bool = False
    indexer: Indexer | None = None
    low_rank: LowRank | None = None
    has_own_weights: bool = True

    @property
    def score_dims(self) -> int:
        """Elements that one pair of tokens passes through, in all heads."""
        return self.heads * (self.head_dim + self.value_head_dim)


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: one latent vector and one rotary key for all heads.

    `is_sparse` layers read only tokens that an indexer picks, their own one or an earlier layer's.
    """

    heads: int
    latent_rank: int
    rope_dim: int
    nope_dim: int
    value_head_dim: int
    query_rank: int | None
    is_sparse: bool = False
    indexer: Indexer | None = None
    is_gated: bool = False

    @property
    def cached_dim(self) -> int:
        """Elements of one cached token."""
        return self.latent_rank + self.rope_dim

    @property
    def score_dims(self) -> int:
        """Elements that one pair of tokens passes through, in all heads."""
        return self.heads * (self.nope_dim + self.rope_dim + self.value_head_dim)


@dataclass(frozen=True)
class CompressedAttention:
    """Latent attention over a window, beside states that stand for `ratio` tokens each.

    A ratio of 1 leaves the window alone; the indexer belongs to layers of the smallest ratio.
    """

    heads: int
    head_dim: int
    window: int
    ratio: int
    query_rank: int
    output_rank: int
    output_groups: int
    indexer: Indexer | None = None

    @property
    def score_dims(self) -> int:
        """Elements that one pair of tokens passes through, in all heads."""
        return 2 * self.heads * self.head_dim


AttentionMixer = Attention | LatentAttention | CompressedAttention
Mixer = AttentionMixer | Recurrent
