"""Learned choices among masked actions: common parts of several families."""
