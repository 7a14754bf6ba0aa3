"""Collectives as flows: the transfers of a program, and their simulation on shared links."""
