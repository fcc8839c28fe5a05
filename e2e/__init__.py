"""End-to-end checks: a local cluster, a real engine, and one folder per scenario."""
