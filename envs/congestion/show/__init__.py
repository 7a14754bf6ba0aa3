"""Descriptions, pictures and cost estimates of congestion scenarios, for people who look at one."""
