"""Named topologies: rings, grids, hypercubes, DGX-1, nodes with NICs, rails, leaf-spine fabrics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from sysgym.emulator.collectives.network import Link, Network
from sysgym.scenarios.schema.collectives import SystemLinks, parse_topology

DGX1_DOUBLE = ((0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7))
"""Pairs of GPUs of a DGX-1 V100 (and NDv2) that share two NVLinks (msccl-tools, TACCL)."""

DGX1_SINGLE = ((0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6))
"""Pairs that share one NVLink."""

Cable = tuple[int, int, float, float]
"""Two vertices, bandwidth in bytes/s and latency in s, both in each direction."""


def named_network(system: SystemLinks) -> Network:
    """Return the network of a named topology; the schema has checked the name and the values."""
    parsed = parse_topology(system.topology)
    assert parsed is not None
    switches, cables = _GENERATORS[parsed.kind](parsed.sizes, system)
    devices = [f"device {index}" for index in range(parsed.n_devices)]
    return network_of(system.topology, devices, switches, cables)


def network_of(
    name: str, devices: Sequence[str], switches: Sequence[str], cables: Sequence[Cable]
) -> Network:
    """Return a network of cables, each of which is a link in both directions."""
    links = [
        Link(source, target, bandwidth, latency)
        for one, other, bandwidth, latency in cables
        for source, target in ((one, other), (other, one))
    ]
    return Network(name, (*devices, *switches), len(devices), tuple(links))


def grid_cables(
    sizes: Sequence[int], wraps: bool, bandwidth_bytes_per_s: float, latency_s: float
) -> Iterator[Cable]:
    """Yield the cables of a mesh, or of a torus if it wraps; the last dimension varies fastest."""
    for at in itertools.product(*map(range, sizes)):
        for axis, size in enumerate(sizes):
            # Two devices that are neighbours on both sides are joined by one cable, not two.
            beyond = at[axis] + 1
            if beyond == size and not (wraps and size > 2):
                continue
            other = (*at[:axis], beyond % size, *at[axis + 1 :])
            yield device_at(at, sizes), device_at(other, sizes), bandwidth_bytes_per_s, latency_s


def device_at(at: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the index of the device at a position of a grid."""
    index = 0
    for place, size in zip(at, sizes, strict=True):
        index = index * size + place
    return index


def nic_cables(
    nodes: int, devices: int, nics: int, first_switch: int, bandwidth_bytes_per_s: float, latency_s: float
) -> tuple[list[str], list[Cable]]:
    """Return NICs, each with a block of the devices of its node, and a switch that joins all NICs.

    The NIC is a vertex behind which its devices also reach each other, as behind a PCIe switch.

    Args:
        nodes: Number of nodes.
        devices: Devices of a node.
        nics: NICs of a node.
        first_switch: Index of the first new vertex.
        bandwidth_bytes_per_s: Of a NIC, and of a device's way to it.
        latency_s: From device to device over two NICs.
    """
    names = [f"nic {node}.{nic}" for node in range(nodes) for nic in range(nics)] + ["fabric"]
    fabric = first_switch + nodes * nics
    block = devices // nics
    cables: list[Cable] = []
    for node in range(nodes):
        for place in range(devices):
            nic = first_switch + node * nics + place // block
            cables.append((node * devices + place, nic, bandwidth_bytes_per_s, latency_s / 4))
        for nic in range(first_switch + node * nics, first_switch + (node + 1) * nics):
            cables.append((nic, fabric, bandwidth_bytes_per_s, latency_s / 4))
    return names, cables


def dgx1_cables(
    nodes: int, single_bytes_per_s: float, double_bytes_per_s: float, latency_s: float
) -> Iterator[Cable]:
    """Yield the NVLinks of nodes of eight devices: the hybrid cube mesh of a DGX-1 V100."""
    for first in range(0, 8 * nodes, 8):
        for pairs, bandwidth in ((DGX1_DOUBLE, double_bytes_per_s), (DGX1_SINGLE, single_bytes_per_s)):
            yield from ((first + one, first + other, bandwidth, latency_s) for one, other in pairs)


Parts = tuple[list[str], list[Cable]]
"""Names of the switches, and cables."""


