"""Rendering of the congestion environments."""
