"""Learned choices among masked actions: what the placement and collectives families share."""
