"""A `vllm serve` command line: read as the engine's own parser reads it, and what it settles."""
