"""Tidegate: an operator, an admission controller and a gate that keep vLLM inside its memory."""

__version__ = "0.1.0"
