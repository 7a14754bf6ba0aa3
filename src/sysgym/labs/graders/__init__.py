"""Graders, one module a lab; each has ``PARTS``, and ``prepare`` if it simulates networks.

A grader computes every figure itself. What a submission's functions return are answers to be compared with it.
"""
