"""What `tidegate check` reads, asks and prints."""
