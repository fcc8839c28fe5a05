"""Simulated rollouts: traffic as gates see it, faults of a canary, and who judges it."""
