"""Congestion control by the sender of one flow."""
