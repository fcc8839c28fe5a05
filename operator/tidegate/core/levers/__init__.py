"""What a lever will do, reckoned before it is pulled: from what the gates count."""
