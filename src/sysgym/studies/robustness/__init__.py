"""Robustness study: whether a deployed policy answers as the trained one does, also under attack."""
