"""The gate's view of the world: its configuration, its pods, its own process."""
