"""Accelerators in a hierarchy of links: where parallelism lies on it, how reductions run, what they cost."""
