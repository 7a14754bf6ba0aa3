"""Stragglers: which tasks of a parallel job will be late, and what to do about them."""