def _ring(sizes: tuple[int, ...], system: SystemLinks) -> Parts:
    return [], list(grid_cables(sizes, True, system.bandwidth_bytes_per_s, system.latency_s))


def _mesh(sizes: tuple[int, ...], system: SystemLinks) -> Parts:
    return [], list(grid_cables(sizes, False, system.bandwidth_bytes_per_s, system.latency_s))


def _fully_connected(sizes: tuple[int, ...], system: SystemLinks) -> Parts:
    pairs = itertools.combinations(range(sizes[0]), 2)
    return [], [(*pair, system.bandwidth_bytes_per_s, system.latency_s) for pair in pairs]


def _hypercube(sizes: tuple[int, ...], system: SystemLinks) -> Parts:
    (n,) = sizes
    bits = [1 << bit for bit in range(n.bit_length() - 1)]
    pairs = [(one, one | bit) for one in range(n) for bit in bits if not one & bit]
    return [], [(*pair, system.bandwidth_bytes_per_s, system.latency_s) for pair in pairs]


def _dgx1(sizes: tuple[int, ...], system: SystemLinks) -> Parts:
    (nodes,) = sizes
    link = system.bandwidth_bytes_per_s
    cables = list(dgx1_cables(nodes, link, 2 * link, system.latency_s))
    if nodes == 1:
        return [], cables
    return _joined(nodes, 8, system, [], cables)


def _nodes(sizes: tuple[int, ...], system: SystemLinks) -> Parts:
    nodes, devices = sizes
    n = nodes * devices
    switches = [f"nvswitch {node}" for node in range(nodes)]
    port = (system.bandwidth_bytes_per_s, system.latency_s / 2)
    cables: list[Cable] = [(device, n + device // devices, *port) for device in range(n)]
    if nodes == 1:
        return switches, cables
    return _joined(nodes, devices, system, switches, cables)


def _joined(nodes: int, devices: int, system: SystemLinks, switches: list[str], cables: list[Cable]) -> Parts:
    uplink = (system.uplink_bandwidth_bytes_per_s, system.uplink_latency_s)
    first = nodes * devices + len(switches)
    names, more = nic_cables(nodes, devices, system.nics, first, *uplink)
    return switches + names, cables + more


def _rails(sizes: tuple[int, ...], system: SystemLinks) -> Parts:
    nodes, devices = sizes
    n = nodes * devices
    switches = [f"nvswitch {node}" for node in range(nodes)] + [f"rail {rail}" for rail in range(devices)]
    port = (system.bandwidth_bytes_per_s, system.latency_s / 2)
    uplink = (system.uplink_bandwidth_bytes_per_s, system.uplink_latency_s / 2)
    cables: list[Cable] = [(device, n + device // devices, *port) for device in range(n)]
    cables += [(device, n + nodes + device % devices, *uplink) for device in range(n)]
    return switches, cables


def _leaf_spine(sizes: tuple[int, ...], system: SystemLinks) -> Parts:
    leaves, devices, spines = sizes
    n = leaves * devices
    switches = [f"leaf {leaf}" for leaf in range(leaves)] + [f"spine {spine}" for spine in range(spines)]
    port_latency_s = system.latency_s / 2
    # The way over a spine takes two ports of devices and two uplinks.
    uplink_latency_s = max(system.uplink_latency_s / 2 - port_latency_s, 0.0)
    cables: list[Cable] = [
        (device, n + device // devices, system.bandwidth_bytes_per_s, port_latency_s) for device in range(n)
    ]
    cables += [
        (n + leaf, n + leaves + spine, system.uplink_bandwidth_bytes_per_s, uplink_latency_s)
        for leaf in range(leaves)
        for spine in range(spines)
    ]
    return switches, cables


_GENERATORS: dict[str, Callable[[tuple[int, ...], SystemLinks], Parts]] = {
    "ring": _ring,
    "fully-connected": _fully_connected,
    "hypercube": _hypercube,
    "torus": _ring,
    "mesh": _mesh,
    "dgx1": _dgx1,
    "nodes": _nodes,
    "rails": _rails,
    "leaf-spine": _leaf_spine,
}
