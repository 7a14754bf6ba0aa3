"""Learned agents of the congestion family, and its interface to the general algorithms."""
