"""How a start can fail, in the terms of vLLM: which process fails with which Python error."""

from __future__ import annotations

HF_VALIDATION = "huggingface_hub.errors.HFValidationError"
PYDANTIC = "pydantic_core._pydantic_core.ValidationError"


class StartFailed(Exception):
    """The server cannot start; the container ends with code 1 and a traceback.

    Args:
        process: `APIServer` (reading the configuration), `EngineCore` or `Worker`.
        error: name of the Python error as the traceback prints it.
        message: its text, which may have more lines.
    """

    def __init__(self, process: str, error: str, message: str) -> None:
        super().__init__(f"{error}: {message}")
        self.process = process
        self.error = error
        self.message = message


def rejected(section: str, message: str) -> StartFailed:
    """Return the failure of a check in one of vLLM's configuration classes."""
    text = f"1 validation error for {section}\n  Value error, {message} [type=value_error]"
    return StartFailed("APIServer", PYDANTIC, text)


def out_of_range(section: str, field: str, problem: str, value: object) -> StartFailed:
    """Return the failure of a field's bounds in one of vLLM's configuration classes."""
    text = f"1 validation error for {section}\n{field}\n  {problem} [input_value={value!r}]"
    return StartFailed("APIServer", PYDANTIC, text)


def engine_failed(error: str, message: str, *, process: str = "EngineCore") -> StartFailed:
    """Return a failure of the engine's own processes, after the configuration was accepted."""
    return StartFailed(process, error, message)
