"""The levers of whoever is on call: look, say what will happen, ask, write."""
