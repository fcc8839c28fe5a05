"""What `tidegate plan` reads, varies and prints."""
