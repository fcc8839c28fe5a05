"""What goes into the archive of a bug report, and what is taken out of it before."""
