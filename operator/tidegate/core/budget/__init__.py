"""The sizing engine: from a model, the engine's flags and a card to bytes, blocks and requests.

Pure arithmetic. `shape` reads a model's config.json, `pool` divides given KV bytes as vLLM's own
planner does (exact), `sizing` first finds how many bytes are left for KV (an estimate with a band,
until it is measured).
"""
