"""Schedules of collectives on any graph of links: systems, timing, correctness, lower bounds."""
