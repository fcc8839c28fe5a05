"""The dtype that the engine runs a model in: what is asked for, else what model and GPU allow."""

from tidegate.api.reasons import Reason
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused

_HAVE_BFLOAT16 = (8, 0)
_FIELD = "spec.model.weights.dtype"


def of(shape: ModelShape, engine: EngineConfig, capability: tuple[int, int]) -> str:
    """Return the dtype; `auto` follows the checkpoint where model and GPU have its dtype.

    Raises:
        Refused: FLAG_UNSUPPORTED, the GPU or the model does not have what is asked for.
    """
    usable = _usable(shape, capability)
    if engine.model_dtype == "auto":
        return shape.dtype if shape.dtype in usable else usable[0]
    if engine.model_dtype == "bfloat16" and capability < _HAVE_BFLOAT16:
        raise Refused(
            Reason.FLAG_UNSUPPORTED,
            f"dtype bfloat16 needs compute capability 8.0, this GPU has "
            f"{capability[0]}.{capability[1]}; use {usable[0]}",
            _FIELD,
        )
    if engine.model_dtype == "float16":
        require_stable(shape, "float16", " or ".join(("auto", *usable)))
    return engine.model_dtype


def require_stable(shape: ModelShape, dtype: str, instead: str) -> None:
    """Check a model, or a draft that runs in its target's dtype.

    Raises:
        Refused: FLAG_UNSUPPORTED, the model's numbers do not fit float16.
    """
    if dtype == "float16" and not shape.is_stable_in_float16:
        raise Refused(
            Reason.FLAG_UNSUPPORTED,
            f"dtype float16: the engine refuses it for {shape.model_type}, whose numbers it does "
            f"not hold; use {instead}",
            _FIELD,
        )


def _usable(shape: ModelShape, capability: tuple[int, int]) -> tuple[str, ...]:
    """Return what the engine may run the model in, in its order of preference."""
    has_bfloat16 = ("bfloat16",) if capability >= _HAVE_BFLOAT16 else ()
    has_float16 = ("float16",) if shape.is_stable_in_float16 else ()
    return (*has_bfloat16, *has_float16, "float32")
