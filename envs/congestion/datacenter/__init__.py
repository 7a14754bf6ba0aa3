"""Congestion control by one controller of all hosts."""
