"""Descriptions, pictures and cost estimates of congestion scenarios."""
