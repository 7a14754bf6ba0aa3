"""Runs with given faults."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sysgym.emulator.failslow.faults import Faults, Kind
from sysgym.emulator.failslow.run import FailSlowRun

QUIET = {
    "faults.worker_per_hour": 0.0,
    "faults.stage_per_hour": 0.0,
    "faults.link_per_hour": 0.0,
    "control.noise_log_sd": 0.0,
}
"""No faults and no errors of measurement."""

Fault = tuple[float, float, Kind, int, float]
"""Start, end, kind, place, factor."""


def give(run: FailSlowRun, faults: Sequence[Fault]) -> FailSlowRun:
    """Replace the faults of a run that has not begun."""
    start_s, end_s, kind, place, factor = (np.array(column) for column in zip(*faults, strict=True))
    run.faults = Faults(
        start_s.astype(np.float64),
        end_s.astype(np.float64),
        kind.astype(np.int64),
        place.astype(np.int64),
        factor.astype(np.float64),
    )
    run.relieved = np.zeros(len(faults), np.bool_)
    run.gone = np.zeros(len(faults), np.bool_)
    run._measure()
    return run
