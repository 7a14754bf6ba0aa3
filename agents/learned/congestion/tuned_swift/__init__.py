"""Constants of Swift, found by the same search as those of ``adaptive_target``."""
