"""BBR in its first and its third version."""
