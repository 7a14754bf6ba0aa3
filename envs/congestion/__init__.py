"""Congestion control: a controller decides how fast the hosts of a datacenter network send."""
