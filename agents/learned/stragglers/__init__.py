"""Straggler agents trained on jobs of the train split and played on other jobs."""
