"""Accelerators in a hierarchy of links: placements of parallelism, reduction programs and their costs."""
