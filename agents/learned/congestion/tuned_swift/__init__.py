"""Constants of Swift, found by the search that found those of ``adaptive_target``."""
