"""Learned choices among masked actions, shared by several families."""
