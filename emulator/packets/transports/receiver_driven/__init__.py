"""Receiver-driven transports."""
