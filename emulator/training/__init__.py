"""Distributed training jobs: traces of their operations, dependencies, replay and what-if analysis."""
