"""The gate: the data plane in front of one deployment's engines. docs/concepts/gate.md tells why.

`core` decides and knows no clock, socket or log; `wire` moves bytes; `shell` watches and measures.
"""
