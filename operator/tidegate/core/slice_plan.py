"""The plan of one slice: a pool on a class of node."""

from dataclasses import dataclass

from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.sizing import Sizing
from tidegate.core.measure.measurement import Measurement
from tidegate.core.nodes import NodeClass


@dataclass(frozen=True)
class SlicePlan:
    """One pool on one class of node: `replicas` pods, each of `gpus` GPUs.

    `configuration` tells engines that need the same memory; `basis` is what was measured of one and
    is in the numbers, None where they are estimates. `prefill_tokens_per_second` is an estimate of
    one pod, None where the card's rate is not known.
    """

    pool: str
    node_class: NodeClass
    nodes: int
    replicas: int
    gpus: int
    engine: EngineConfig
    sizing: Sizing
    because: tuple[str, ...]
    configuration: str = ""
    basis: Measurement | None = None
    prefill_tokens_per_second: float | None = None

    @property
    def prefills(self) -> bool:
        """Whether its pods compute prompts, so that their speed of prefill matters."""
        return self.pool != "decode"
