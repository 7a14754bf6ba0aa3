"""Links of a hierarchy and the paths through them.

Every instance of a level has ``uplinks`` uplinks. In a switch each is two directed links, out and in. In a
ring each is two directed links with half its bandwidth, one to the next sibling and one to the previous one;
uplinks with the same number form a separate ring.

A transfer goes out through the uplinks of every instance that contains its sender but not its receiver,
crosses the network that joins the last of them with its sibling, and comes in the same way. At each level it
is spread over the uplinks to which the members of its group inside the instance are assigned, an equal part
for each member, as with a channel of NCCL for each; between two devices alone these are their own uplinks. If
all groups send as much, all uplinks of an instance are therefore equally full. Around a ring a transfer takes
the shorter direction; if both are equally long, half goes each way. A ring has no hub: traffic to levels
further out leaves it at the device and does not use its links. All of this is our convention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysgym.emulator.accelerators.flows.tables import FloatArray, IntArray, Paths
from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.compiling import cached_kernel
from sysgym.scenarios.errors import SysgymError

_DIRECTIONS = 2


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """The directed links of a hierarchy.

    The links of a level follow those of the levels further out. Within a level they are numbered by instance,
    uplink and direction: 0 is out of the instance (switch) or to its next sibling (ring), 1 the opposite.

    Attributes:
        hierarchy: The devices.
    """

    hierarchy: Hierarchy

    @property
    def n_links(self) -> int:
        """Number of directed links."""
        return int(self.first_link[-1])

    @cached_property
    def first_link(self) -> NDArray[np.int64]:
        """First link of each level, and the total number of links, int64 [n_levels + 1]."""
        counts = np.cumprod(self.hierarchy.cardinalities, dtype=np.int64)
        counts *= [_DIRECTIONS * level.uplinks for level in self.hierarchy.levels]
        return np.concatenate(([0], np.cumsum(counts)))

    @cached_property
    def bandwidth_bytes_per_s(self) -> FloatArray:
        """Bandwidth of each directed link, float64 [n_links]."""
        each = [
            level.bandwidth_bytes_per_s / (2 if level.network == "ring" else 1)
            for level in self.hierarchy.levels
        ]
        return np.repeat(each, np.diff(self.first_link))

    def link_level(self, link: int) -> int:
        """Return the level whose network a link belongs to.

        Raises:
            SysgymError: There is no such link.
        """
        if not 0 <= link < self.n_links:
            raise SysgymError(f"link {link}: {self.hierarchy.name} has the links 0 to {self.n_links - 1}")
        return int(np.searchsorted(self.first_link, link, side="right")) - 1

    def link_name(self, link: int) -> str:
        """Return a link in words: ``node 1, uplink 0, out``; levels of one instance are left out.

        Raises:
            SysgymError: There is no such link.
        """
        index = self.link_level(link)
        level = self.hierarchy.levels[index]
        place, direction = divmod(link - int(self.first_link[index]), _DIRECTIONS)
        instance, uplink = divmod(place, level.uplinks)
        words = []
        for outer in range(index + 1):
            name, cardinality = self.hierarchy.levels[outer].name, self.hierarchy.cardinalities[outer]
            inside = math.prod(self.hierarchy.cardinalities[outer + 1 : index + 1])
            if cardinality > 1 or outer == index:
                words.append(f"{name} {instance // inside % cardinality}")
        if level.uplinks > 1:
            words.append(f"uplink {uplink}")
        names = ("to the next", "to the one before") if level.network == "ring" else ("out", "in")
        return ", ".join([*words, names[direction]])

    def route(self, source: int, target: int) -> IntArray:
        """Return the links between two devices alone, int32; both directions of a ring if equally long.

        Raises:
            SysgymError: A device does not exist.
        """
        return self.paths([source], [target], [[source, target]], [0]).links_of(0)

    def paths(self, source: ArrayLike, target: ArrayLike, groups: ArrayLike, group_of: ArrayLike) -> Paths:
        """Return the paths of transfers between members of groups.

        Args:
            source: Sending device of each path, [n_paths].
            target: Receiving device of each path, [n_paths]; a path to itself has no links.
            groups: Devices of each group, [n_groups, size].
            group_of: Group of each path, [n_paths], over whose uplinks it is spread.

        Raises:
            SysgymError: A device or a group does not exist.
        """
        members = np.ascontiguousarray(groups, np.int32)
        ends = np.ascontiguousarray(np.broadcast_arrays(source, target, group_of), np.int32)
        for what, index, size in (
            ("device", members, self.hierarchy.n_devices),
            ("device", ends[:2], self.hierarchy.n_devices),
            ("group", ends[2], len(members)),
        ):
            if index.size and not 0 <= int(index.min()) <= int(index.max()) < size:
                raise SysgymError(f"{what}s from {index.min()} to {index.max()}; there are {size}")
        levels = self.hierarchy.levels
        inside = [self.hierarchy.devices_inside(level) for level in range(len(levels))]
        first, link, share = _paths(
            ends[0],
            ends[1],
            ends[2],
            members,
            np.array(self.hierarchy.cardinalities, np.int64),
            np.array(inside, np.int64),
            np.array([level.uplinks for level in levels], np.int64),
            np.array([level.network == "ring" for level in levels]),
            self.first_link,
        )
        return Paths(first, link, share)

    def latency_s(self, source: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return the latency of transfers: that of the outermost level they cross, 0 to the device itself.

        Args:
            source: Sending devices, [n].
            target: Receiving devices, [n].
        """
        crossed = self.outermost_level(source, target)
        latency = [level.latency_s for level in self.hierarchy.levels]
        return np.array([*latency, 0.0], np.float64)[crossed]

    def outermost_level(self, source: ArrayLike, target: ArrayLike) -> NDArray[np.int64]:
        """Return the outermost level in which devices differ, int64 [n]; n_levels if they do not.

        Args:
            source: Devices, [n].
            target: Devices, [n].
        """
        sources, targets = np.asarray(source), np.asarray(target)
        crossed = np.full(np.broadcast(sources, targets).shape, self.hierarchy.n_levels, np.int64)
        for level in reversed(range(self.hierarchy.n_levels)):
            inside = self.hierarchy.devices_inside(level)
            crossed[sources // inside != targets // inside] = level
        return crossed


@cached_kernel()
def _append(
    links: IntArray, shares: FloatArray, size: int, link: int, share: float
) -> tuple[IntArray, FloatArray, int]:
    if size == len(links):
        links = np.concatenate((links, np.empty_like(links)))
        shares = np.concatenate((shares, np.empty_like(shares)))
    links[size] = link
    shares[size] = share
    return links, shares, size + 1


@cached_kernel()
def _tied(
    members: IntArray,
    instance: int,
    inside: int,
    uplinks: int,
    found: NDArray[np.int64],
    part: NDArray[np.float64],
) -> int:
    """Write the uplinks of an instance that members inside are tied to, and their parts; return how many.

    An uplink's part is the share of these members that are tied to it.
    """
    n_found, n_members = 0, 0
    for member in members:
        if member // inside == instance:
            uplink = member % inside * uplinks // inside
            n_members += 1
            at = 0
            while at < n_found and found[at] != uplink:
                at += 1
            if at == n_found:
                found[at], part[at] = uplink, 0.0
                n_found += 1
            part[at] += 1.0
    part[:n_found] /= n_members
    return n_found


@cached_kernel()
def _paths(
    source: IntArray,
    target: IntArray,
    group_of: IntArray,
    groups: IntArray,
    cardinality: NDArray[np.int64],
    inside: NDArray[np.int64],
    uplinks: NDArray[np.int64],
    ring: NDArray[np.bool_],
    first_link: NDArray[np.int64],
) -> tuple[NDArray[np.int64], IntArray, FloatArray]:
    n_paths, n_levels = len(source), len(cardinality)
    first = np.zeros(n_paths + 1, np.int64)
    links, shares, size = np.empty(4 * n_paths + 4, np.int32), np.empty(4 * n_paths + 4), 0
    found = np.empty(max(uplinks.max(), 1), np.int64)
    part = np.empty(len(found))
    for p in range(n_paths):
        members = groups[group_of[p]]
        outermost = n_levels
        for level in range(n_levels - 1, -1, -1):
            if source[p] // inside[level] != target[p] // inside[level]:
                outermost = level
        # Out through the levels inside, across, and in through the levels inside again.
        for direction in range(2):
            device = target[p] if direction else source[p]
            for step in range(outermost, n_levels):
                level = step if direction else n_levels - 1 - (step - outermost)
                if ring[level]:
                    continue
                instance = device // inside[level]
                n_found = _tied(members, instance, inside[level], uplinks[level], found, part)
                for i in range(n_found):
                    link = first_link[level] + 2 * (instance * uplinks[level] + found[i]) + direction
                    links, shares, size = _append(links, shares, size, link, part[i])
            if direction == 0 and outermost < n_levels and ring[outermost]:
                level, siblings = outermost, cardinality[outermost]
                instance = source[p] // inside[level]
                place = instance % siblings
                hops = (target[p] // inside[level] % siblings - place) % siblings
                n_found = _tied(members, instance, inside[level], uplinks[level], found, part)
                for way in range(2):
                    n_hops = siblings - hops if way else hops
                    if 2 * n_hops > siblings:
                        continue
                    share = 0.5 if 2 * n_hops == siblings else 1.0
                    for hop in range(n_hops):
                        step = -hop if way else hop
                        at = instance - place + (place + step) % siblings
                        for i in range(n_found):
                            link = first_link[level] + 2 * (at * uplinks[level] + found[i]) + way
                            links, shares, size = _append(links, shares, size, link, share * part[i])
        first[p + 1] = size
    return first, links[:size].copy(), shares[:size].copy()
