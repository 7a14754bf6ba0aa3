"""Collectives as flows: which transfers a program is, and when each runs on links that are shared."""
