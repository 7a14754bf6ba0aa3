"""Gymnasium environments, one folder a family."""
