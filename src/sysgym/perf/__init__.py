"""Measurements of ``sysgym perf``, one module for each kind of work."""
