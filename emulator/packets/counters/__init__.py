"""Counters of a network, recordings, and the max-min fair rates of an ideal controller."""
