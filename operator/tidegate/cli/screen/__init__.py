"""The live screen of `tidegate top`."""
