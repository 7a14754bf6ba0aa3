"""Open-loop traffic: flows arrive as a Poisson process, whether or not the network keeps up."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads.flow_sizes import FlowSizeDistribution, get_flow_sizes
from sysgym.emulator.packets.workloads.matrices import other_hosts
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
    """Arrivals at every host at a rate that offers its uplink ``load``, each to any other host.

    The load counts data packets as on the wire, payload and headers, without ACKs and retransmissions: a host
    offers on average ``load`` times its line rate. Sizes are independent draws from the distribution.

    Raises:
        SysgymError: If there are fewer than two hosts, or too many flows are expected.
    """
    if topology.n_hosts < 2:
        raise SysgymError(f"poisson: needs two hosts, the topology has {topology.n_hosts}")
    sizes = flow_sizes(spec)
    line_rate_bps = topology.link_rate_bps[topology.host_uplink]
    expected = arrival_rate_per_s(spec, topology, mtu_bytes=mtu_bytes, header_bytes=header_bytes) * horizon_s
    if expected > MOST_FLOWS / 2:
        raise SysgymError(
            f"poisson: about {expected:.3g} flows in {horizon_s:g} s; at most {MOST_FLOWS // 2} are possible"
        )
    # Given their number, the arrivals of a Poisson process are independent and uniform; so are the hosts they
    # belong to.
    n_flows = int(rng.poisson(expected))
    start_ns = rng.integers(0, max(nanoseconds(horizon_s), 1), size=n_flows)
    host_share = np.cumsum(line_rate_bps) / line_rate_bps.sum()
    src = np.searchsorted(host_share, rng.random(n_flows), side="right").clip(max=topology.n_hosts - 1)
    dst = other_hosts(rng, src, topology.n_hosts)
    return make_schedule(rng, src, dst, size_bytes=sizes.sample(rng, n_flows), start_ns=start_ns)


def arrival_rate_per_s(
    spec: PoissonWorkload, topology: Topology, *, mtu_bytes: int, header_bytes: int
) -> float:
    """Flows that arrive in a second in the whole network, on average."""
    sizes = flow_sizes(spec)
    wire_bytes = sizes.mean_bytes() + header_bytes * sizes.mean_packets(mtu_bytes - header_bytes)
    return float(spec.load * topology.link_rate_bps[topology.host_uplink].sum() / (8.0 * wire_bytes))


def flow_sizes(spec: PoissonWorkload) -> FlowSizeDistribution:
    """The distribution of flow sizes that the workload names."""
    if spec.flow_sizes != "fixed":
        return get_flow_sizes(spec.flow_sizes)
    if spec.fixed_bytes is None:
        raise SysgymError('poisson: flow_sizes = "fixed" needs fixed_bytes')
    return FlowSizeDistribution.fixed(spec.fixed_bytes)
