"""Metrics of a step and of an episode."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sysgym.emulator.collectives.schedule import Schedule

STEP_METRICS: dict[str, str] = {
    "steps": "transfers scheduled",
    "allowed": "actions that the mask allows",
    "missing": "pairs of a chunk and a device that still lacks it, in this phase",
    "time_s": "time of the schedule so far, s",
    "bound_s": "lower bound of the collective's time, s",
}
"""Meaning of every metric of a step."""

EPISODE_METRICS: dict[str, str] = {
    "time_s": "time of the collective under the schedule, s",
    "bound_s": "lower bound: no schedule of these chunks is faster, s",
    "regret": "ln(time_s / bound_s): 0 at the bound, which may be out of reach",
    "busbw_bps": "bus bandwidth as nccl-tests computes it, bit/s",
    "transfers": "transfers of the schedule",
    "link_use_fraction": "time for which links are occupied, mean over links, over the collective's time",
    "n_devices": "devices of the system",
    "valid": "0 if an action was taken that the mask forbids, else 1; with 0 the schedule was completed with"
    " the first candidates, and its transfers count one after another",
}
"""Meaning of every episode metric."""

_TIE = 1e-9
"""Relative difference below which times are equal, because sums may be computed in different orders."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of an episode.

    Attributes:
        schedule: The complete schedule.
        bound_s: Lower bound of its time.
        valid: Whether every action was allowed; after one that was not, the schedule is completed with the
            first candidates, and its transfers count one after another.
    """

    schedule: Schedule
    bound_s: float
    valid: bool = True

    @property
    def time_s(self) -> float:
        """Time of the schedule; if it is not valid, that of its transfers one after another."""
        return self.schedule.time_s if self.valid else self.schedule.serial_time_s

    @property
    def regret(self) -> float:
        """Natural logarithm of the ratio of the time to the bound."""
        ratio = self.time_s / self.bound_s
        return 0.0 if abs(ratio - 1.0) < _TIE else math.log(ratio)

    def metrics(self) -> dict[str, float]:
        """Return the episode metrics; see :data:`EPISODE_METRICS`."""
        schedule = self.schedule
        return {
            "time_s": self.time_s,
            "bound_s": self.bound_s,
            "regret": self.regret,
            "busbw_bps": 8.0 * schedule.busbw_bytes_per_s * schedule.time_s / self.time_s,
            "transfers": float(schedule.n_transfers),
            "link_use_fraction": float(schedule.link_busy_s().mean()) / self.time_s,
            "n_devices": float(schedule.task.n_devices),
            "valid": float(self.valid),
        }
