"""What the gate decides: pure, with the time as a parameter."""
