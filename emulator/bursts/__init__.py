"""Burst-parallel training: layer tables, plans of GPU counts by layer, background work in the gaps."""
