"""Robustness study: agreement of a deployed policy with the trained one, also under attack."""
