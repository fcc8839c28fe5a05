"""The pure heart: sizing, planning, rendering, rollout and status. No clock, log or I/O."""
