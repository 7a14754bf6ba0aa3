"""Tuning of a data-parallel training step: gradient buckets, their order, and when the step ends."""
