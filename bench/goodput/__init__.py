"""Goodput under overload: open-loop clients, mixes of lengths, regimes in front of one engine."""
