"""Heuristics of the congestion family, one file each."""
