"""Congestion control of all hosts by one controller."""
