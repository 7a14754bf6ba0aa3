"""Execution of a benchmark: trainings, episodes, worker processes, and replay of rows."""
