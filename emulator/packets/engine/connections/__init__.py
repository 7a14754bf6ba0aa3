"""Connections of flows: their handshake, and their reuse by the next flow between the same hosts."""
