"""Bounds of measurement errors in jobs, for each kind of feature."""

from __future__ import annotations

from sysgym.agents.learned.trust.bound import KNOWN, Bound

_COUNTER = Bound("counter ±2 %", absolute=0.02)
_PROGRESS = Bound("time ±1 %", relative=0.01)
_LATENCY = Bound("latency ±1 %", absolute=0.01)

OF_TASKS = {
    "elapsed / threshold": _PROGRESS,
    "elapsed / median latency of finished": _PROGRESS,
    "share finished": KNOWN,
    "log threshold / median latency of finished": _LATENCY,
    "log p90 / median latency of finished": _LATENCY,
    "log checkpoint": KNOWN,
    "rank of the mean": Bound("rank ±2 points", absolute=0.02),
    "log mean / median of finished": _COUNTER,
    "log last / median of running": _COUNTER,
    "log last / own mean": _COUNTER,
}
