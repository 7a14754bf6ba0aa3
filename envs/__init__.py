"""Gymnasium environments, one folder per family."""
