"""Networks of every kind, built from a scenario's ``[topology]`` table.

To add a kind, write a function from its table to a :class:`~.graph.Topology` and add a line to ``_BUILDERS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sysgym.emulator.packets.topology.graph import Cable, Topology
from sysgym.scenarios.errors import UnknownName
from sysgym.scenarios.schema.congestion.topology import (
    DumbbellTopology,
    FatTreeTopology,
    GraphTopology,
    LeafSpineTopology,
    ParkingLotTopology,
    SingleSwitchTopology,
    TopologyTable,
)


def _host_names(n_hosts: int) -> list[str]:
    return [f"h{host}" for host in range(n_hosts)]


def _dumbbell(spec: DumbbellTopology) -> Topology:
    """Build hosts 0 .. n - 1 on the switch ``west``, n .. 2n - 1 on ``east``; the last cable is the core."""
    per_side, n_hosts = spec.hosts_per_side, 2 * spec.hosts_per_side
    west, east = n_hosts, n_hosts + 1
    core_rate_bps = spec.link_rate_bps if spec.core_rate_bps is None else spec.core_rate_bps
    access = [
        Cable(host, west if host < per_side else east, spec.link_rate_bps, spec.link_delay_s)
        for host in range(n_hosts)
    ]
    return Topology.from_cables(
        spec.kind,
        host_names=_host_names(n_hosts),
        switch_names=("west", "east"),
        cables=[*access, Cable(west, east, core_rate_bps, spec.link_delay_s)],
        host_pod=[int(host >= per_side) for host in range(n_hosts)],
    )


def _single_switch(spec: SingleSwitchTopology) -> Topology:
    """Build all hosts on one switch, where only the links to receivers can be bottlenecks."""
    return Topology.from_cables(
        spec.kind,
        host_names=_host_names(spec.hosts),
        switch_names=("switch",),
        cables=[Cable(host, spec.hosts, spec.link_rate_bps, spec.link_delay_s) for host in range(spec.hosts)],
        host_pod=[0] * spec.hosts,
    )


def _fat_tree(spec: FatTreeTopology) -> Topology:
    """Build k pods of k/2 edge and k/2 aggregation switches, (k/2)**2 core switches, k**3/4 hosts.

    Aggregation switch ``j`` of every pod is connected to the cores ``j * k/2 .. (j + 1) * k/2 - 1``, so there
    are (k/2)**2 shortest paths between two pods, one per core (Al-Fares et al., SIGCOMM 2008, section 3.1).
    Nodes are in the order hosts, edge, aggregation, core, and within each by pod; cables host-edge,
    edge-aggregation, aggregation-core.
    """
    k, half = spec.k, spec.k // 2
    n_hosts = k * half * half
    first_edge = n_hosts
    first_aggregation = first_edge + k * half
    first_core = first_aggregation + k * half
    pairs = [(host, first_edge + host // half) for host in range(n_hosts)]
    for pod in range(k):
        for i in range(half):
            pairs += [(first_edge + pod * half + i, first_aggregation + pod * half + j) for j in range(half)]
    for pod in range(k):
        for j in range(half):
            pairs += [(first_aggregation + pod * half + j, first_core + j * half + c) for c in range(half)]
    in_pods = [(pod, i) for pod in range(k) for i in range(half)]
    return Topology.from_cables(
        spec.kind,
        host_names=_host_names(n_hosts),
        switch_names=[
            *(f"edge{pod}_{i}" for pod, i in in_pods),
            *(f"agg{pod}_{j}" for pod, j in in_pods),
            *(f"core{c}" for c in range(half * half)),
        ],
        cables=[Cable(end, other, spec.link_rate_bps, spec.link_delay_s) for end, other in pairs],
        host_pod=[host // (half * half) for host in range(n_hosts)],
    )


def _leaf_spine(spec: LeafSpineTopology) -> Topology:
    """Build leaves with their hosts, in order, each with one cable to every spine (a folded Clos network).

    Nodes are in the order hosts, leaves, spines; cables host-leaf, then leaf-spine by leaf. Between two
    leaves there are as many shortest paths as spines.
    """
    n_hosts, first_spine = spec.n_hosts, spec.n_hosts + spec.leaves
    access = [
        Cable(host, n_hosts + host // spec.hosts_per_leaf, spec.link_rate_bps, spec.link_delay_s)
        for host in range(n_hosts)
    ]
    uplinks = [
        Cable(n_hosts + leaf, first_spine + spine, spec.uplink_link_rate_bps, spec.link_delay_s)
        for leaf in range(spec.leaves)
        for spine in range(spec.spines)
    ]
    return Topology.from_cables(
        spec.kind,
        host_names=_host_names(n_hosts),
        switch_names=[
            *(f"leaf{leaf}" for leaf in range(spec.leaves)),
            *(f"spine{spine}" for spine in range(spec.spines)),
        ],
        cables=[*access, *uplinks],
        host_pod=[host // spec.hosts_per_leaf for host in range(n_hosts)],
    )


def _parking_lot(spec: ParkingLotTopology) -> Topology:
    """Build a row of switches: one long path from first to last, and one pair of hosts across each link.

    Host 0 sends from switch 0 to host n + 1 on switch n; host i = 1 .. n sends from switch i - 1 to host
    n + 1 + i on switch i. Cables: hosts in order, then the bottlenecks from first to last.
    """
    n = spec.bottlenecks
    n_hosts = spec.n_hosts
    place = [0, *range(n), n, *range(1, n + 1)]
    access = [
        Cable(host, n_hosts + switch, spec.link_rate_bps, spec.link_delay_s)
        for host, switch in enumerate(place)
    ]
    row = [Cable(n_hosts + i, n_hosts + i + 1, spec.core_link_rate_bps, spec.link_delay_s) for i in range(n)]
    return Topology.from_cables(
        spec.kind,
        host_names=_host_names(n_hosts),
        switch_names=[f"switch{i}" for i in range(n + 1)],
        cables=[*access, *row],
        host_pod=place,
    )


def _graph(spec: GraphTopology) -> Topology:
    """Build the switches and cables of the table; cables of hosts come first, in their order."""
    n_hosts = spec.n_hosts
    number = {name: place for place, name in enumerate(spec.switches)}
    access = [
        Cable(host, n_hosts + number[switch], spec.link_rate_bps, spec.link_delay_s)
        for host, switch in enumerate(spec.places)
    ]
    between = [
        Cable(
            n_hosts + number[cable.ends[0]],
            n_hosts + number[cable.ends[1]],
            spec.link_rate_bps if cable.rate_bps is None else cable.rate_bps,
            spec.link_delay_s if cable.delay_s is None else cable.delay_s,
        )
        for cable in spec.cables
    ]
    return Topology.from_cables(
        spec.kind,
        host_names=_host_names(n_hosts),
        switch_names=spec.switches,
        cables=[*access, *between],
        host_pod=[number[switch] for switch in spec.places],
    )


_BUILDERS: dict[str, Callable[[Any], Topology]] = {
    "dumbbell": _dumbbell,
    "single_switch": _single_switch,
    "fat_tree": _fat_tree,
    "leaf_spine": _leaf_spine,
    "parking_lot": _parking_lot,
    "graph": _graph,
}
"""Functions from the scenario's table to the topology, by kind."""


def build_topology(spec: TopologyTable) -> Topology:
    """Return the network that a scenario's ``[topology]`` table describes; the same table gives the same ids.

    Raises:
        UnknownName: If there is no topology of that kind.
        ScenarioError: If an override names a link that does not exist.
    """
    kind: str = spec.kind
    if kind not in _BUILDERS:
        raise UnknownName("topology", kind, _BUILDERS)
    topology = replace(_BUILDERS[kind](spec), shaped=spec.link_model == "shaper")
    return topology.with_overrides(spec.overrides)
