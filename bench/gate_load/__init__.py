"""What puts load on a gate's port: a mock engine and a generator in C, and a relay to compare."""
