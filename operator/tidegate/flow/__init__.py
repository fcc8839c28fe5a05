"""One pass of the operator, written once, over ports: no framework, client or clock of its own."""
