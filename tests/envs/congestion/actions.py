"""Native actions of the preset "datacenter", for tests."""

from __future__ import annotations

import numpy as np

from sysgym.envs.congestion.flow.intervals import FLOW_INTERVAL
from sysgym.envs.congestion.flow.presets.datacenter import ask


def log_rate_action(rate_bps: float, least_bps: float, line_rate_bps: float) -> float:
    """Return the action that asks for a rate between the least and the line rate."""
    (interval,) = np.zeros(1, FLOW_INTERVAL).view(np.recarray)
    interval.least_rate_bps, interval.line_rate_bps = least_bps, line_rate_bps
    return ask(interval, rate_bps)
