"""A real vLLM on CPUs: its model, its installation, its image, and what it answers."""
