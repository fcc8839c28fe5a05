"""Figures, not tests: each module prints what it measured, and ratios to a baseline beside it."""
