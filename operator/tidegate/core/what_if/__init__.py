"""What-ifs: the same deployment or command line sized with other values, side by side."""
