"""Graders, one module for each lab, with ``PARTS``, and with ``prepare`` if it simulates networks.

A grader computes every figure itself, and compares the results of a submission's functions with it.
"""
