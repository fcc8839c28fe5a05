"""The peak of one step: what the engine measures with a dummy batch of max_num_batched_tokens."""

from tidegate.api.figures import Figure, estimated, measured
from tidegate.core.budget import bands
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.feed_forward import Dense, Experts
from tidegate.core.budget.mixers import Attention, CompressedAttention, LatentAttention, Mixer
from tidegate.core.budget.shape import Layer, ModelShape, element_bytes


def of(
    shape: ModelShape, engine: EngineConfig, dtype: str, measured_bytes: int | None = None
) -> Figure:
    """Return the peak of activations on each GPU.

    It is the larger of two moments: inside of the widest layer, and in the sampler, which holds
    logits of every sequence over the whole vocabulary.
    """
    if measured_bytes is not None:
        return measured(measured_bytes, "spec.budget.activations")
    size = element_bytes(dtype)
    sampler = bands.term("sampler_bytes_per_logit", engine.version)
    # Without a hidden size (an abridged config) the width of all heads stands in for it.
    hidden = shape.hidden_size or _width_of_heads(shape)
    states = engine.max_num_batched_tokens * hidden * size
    widest = max(_inside(layer, hidden, engine) for layer in shape.kinds) * size
    logits = min(engine.max_num_seqs, engine.max_num_batched_tokens) * (shape.vocab_size or 0)

    def peak(copies: float, bytes_per_logit: float) -> int:
        return round(max(copies * states + widest, states + logits * bytes_per_logit))

    copies = bands.term("activations_hidden_copies", engine.version)
    source = (
        f"{engine.max_num_batched_tokens} batched tokens, {engine.max_num_seqs} sequences, "
        f"vocabulary of {shape.vocab_size}"
    )
    figure = estimated(
        peak(copies.value, sampler.value),
        peak(copies.low, sampler.low),
        peak(copies.high, sampler.high),
        source,
    )
    return figure if shape.vision is None or engine.language_only else figure + _encoder()


def _inside(layer: Layer, hidden: int, engine: EngineConfig) -> int:
    """Return the elements that a layer holds beside its hidden states, for a whole batch."""
    tokens, size = engine.max_num_batched_tokens, engine.tensor_parallel
    widths = [_mixer_width(mixer) // size for mixer in layer.mixers]
    mlp = layer.mlp
    if isinstance(mlp, Dense):  # gate and up, and their product
        widths.append(mlp.projections * mlp.intermediate_size // size)
    elif isinstance(mlp, Experts):  # the experts' buffers hold each token once per expert
        inner = mlp.intermediate_size // size
        widths.append(mlp.experts_per_token * (max(2 * inner, hidden) + inner))
    return tokens * max(widths, default=0)


def _mixer_width(mixer: Mixer) -> int:
    """Return the elements of one token inside of a mixer, on all GPUs together."""
    if isinstance(mixer, Attention):
        return (mixer.heads + mixer.kv_heads) * (mixer.head_dim + mixer.value_head_dim)
    if isinstance(mixer, LatentAttention):  # in prefill every head has its own keys and values
        return 2 * mixer.score_dims
    if isinstance(mixer, CompressedAttention):
        return mixer.score_dims
    return mixer.width


def _width_of_heads(shape: ModelShape) -> int:
    """Return the width of all heads of the first attention, 0 if there is none."""
    found = next((layer.attention for layer in shape.kinds if layer.attention), None)
    return found.heads * found.head_dim if found else 0


def _encoder() -> Figure:
    return bands.spread(lambda value: value("encoder_peak"), "the vision encoder's dummy inputs")
