"""Names of the transports that the Linux backend plays; importing them needs neither Mininet nor a kernel."""

from __future__ import annotations

KERNEL_TRANSPORTS = ("bbr", "cubic", "dctcp", "newvegas", "reno")
"""Transports that are congestion controls of the kernel itself."""

MANAGED_TRANSPORTS = ("learned", "paced", "paced_flow")
"""Transports whose window and rate are set from outside, in memory shared with our congestion control."""

BASE_LAWS = {"reno": 0, "cubic": 1, "dctcp": 2}
"""Base laws of windows that are multiplied from outside, as the program numbers them."""

SCALED = "scaled_"
SCALED_TRANSPORTS = tuple(SCALED + base for base in BASE_LAWS)
"""Transports with a window law of their own, whose windows are multiplied from outside."""
