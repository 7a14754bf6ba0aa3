"""Determinism study: spread between trainings due to seeds and due to tools."""
