"""Learned agents of the congestion family, and the general algorithms' view of it."""
