"""Estimates of memory and run time from a scenario alone."""
