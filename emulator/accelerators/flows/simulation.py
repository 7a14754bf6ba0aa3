"""Simulation of flows that wait for each other and share links.

The network is idealised: every flow gets its max-min fair rate at once (Bertsekas and Gallager, Data
Networks, 2nd ed., section 6.5.2), and its last byte arrives one latency after it was sent. Results are exact
for this model, and where nothing is shared they equal the alpha-beta costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.engine import NOBODY, Waiting, run_flows
from sysgym.emulator.accelerators.flows.tables import FloatArray, IntArray, Paths
from sysgym.scenarios.errors import SysgymError


@dataclass(frozen=True, eq=False)
class Flows:
    """Flows with their sizes and dependencies.

    Flow f waits until the flows ``wait_on[wait_first[f] : wait_first[f + 1]]`` have arrived, and until the
    last byte of ``follows[f]``, the previous flow on the same connection, has left its sender.

    Attributes:
        size_bytes: float64 [n_flows], not negative; a flow of 0 bytes takes its latency.
        latency_s: Time from the last byte sent to its arrival, float64 [n_flows].
        path: Index of each flow's path, int32 [n_flows].
        paths: Paths to which ``path`` refers.
        wait_first: int64 [n_flows + 1], ascending from 0.
        wait_on: int32 [n_waits].
        follows: int32 [n_flows], -1 for none; no two follow the same flow.
    """

    size_bytes: FloatArray
    latency_s: FloatArray
    path: IntArray
    paths: Paths
    wait_first: NDArray[np.int64]
    wait_on: IntArray
    follows: IntArray

    @property
    def n_flows(self) -> int:
        """Number of flows."""
        return len(self.size_bytes)


class RateHistory(NamedTuple):
    """Changes of rates in order of time: at ``time_s[i]`` flow ``flow[i]`` begins to send at a rate."""

    time_s: FloatArray
    flow: IntArray
    rate_bytes_per_s: FloatArray


class Timeline(NamedTuple):
    """Times at which flows start, are sent and arrive, in seconds, arrays [n_flows]."""

    start_s: FloatArray
    sent_s: FloatArray
    finish_s: FloatArray
    rates: RateHistory | None = None

    @property
    def time_s(self) -> float:
        """Arrival of the last flow; 0 without flows."""
        return float(self.finish_s.max(initial=0.0))


def simulate(flows: Flows, bandwidth_bytes_per_s: FloatArray, *, record_rates: bool = False) -> Timeline:
    """Run flows over links with max-min fair sharing, from time 0.

    Work is proportional to the number of events: the start or end of a flow changes only the rates of flows
    that share links with it, directly or through others.

    Args:
        flows: The flows.
        bandwidth_bytes_per_s: Bandwidth of every link, float64 [n_links], more than 0.
        record_rates: Record every change of a rate.

    Raises:
        SysgymError: An array has a wrong shape or value, or flows wait for each other in a circle.
    """
    bandwidth = np.ascontiguousarray(bandwidth_bytes_per_s, np.float64)
    _check(flows, bandwidth)
    follower = np.full(flows.n_flows, NOBODY, np.int32)
    behind = np.flatnonzero(flows.follows != NOBODY).astype(np.int32)
    follower[flows.follows[behind]] = behind
    waits = np.diff(flows.wait_first)
    # The flows that wait for each flow: the dependencies reversed.
    freed = np.repeat(np.arange(flows.n_flows, dtype=np.int32), waits)
    order = np.argsort(flows.wait_on, kind="stable")
    freed = freed[order]
    freed_first = np.searchsorted(flows.wait_on[order], np.arange(flows.n_flows + 1)).astype(np.int64)
    start_s, sent_s, finish_s, unfinished, time_s, flow, rate = run_flows(
        flows.size_bytes,
        flows.latency_s,
        flows.path,
        flows.paths,
        Waiting(waits + (flows.follows != NOBODY), freed_first, freed, follower),
        bandwidth,
        record_rates,
    )
    if unfinished:
        raise SysgymError(f"{unfinished} of {flows.n_flows} flows never start: they wait for each other")
    return Timeline(
        start_s, sent_s, finish_s, RateHistory(time_s, flow.astype(np.int32), rate) if record_rates else None
    )


def _check(flows: Flows, bandwidth: FloatArray) -> None:
    n_flows, paths = flows.n_flows, flows.paths
    for name in ("latency_s", "path", "follows"):
        if getattr(flows, name).shape != (n_flows,):
            raise SysgymError(f"{n_flows} flows, but {name} has the shape {getattr(flows, name).shape}")
    for name, first, entries in (
        ("wait_first", flows.wait_first, flows.wait_on),
        ("paths.first", paths.first, paths.link),
    ):
        if first[0] != 0 or first[-1] != len(entries) or np.any(np.diff(first) < 0):
            raise SysgymError(f"{name} does not ascend from 0 to {len(entries)}")
    if len(flows.wait_first) != n_flows + 1 or len(paths.share) != len(paths.link):
        raise SysgymError("the tables of flows or paths differ in length")
    for name, index, size in (
        ("path", flows.path, paths.n_paths),
        ("wait_on", flows.wait_on, n_flows),
        ("paths.link", paths.link, len(bandwidth)),
        ("follows", flows.follows[flows.follows != NOBODY], n_flows),
    ):
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < size:
            raise SysgymError(f"{name} goes from {index.min()} to {index.max()}, there are {size}")
    followed = flows.follows[flows.follows != NOBODY]
    if len(np.unique(followed)) < len(followed):
        raise SysgymError("two flows follow the same one")
    # NaN fails these comparisons, too.
    if not (np.all(bandwidth > 0) and np.all(paths.share > 0)):
        raise SysgymError("a link's bandwidth or a share of a path is not positive")
    if not (np.all(flows.size_bytes >= 0) and np.all(flows.latency_s >= 0)):
        raise SysgymError("a flow's size or latency is negative or not a number")
    if not (np.isfinite(flows.size_bytes).all() and np.isfinite(flows.latency_s).all()):
        raise SysgymError("a flow's size or latency is not finite")
