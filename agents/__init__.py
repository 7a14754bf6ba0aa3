"""Agents, heuristic and learned, one folder a family."""
