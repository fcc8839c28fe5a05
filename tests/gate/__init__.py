"""The gate's wire on real sockets: what clients and engines see, whatever the other side does."""
