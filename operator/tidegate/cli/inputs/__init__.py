"""Files and documents that commands are given."""
