"""How far a measurement may be off: half widths of a box around an observation, in physical terms.

A round trip is known to 2 %, losses to 0.1 percentage points, a queue to 1 % of its buffer; what the
controller set itself, and what is simply there or not, is known. The bounds on marks, rates, progress and
counters are ours. Values are those of the observation, which are scale-free: a bound on a round trip becomes
one on its feature by the feature's formula.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import SysgymError

FloatArray = NDArray[np.float64]

RTT = 0.02
"""Relative error of a round trip."""
LOSS = 0.001
"""Of a loss fraction, absolute: 0.1 percentage points."""
BUFFER = 0.01
"""Of a queue, in buffers."""


@dataclass(frozen=True)
class Bound:
    """Half width of the box for one kind of feature x: ``absolute + relative |x| + rest (1 - x)``.

    Attributes:
        words: What is off by how much, for tables.
        absolute: The same everywhere.
        relative: Of the value.
        rest: Of what is missing to 1: a relative error of the round trip in features 1 - base RTT / RTT.
    """

    words: str
    absolute: float = 0.0
    relative: float = 0.0
    rest: float = 0.0

    def half_width(self, values: FloatArray) -> FloatArray:
        """Return the half width at each value."""
        width: FloatArray = self.absolute + self.relative * np.abs(values) + self.rest * (1.0 - values)
        return width


_KNOWN = Bound("known exactly")
_SQUASHED_RTT = Bound("RTT ±2 %", rest=RTT)
_RATIO_RTT = Bound("RTT ±2 %", relative=RTT)
_QUEUE = Bound("queue ±1 % of the buffer", absolute=BUFFER)
_LOSS = Bound("loss ±0.1 point", absolute=LOSS)
_MARKS = Bound("marks ±1 point", absolute=0.01)
_RATE = Bound("±1 % of the rate", absolute=0.01)
_COUNTER = Bound("counter ±2 %", absolute=0.02)
_PROGRESS = Bound("time ±1 %", relative=0.01)
_LATENCY = Bound("latency ±1 %", absolute=0.01)

_DATACENTER = {
    "queue": _QUEUE,
    "queue_mean": _QUEUE,
    "queue_max": _QUEUE,
    "queue_delay": _SQUASHED_RTT,
    "mark_fraction": _MARKS,
    "drop_fraction": _LOSS,
    "utilization": _RATE,
    "rate": _KNOWN,
    "goodput": _RATE,
    "rtt": _SQUASHED_RTT,
    "active": _KNOWN,
}
_FLOW = {
    # Aurora's
    "latency_gradient": Bound("RTT ±2 % an interval", absolute=RTT),
    "latency_ratio": _RATIO_RTT,
    "send_ratio": Bound("rate ±1 %", relative=0.01),
    # A datacenter sender's
    "mark_fraction": _MARKS,
    "queueing": _SQUASHED_RTT,
    "rtt_trend": Bound("RTT ±2 %", absolute=RTT),
    "rate": _KNOWN,
    "throughput": _RATE,
    "in_flight": _KNOWN,
    "loss_fraction": _LOSS,
    # Orca's; its loss is five times a loss fraction
    "pacing": _KNOWN,
    "loss": Bound("loss ±0.1 point", absolute=5.0 * LOSS),
    "samples": Bound("±1 %", relative=0.01),
    "interval": _RATIO_RTT,
    "latency": _RATIO_RTT,
    "delay_metric": _RATIO_RTT,
}
_TASKS = {
    "elapsed / threshold": _PROGRESS,
    "elapsed / median latency of finished": _PROGRESS,
    "share finished": _KNOWN,
    "log threshold / median latency of finished": _LATENCY,
    "log p90 / median latency of finished": _LATENCY,
    "log checkpoint": _KNOWN,
    "rank of the mean": Bound("rank ±2 points", absolute=0.02),
    "log mean / median of finished": _COUNTER,
    "log last / median of running": _COUNTER,
    "log last / own mean": _COUNTER,
}
_BY_ENVIRONMENT = {
    "sysgym/DatacenterCC-v0": _DATACENTER,
    "sysgym/FlowCC-v0": _FLOW,
    "sysgym/StragglerPrediction-v0": _TASKS,
    "sysgym/StragglerMitigation-v0": _TASKS,
}


def group_of(name: str) -> str:
    """Return the kind of feature that an entry of an index names: ``rtt`` of ``rtt[h1] (...)``."""
    return re.split(r"[\[,:]", name, maxsplit=1)[0].strip()


@dataclass(frozen=True)
class Bounds:
    """The bounds of every feature of an observation.

    Attributes:
        groups: Kind of feature of every index.
        table: Bound of each kind that occurs.
        factor: All half widths are multiplied by it.
    """

    groups: tuple[str, ...]
    table: dict[str, Bound]
    factor: float = 1.0

    @classmethod
    def of(cls, env_id: str, index: Sequence[str], factor: float = 1.0) -> Bounds:
        """Return the bounds for an environment's observation.

        Args:
            env_id: Its id.
            index: What stands at every index.
            factor: Multiplies every bound; positive.

        Raises:
            SysgymError: If there is no bound for an environment or a feature, or the factor is not positive.
        """
        if not factor > 0.0:
            raise SysgymError(f"a factor of the bounds has to be positive, got {factor!r}")
        known = _BY_ENVIRONMENT.get(env_id)
        if known is None:
            raise SysgymError(
                f"{env_id}: its observations are exact (sizes, masks, counts): no bound on an error is stated"
            )
        groups = tuple(group_of(name) for name in index)
        if unknown := sorted(set(groups) - set(known)):
            raise SysgymError(f"{env_id}: no bound is stated for the feature {unknown[0]}")
        return cls(groups, {group: known[group] for group in dict.fromkeys(groups)}, factor)

    def half_widths(self, observations: NDArray[Any]) -> FloatArray:
        """Return the half widths of the boxes around observations, of their shape (n, size)."""
        values = np.asarray(observations, dtype=np.float64)
        widths = np.zeros_like(values)
        for group, bound in self.table.items():
            columns = [index for index, found in enumerate(self.groups) if found == group]
            widths[:, columns] = bound.half_width(values[:, columns])
        return self.factor * widths
