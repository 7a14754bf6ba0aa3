"""Times that no schedule can be under: by what must leave an instance, by rounds, and ForestColl's cuts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, get_args

from sysgym.emulator.accelerators.cost.algorithms import ALL_TO_ALL, ceil_log2, check_ranks
from sysgym.emulator.accelerators.cost.nccl import bus_factor
from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import Matrix, check_matrix, reduction_factors
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.scenarios.errors import SysgymError, UnknownName

NicAt = Literal["device", "node"]
NIC_AT: tuple[NicAt, ...] = get_args(NicAt)


def collective_bound_s(
    collective: str, n: int, size_bytes: float, bandwidth_bytes_per_s: float, latency_s: float = 0.0
) -> float:
    """Return the least time of a collective among n ranks that are all alike.

    Some rank must send (n-1)/n of the vector, twice that for an all-reduce, all of it for Reduce and
    Broadcast; and what one rank knows reaches at most twice as many in a round.

    Args:
        collective: ``AR``, ``RS``, ``AG``, ``R``, ``B`` or ``A2A``.
        n: Ranks, at least 1.
        size_bytes: Of the full vector.
        bandwidth_bytes_per_s: Of each rank and direction.
        latency_s: Of a round.

    Raises:
        UnknownName: There is no such collective.
        SysgymError: There are no ranks.
    """
    factor = bus_factor(collective, n)
    if n == 1:
        return 0.0
    rounds = 1 if collective == ALL_TO_ALL else ceil_log2(n)
    return max(factor * size_bytes / bandwidth_bytes_per_s, rounds * latency_s)


def reduction_bound_s(hierarchy: Hierarchy, matrix: Matrix, reduction: Reduction) -> float:
    """Return the least time of a reduction under a placement, whatever the program.

    An all-reduce over a instances of a level makes one of them send 2 (a-1)/a of the vector for each of the
    groups that share it, through all of its uplinks. Rounds: as many as the doublings that reach all members,
    at least one of them at the outermost level of a group. From a ring's instance a group that spans the
    ring's parent may also leave by the uplinks further out; they count as its own.

    Args:
        hierarchy: The devices and their links.
        matrix: The placement.
        reduction: Axes and size.

    Raises:
        ScenarioError: The matrix or the axes do not fit.
    """
    check_matrix(matrix, hierarchy.cardinalities, [math.prod(row) for row in matrix])
    factors = dict(reduction_factors(matrix, reduction.axes))
    if not factors:
        return 0.0
    n, outermost = math.prod(factors.values()), min(factors)
    inner_latency_s = min(hierarchy.levels[level].latency_s for level in factors)
    latency_s = hierarchy.levels[outermost].latency_s + (ceil_log2(n) - 1) * inner_latency_s
    bound_s, inside = latency_s, 1
    for level in reversed(range(outermost, hierarchy.n_levels)):
        instances = n // inside
        sharing = hierarchy.devices_inside(level) // inside
        sent_bytes = sharing * 2.0 * (instances - 1) / instances * reduction.size_bytes
        bound_s = max(bound_s, sent_bytes / _capacity_bytes_per_s(hierarchy, level, outermost))
        inside *= factors.get(level, 1)
    return bound_s


def all_gather_bound_s(hierarchy: Hierarchy, size_bytes: float) -> float:
    """Return the least time of an all-gather, or a reduce-scatter, among all devices.

    An instance with d of the n devices must receive what the others have, (n-d)/n of the vector.

    Args:
        hierarchy: The devices and their links.
        size_bytes: Of the full vector.
    """
    bound_s = 0.0
    for level, capacity in _capacities(hierarchy):
        share = hierarchy.devices_inside(level) / hierarchy.n_devices
        bound_s = max(bound_s, (1.0 - share) * size_bytes / capacity)
    return bound_s


def all_to_all_bound_s(hierarchy: Hierarchy, size_bytes: float) -> float:
    """Return the least time of an all-to-all among all devices.

    Each of an instance's d devices sends (n-d)/n of what it has to send out of the instance.

    Args:
        hierarchy: The devices and their links.
        size_bytes: Of what each device has to send, its own part included.
    """
    bound_s = 0.0
    for level, capacity in _capacities(hierarchy):
        inside = hierarchy.devices_inside(level)
        bound_s = max(bound_s, inside * (1.0 - inside / hierarchy.n_devices) * size_bytes / capacity)
    return bound_s


def forestcoll_bytes_per_s(
    nodes: int,
    devices: int,
    *,
    device_bytes_per_s: float,
    nic_bytes_per_s: float,
    nic_at: NicAt,
) -> float:
    """Return the most bytes per second that an all-gather can reach, by ForestColl's cut bound.

    The vector's size over its time is at most the number of devices over the maximum, over sets of vertices
    that do not hold all devices, of the devices in the set over the bandwidth that leaves it (ForestColl,
    arXiv:2402.06787). The vertices are devices, a switch in each node and one between nodes; sets may hold
    switches. Only one node need be held in part: another one adds bandwidth and takes devices away. A
    reduce-scatter is as fast; an all-reduce made of both takes twice the time.

    Args:
        nodes: At least 1.
        devices: In each node, at least 1.
        device_bytes_per_s: Between a device and its node's switch, each direction.
        nic_bytes_per_s: Of a NIC, each direction.
        nic_at: ``device``, each device has a NIC; ``node``, the node's switch has one.

    Raises:
        UnknownName: There is no such place of NICs.
        SysgymError: There are no nodes or devices, or only one device.
    """
    if nic_at not in NIC_AT:
        raise UnknownName("place of a NIC", nic_at, NIC_AT)
    check_ranks(nodes)
    check_ranks(devices)
    n = nodes * devices
    if n == 1:
        raise SysgymError("an all-gather of one device sends nothing; its bandwidth has no bound")
    most_devices_per_bandwidth = 0.0
    for held in range(devices + 1):
        for switch_held in (False, True):
            for network_held in (False, True):
                leaving = (devices - held if switch_held else held) * device_bytes_per_s
                if nodes > 1:
                    holders, owners = (held, devices) if nic_at == "device" else (int(switch_held), 1)
                    # A NIC's link is cut from the side that is held to the one that is not.
                    leaving += (owners - holders if network_held else holders) * nic_bytes_per_s
                # All other nodes are held whole, which costs nothing with the network held too.
                count = held + ((nodes - 1) * devices if network_held else 0)
                # Without the network other nodes may be left out; all devices may not be held.
                if count < n and leaving > 0.0:
                    most_devices_per_bandwidth = max(most_devices_per_bandwidth, count / leaving)
    return n / most_devices_per_bandwidth


def _capacities(hierarchy: Hierarchy) -> Iterator[tuple[int, float]]:
    """Yield the levels out of whose instances a collective of all devices must send, and their capacity."""
    spread = [level for level, size in enumerate(hierarchy.cardinalities) if size > 1]
    for level in range(min(spread, default=hierarchy.n_levels), hierarchy.n_levels):
        yield level, _capacity_bytes_per_s(hierarchy, level, spread[0])


def _capacity_bytes_per_s(hierarchy: Hierarchy, level: int, outermost: int) -> float:
    """Return what the uplinks of an instance can send together, to siblings and further out."""
    capacity = 0.0
    for further in range(level, outermost - 1, -1):
        uplinks = hierarchy.levels[further]
        capacity += uplinks.uplinks * uplinks.bandwidth_bytes_per_s
        if uplinks.network == "switch":
            break
    return capacity
