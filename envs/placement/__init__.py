"""Collective placement: where axes of parallelism lie on accelerators, and how their reductions run."""
