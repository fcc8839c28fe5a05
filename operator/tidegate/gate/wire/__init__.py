"""The hot path: bytes in, bytes out, on plain asyncio protocols."""
