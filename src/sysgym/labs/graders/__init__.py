"""Graders, one module a lab; each has ``PARTS``, and ``prepare`` if it simulates networks.

A grader computes every figure itself; what a submission's functions return is compared with it.
"""
