"""Open-loop traffic: flows arrive as a Poisson process, independently of the network's state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads.flow_sizes import FlowSizeDistribution, get_flow_sizes
from sysgym.emulator.packets.workloads.matrices import other_hosts, staggered_receivers, traffic_matrix
from sysgym.emulator.packets.workloads.schedule import MOST_FLOWS, FlowSchedule, make_schedule, nanoseconds
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import PoissonWorkload


def poisson(
    spec: PoissonWorkload,
    topology: Topology,
    rng: np.random.Generator,
    horizon_s: float,
    *,
    mtu_bytes: int,
    header_bytes: int,
) -> FlowSchedule:
    """Draw arrivals at every sending host, at a rate that offers ``load`` to its uplink.

    The load counts data packets on the wire, payload and headers, without ACKs and retransmissions: a host
    offers ``load`` times its line rate on average. Sizes are drawn independently. If ``destinations`` is a
    matrix, it is drawn once per episode. No flow arrives after ``last_arrival_s``, if given.

    Raises:
        SysgymError: If there are fewer than two hosts, or too many flows are expected.
    """
    if topology.n_hosts < 2:
        raise SysgymError(f"poisson: needs two hosts, the topology has {topology.n_hosts}")
    sizes = flow_sizes(spec)
    senders, receiver_of = np.arange(topology.n_hosts), None
    if spec.destinations in ("permutation", "hotspot", "stride"):
        pairs = traffic_matrix(spec, topology, rng)
        senders, receiver_of = pairs[:, 0], np.zeros(topology.n_hosts, dtype=np.int64)
        receiver_of[senders] = pairs[:, 1]
    if spec.last_arrival_s is not None:
        horizon_s = min(horizon_s, spec.last_arrival_s)
    line_rate_bps = topology.link_rate_bps[topology.host_uplink[senders]]
    per_bit = arrivals_per_bit(spec, mtu_bytes=mtu_bytes, header_bytes=header_bytes)
    expected = float(line_rate_bps.sum()) * per_bit * horizon_s
    if expected > MOST_FLOWS / 2:
        raise SysgymError(
            f"poisson: about {expected:.3g} flows in {horizon_s:g} s; at most {MOST_FLOWS // 2} are possible"
        )
    # Given their number, the arrivals of a Poisson process are independent and uniform, and so are their
    # hosts.
    n_flows = int(rng.poisson(expected))
    start_ns = rng.integers(0, max(nanoseconds(horizon_s), 1), size=n_flows)
    host_share = np.cumsum(line_rate_bps) / line_rate_bps.sum()
    src = senders[np.searchsorted(host_share, rng.random(n_flows), side="right").clip(max=len(senders) - 1)]
    if receiver_of is not None:
        dst = receiver_of[src]
    elif spec.destinations == "staggered":
        dst = staggered_receivers(spec, topology, rng, src)
    elif spec.destinations == "all_to_all":
        dst = _others_in_turn(topology.n_hosts, rng, src, start_ns)
    else:
        dst = other_hosts(rng, src, topology.n_hosts)
    return make_schedule(rng, src, dst, size_bytes=sizes.sample(rng, n_flows), start_ns=start_ns)


def _others_in_turn(
    n_hosts: int, rng: np.random.Generator, src: NDArray[np.int64], start_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return receivers: each host cycles through the others in its own order, which balances the pairs."""
    orders = np.argsort(rng.random((n_hosts, n_hosts - 1)), axis=1)
    by_host = np.lexsort((start_ns, src))
    n_flows_of = np.bincount(src, minlength=n_hosts)
    turn = np.empty(len(src), dtype=np.int64)
    turn[by_host] = np.arange(len(src)) - np.repeat(np.cumsum(n_flows_of) - n_flows_of, n_flows_of)
    other: NDArray[np.int64] = orders[src, turn % (n_hosts - 1)]
    return other + (other >= src)


def arrival_rate_per_s(
    spec: PoissonWorkload, topology: Topology, *, mtu_bytes: int, header_bytes: int
) -> float:
    """Return the mean number of flow arrivals per second in the whole network, if all hosts send."""
    line_rate_bps = topology.link_rate_bps[topology.host_uplink]
    return float(line_rate_bps.sum()) * arrivals_per_bit(spec, mtu_bytes=mtu_bytes, header_bytes=header_bytes)


def arrivals_per_bit(spec: PoissonWorkload, *, mtu_bytes: int, header_bytes: int) -> float:
    """Return the mean number of flow arrivals per bit that a host's line can carry."""
    sizes = flow_sizes(spec)
    wire_bytes = sizes.mean_bytes() + header_bytes * sizes.mean_packets(mtu_bytes - header_bytes)
    return spec.load / (8.0 * wire_bytes)


def flow_sizes(spec: PoissonWorkload) -> FlowSizeDistribution:
    """Return the distribution of flow sizes that the workload names."""
    if spec.flow_sizes != "fixed":
        return get_flow_sizes(spec.flow_sizes)
    if spec.fixed_bytes is None:
        raise SysgymError('poisson: flow_sizes = "fixed" needs fixed_bytes')
    return FlowSizeDistribution.fixed(spec.fixed_bytes)
