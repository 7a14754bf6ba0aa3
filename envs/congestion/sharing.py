"""Measurement of how the flows of two congestion control laws share a network."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.requirements import check_requirements
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.workloads import scenario_flows
from sysgym.envs.congestion.backends import PACKETS, network_on
from sysgym.envs.congestion.datacenter.rewards import jain_index
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import SysgymError

WINDOWS = 100
"""Number of parts of an episode whose goodput is measured."""

CONVERGED = 0.95
"""Least Jain's index of the goodputs in a window at which flows count as converged."""


class Sharing(NamedTuple):
    """Metrics of an episode in which two laws share a network.

    Attributes:
        share: Mean goodput of the first law's flows over that of all flows, in the second half; 1 is fair.
        jain_index: Jain's index of all flows' goodputs, in the second half.
        converged_s: Time from the last flow's start until Jain's index of each hundredth of the episode
            remains at least 0.95; None: never.
        queue_mean_bytes: Mean queue of the port with the largest mean queue, in the second half.
        goodput_bps: Goodput of all flows together, in the second half.
    """

    share: float
    jain_index: float
    converged_s: float | None
    queue_mean_bytes: float
    goodput_bps: float


class Together(NamedTuple):
    """Measurements of an episode with flows of two laws.

    Attributes:
        goodput_bps: Goodput of each flow in each hundredth of the episode, shape (100, n_flows).
        queue_mean_bytes: Mean queue of the port with the largest mean queue, in the second half.
        drop_fraction: Packets dropped as a fraction of packets sent by hosts, in the second half.
        last_start_s: Start of the last flow.
    """

    goodput_bps: NDArray[np.float64]
    queue_mean_bytes: float
    drop_fraction: float
    last_start_s: float

    @property
    def settled_bps(self) -> NDArray[np.float64]:
        """Goodput of each flow in the second half, shape (n_flows,)."""
        settled: NDArray[np.float64] = self.goodput_bps[WINDOWS // 2 :].mean(axis=0)
        return settled


def measure_sharing(
    scenario: CongestionScenario,
    first: Transport,
    second: Transport,
    duration_s: float,
    seed: int,
    *,
    backend: str = PACKETS,
) -> Sharing:
    """Run both laws on alternate flows and return the metrics of the episode.

    Args:
        scenario: Scenario with long-lived flows.
        first: Law of half of the flows.
        second: Law of the other half.
        duration_s: Length of the episode.
        seed: Seed of the flows' start times; an odd seed exchanges the halves.
        backend: ``"packets"``, the simulator, or ``"linux"``, the kernel.

    Raises:
        SysgymError: If no flow delivers anything in the second half of the episode.
    """
    is_first = _of_first(flow_count(scenario), seed)
    together = play_together(scenario, first, second, duration_s, seed, backend=backend)
    settled = together.settled_bps
    return Sharing(
        share=min(float(settled[is_first].mean() / settled.mean()), 2.0),  # not above it by rounding
        jain_index=jain_index(settled),
        converged_s=_converged_s(together.goodput_bps, duration_s, together.last_start_s),
        queue_mean_bytes=together.queue_mean_bytes,
        goodput_bps=float(settled.sum()),
    )


def play_together(
    scenario: CongestionScenario,
    first: Transport,
    second: Transport,
    duration_s: float,
    seed: int,
    *,
    backend: str = PACKETS,
) -> Together:
    """Run both laws on alternate flows and return the measurements; see :func:`measure_sharing`.

    Raises:
        SysgymError: If no flow delivers anything in the second half of the episode.
    """
    n_flows = flow_count(scenario)
    is_first = _of_first(n_flows, seed)
    common, other = common_first(scenario, first, second)
    flows = np.flatnonzero(is_first if other is first else ~is_first)
    own = {} if first == second else {int(flow): other for flow in flows}
    delivered_bytes = np.zeros((WINDOWS + 1, n_flows))
    with closing(network_on(backend, scenario, common, own)) as network:
        network.reset(seed)
        queue_byte_s = np.zeros((WINDOWS + 1, network.n_links))
        dropped, sent = np.zeros(WINDOWS + 1), np.zeros(WINDOWS + 1)
        for window in range(1, WINDOWS + 1):
            network.advance(duration_s * window / WINDOWS - network.now_s)
            delivered_bytes[window] = network.flows().delivered_bytes
            ports = network.ports()
            queue_byte_s[window] = ports.queue_byte_s
            dropped[window], sent[window] = ports.dropped_packets.sum(), network.hosts().sent_packets.sum()
        last_start_s = float(network.flows().start_s.max())
    goodput = np.diff(delivered_bytes, axis=0) * 8.0 * WINDOWS / duration_s
    half = WINDOWS // 2
    if not goodput[half:].any():
        raise SysgymError(
            f"{scenario.name}: no flow delivered anything in the second half of {duration_s:g} s; expected a"
            " longer episode, in which flows have begun"
        )
    return Together(
        goodput_bps=goodput,
        queue_mean_bytes=float((queue_byte_s[-1] - queue_byte_s[half]).max()) * 2.0 / duration_s,
        drop_fraction=float((dropped[-1] - dropped[half]) / max(sent[-1] - sent[half], 1.0)),
        last_start_s=last_start_s,
    )


def common_first(
    scenario: CongestionScenario, first: Transport, second: Transport
) -> tuple[Transport, Transport]:
    """Return the common law of a network and the law of some of its flows, from two laws.

    A network has only the timers, the telemetry and the notifications of its common law.

    Raises:
        SysgymError: If each of the two laws needs something that the other lacks.
    """
    try:
        check_requirements(scenario, first, [second])
    except SysgymError:
        check_requirements(scenario, second, [first])
        return second, first
    return first, second


def flow_count(scenario: CongestionScenario) -> int:
    """Return the number of flows of a scenario."""
    drawn = scenario_flows(scenario, build_topology(scenario.topology), np.random.default_rng(0))
    return len(drawn.size_bytes)


def _of_first(n_flows: int, seed: int) -> NDArray[np.bool_]:
    is_first: NDArray[np.bool_] = (np.arange(n_flows) + seed) % 2 == 0
    return is_first


def _converged_s(goodput: NDArray[np.float64], duration_s: float, started_s: float) -> float | None:
    fair = np.array([jain_index(window) >= CONVERGED for window in goodput])
    unfair = np.flatnonzero(~fair)
    begin = int(unfair[-1]) + 1 if len(unfair) else 0
    return max(duration_s * begin / len(fair) - started_s, 0.0) if begin < len(fair) else None
