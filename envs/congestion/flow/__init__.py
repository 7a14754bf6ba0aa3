"""Congestion control of one flow by its sender."""
