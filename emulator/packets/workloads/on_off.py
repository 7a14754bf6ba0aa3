"""On-off traffic: pairs of hosts alternate between busy and silent periods.

For Pareto periods see Willinger et al., SIGCOMM 1995.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads.matrices import traffic_matrix
from sysgym.emulator.packets.workloads.schedule import MOST_FLOWS, FlowSchedule, make_schedule, nanoseconds
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import OnOffWorkload

MOST_PERIODS = 10_000_000


def on_off(
    spec: OnOffWorkload,
    topology: Topology,
    rng: np.random.Generator,
    horizon_s: float,
    *,
    mtu_bytes: int,
    header_bytes: int,
) -> FlowSchedule:
    """Draw flows of pairs that alternate independently between busy and silent periods.

    While busy, a pair starts flows of ``message_bytes`` at regular intervals, so that its messages, headers
    included, amount to ``rate_bps``. The rest of an interval at the end of a busy period counts in the next
    one, so the rate is exact in the long run. A pair is busy at the start with probability ``busy_fraction``.

    Raises:
        SysgymError: If there are too many periods or messages in an episode.
    """
    pairs = traffic_matrix(spec, topology, rng)
    n_packets = -(-spec.message_bytes // (mtu_bytes - header_bytes))
    gap_s = 8.0 * (spec.message_bytes + header_bytes * n_packets) / spec.rate_bps
    n_cycles = int(horizon_s / (spec.on_s + spec.off_s)) + 1
    expected = len(pairs) * spec.busy_fraction * horizon_s / gap_s
    if expected > MOST_FLOWS / 2 or len(pairs) * n_cycles > MOST_PERIODS:
        raise SysgymError(
            f"on_off: about {expected:.3g} messages in {len(pairs) * n_cycles} busy periods"
            f" in {horizon_s:g} s; at most {MOST_FLOWS // 2} messages in {MOST_PERIODS} periods are possible"
        )
    starts = [_message_starts_s(spec, rng, horizon_s, gap_s) for _ in pairs]
    of_pair = np.repeat(np.arange(len(pairs)), [len(times) for times in starts])
    start_s = np.concatenate([np.empty(0), *starts])
    return make_schedule(
        rng,
        pairs[of_pair, 0],
        pairs[of_pair, 1],
        size_bytes=spec.message_bytes,
        start_ns=np.minimum(np.rint(start_s * 1e9), max(nanoseconds(horizon_s) - 1, 0)).astype(np.int64),
    )


def draw_periods_s(
    spec: OnOffWorkload, rng: np.random.Generator, mean_s: float, n: int
) -> NDArray[np.float64]:
    """Draw ``n`` period lengths: exponential, or Pareto with the smallest length that gives the mean."""
    if spec.periods == "exponential":
        return rng.exponential(mean_s, n)
    least_s = mean_s * (spec.pareto_shape - 1.0) / spec.pareto_shape
    return least_s * (1.0 + rng.pareto(spec.pareto_shape, n))


def _message_starts_s(
    spec: OnOffWorkload, rng: np.random.Generator, horizon_s: float, gap_s: float
) -> NDArray[np.float64]:
    """Return the start times of one pair's messages before the horizon, ascending."""
    if horizon_s <= 0:
        return np.empty(0)
    busy_s, silent_s = np.empty(0), np.empty(0)
    if rng.random() < spec.busy_fraction:
        busy_s, silent_s = draw_periods_s(spec, rng, spec.on_s, 1), np.zeros(1)
    while (covered_s := float(busy_s.sum() + silent_s.sum())) < horizon_s:
        n = int((horizon_s - covered_s) / (spec.on_s + spec.off_s)) + 8
        silent_s = np.concatenate((silent_s, draw_periods_s(spec, rng, spec.off_s, n)))
        busy_s = np.concatenate((busy_s, draw_periods_s(spec, rng, spec.on_s, n)))
    # Messages are evenly spaced on a clock that runs while the pair is busy.
    busy_end_s = np.cumsum(busy_s)
    clock_s = np.arange(rng.random() * gap_s, min(float(busy_end_s[-1]), horizon_s), gap_s)
    period = np.searchsorted(busy_end_s, clock_s, side="right").clip(max=len(busy_end_s) - 1)
    start_s = clock_s + np.cumsum(silent_s)[period]
    return start_s[start_s < horizon_s]
