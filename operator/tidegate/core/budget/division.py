"""The budget before KV: what the engine may use of a card, and what it needs beside KV."""

import math
from dataclasses import dataclass

from tidegate.api.figures import Figure, exact, total
from tidegate.api.reasons import Reason
from tidegate.core.budget import activations, bands, draft, graphs, model_dtypes, runtime, weights
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused
from tidegate.facts.gpus import Gpu


@dataclass(frozen=True)
class Case:
    """What is to be sized: a model under an engine's flags on a GPU, and what the user fixed.

    `safety_line` is the share of the card that may be planned. `weights_bytes` is the size of the
    whole checkpoint, `activations_bytes` a measured peak of each GPU.
    """

    shape: ModelShape
    engine: EngineConfig
    gpu: Gpu
    safety_line: float
    activations_bytes: int | None = None
    weights_bytes: int | None = None

    @property
    def compute_capability(self) -> tuple[int, int]:
        """The GPU's compute capability.

        Raises:
            Refused: GPU_UNKNOWN, it is not known and attention backends depend on it.
        """
        if self.gpu.compute_capability is None:
            raise Refused(
                Reason.GPU_UNKNOWN,
                f"the compute capability of {self.gpu.product} is not known, and attention "
                "backends depend on it; declare it in the operator's nodeClasses setting",
            )
        return self.gpu.compute_capability


@dataclass(frozen=True)
class Division:
    """What the engine may use of each GPU, and what it needs beside KV.

    `inside` is what its own accounting finds beside tensors, `outside` what it does not see.
    `is_measured` says that an engine told the sum of all that it subtracts.
    """

    requested_bytes: int
    utilization: float
    weights: Figure
    activations: Figure
    cuda_graphs: Figure
    draft: Figure
    inside: Figure
    outside: Figure
    graphs_are_counted: bool
    is_measured: bool = False

    @property
    def fixed(self) -> Figure:
        """What the engine subtracts from what it may use before the rest becomes KV."""
        counted = [self.weights, self.activations, self.draft, self.inside]
        return total(counted + ([self.cuda_graphs] if self.graphs_are_counted else []))

    @property
    def left_bytes(self) -> int:
        """What is left for KV; negative where the rest alone does not fit."""
        return self.requested_bytes - self.fixed.bytes

    @property
    def worst_left_bytes(self) -> int:
        """What is left for KV if every estimate is as high as its band goes."""
        return self.requested_bytes - self.fixed.high


def divide(case: Case) -> Division:
    """Divide a card before KV.

    Raises:
        Refused: the weights or the draft cannot be sized.
    """
    shape, engine = case.shape, case.engine
    dtype = model_dtypes.of(shape, engine, case.compute_capability)
    drafted = draft.read(shape, engine)
    captured = graphs.of(shape, engine, case.compute_capability)
    outside = runtime.outside(engine)
    is_counted = bands.counts_cuda_graphs(engine.version)
    unseen = outside if is_counted else outside + captured
    utilization = _utilization(case, unseen)
    return Division(
        requested_bytes=math.ceil(case.gpu.cuda_total.bytes * utilization),
        utilization=utilization,
        weights=weights.of(shape, engine, dtype, case.weights_bytes),
        activations=activations.of(shape, engine, dtype, case.activations_bytes),
        cuda_graphs=captured,
        draft=weights.of_draft(shape, drafted, engine, dtype) if drafted else exact(0),
        inside=runtime.inside(shape, engine),
        outside=outside,
        graphs_are_counted=is_counted,
    )


def _utilization(case: Case, unseen: Figure) -> float:
    """Return the share that the engine may ask for, rounded down to four digits.

    The safety line, or less where what the engine does not see needs more than the rest.
    """
    card_bytes = case.gpu.cuda_total.bytes
    share = min(case.safety_line, (card_bytes - unseen.bytes) / card_bytes)
    return max(0.0, math.floor(share * 10_000 + 1e-9) / 10_000)
