"""Synchronous training whose workers and links slow down for a while, and what can be done about it."""
