"""A double of `vllm serve`: its flags, HTTP API, metrics, KV accounting and failures, no GPU."""
