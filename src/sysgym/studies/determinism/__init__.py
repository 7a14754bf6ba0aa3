"""Determinism study: how much of the spread between trainings comes from seeds, and how much from tools."""
