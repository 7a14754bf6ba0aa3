"""Completion times of flows that share all links fairly at every moment: a reference without packets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.envs.congestion.datacenter.fair_rates import LoadedLinks
from sysgym.envs.congestion.datacenter.measurement import Fabric
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion.offered import wire_bytes

FloatArray = NDArray[np.float64]


def fair_slowdowns(network: Network, fabric: Fabric) -> FloatArray:
    """Return the slowdowns of an episode's flows if all that are active always had max-min fair rates.

    Rates change at once when a flow begins or ends, links are always used in full, and no packet waits in a
    queue. What a flow needs beyond that, the time of a lone flow on an empty network less that of its bytes
    on its slowest link, is added. A transport under which flows of some size wait less favours them over
    others. Links do not fail here, and lose nothing.

    Args:
        network: Network of the episode, after its reset.
        fabric: Its constants.

    Returns:
        Slowdowns, shape (n_flows,); see
        :func:`~sysgym.envs.congestion.datacenter.metrics.fct_slowdowns`.

    Raises:
        SysgymError: If flows wait for others or never end.
    """
    schedule, flows = network.schedule, network.flows()
    if (schedule.size_bytes < 0).any() or schedule.needs.any():
        raise SysgymError(
            f"{network.scenario.name}: flows never end or wait for others; expected flows of given sizes that"
            " begin at given times, as kind poisson has"
        )
    links, transport = LoadedLinks(network, fabric), network.scenario.transport
    capacity_bps = np.asarray(network.link_rate_bps, np.float64)
    line_bps = np.array([capacity_bps[path[path >= 0]].min() for path in links.data_links])
    left_bits: FloatArray = np.array([8.0 * wire_bytes(int(size), transport) for size in schedule.size_bytes])
    own_s = flows.ideal_fct_s - left_bits / line_bps
    start_s: FloatArray = schedule.start_ns * np.float64(1e-9)
    shared_s = _completion_times_s(start_s, left_bits, links, capacity_bps)
    slowdowns: FloatArray = (shared_s + own_s) / flows.ideal_fct_s
    return slowdowns


def _completion_times_s(
    start_s: FloatArray, left_bits: FloatArray, links: LoadedLinks, capacity_bps: FloatArray
) -> FloatArray:
    """Return the time from each flow's start to its last bit, at fair rates."""
    left_bits, order = left_bits.copy(), np.argsort(start_s, kind="stable")
    end_s, active, now_s, n_begun = np.zeros(len(start_s)), order[:0], 0.0, 0
    while n_begun < len(order) or len(active):
        rates_bps = links.flow_load(active).fair_rates_bps(capacity_bps)
        until_end_s = left_bits[active] / rates_bps
        next_start_s = start_s[order[n_begun]] if n_begun < len(order) else np.inf
        step_s = min(until_end_s.min(initial=np.inf), next_start_s - now_s)
        left_bits[active] -= rates_bps * step_s
        now_s += step_s
        ends = until_end_s <= step_s
        end_s[active[ends]] = now_s
        active = active[~ends]
        if now_s >= next_start_s or not ends.any():
            now_s = next_start_s
            active = np.append(active, order[n_begun])
            n_begun += 1
    return end_s - start_s
