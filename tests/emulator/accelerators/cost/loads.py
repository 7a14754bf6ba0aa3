"""Loads of all links by brute force: actual groups of devices, every instance, in plain Python."""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import Matrix, reduction_factors, reduction_groups
from sysgym.emulator.accelerators.programs import Collective, Instruction, lower

AR, RS, AG = Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.ALL_GATHER

Link = tuple[int, ...]
"""(instance, uplink) of a switch; (parent, uplink, position, direction) of a ring."""
Loads = dict[Link, float]


class Step:
    """A step on actual devices.

    Args:
        hierarchy: The devices.
        matrix: The placement.
        reduce_axes: The reduced axes.
        instruction: What all groups do.
        message_bytes: What a group's first member holds.
        algorithm: ``ring``, ``halving_doubling`` or ``tree``.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        matrix: Matrix,
        reduce_axes: Sequence[int],
        instruction: Instruction,
        message_bytes: float,
        algorithm: str,
    ) -> None:
        factors = [factor for _, factor in reduction_factors(matrix, reduce_axes)]
        whole = reduction_groups(hierarchy.cardinalities, matrix, reduce_axes)
        self.groups: list[list[int]] = lower(instruction.pattern, factors, whole).tolist()
        self.n = len(self.groups[0])
        self.hierarchy, self.message_bytes = hierarchy, message_bytes
        self.collective, self.algorithm = instruction.collective, algorithm
        self.phases = 2 if self.collective is AR else 1
        self.halving = algorithm == "halving_doubling" and self.collective in (AR, RS, AG)
        self.tree = algorithm == "tree" and self.collective is AR

    def time_s(self) -> float:
        """Return the time of the fullest link of each round, and the latencies that are waited for."""
        if not self.halving:
            fullest_s = max(map(self.level_time_s, range(self.hierarchy.n_levels)))
            if self.tree or self.collective not in (AR, RS, AG):
                return fullest_s + self.filling_s()
            return max(self.ring_s(group) for group in self.groups)
        total_s = 0.0
        for distance in self.distances():
            levels_s = [self.level_time_s(level, distance) for level in range(self.hierarchy.n_levels)]
            total_s += max(levels_s) + self.phases * self.latency_of(distance)
        return total_s

    def filling_s(self) -> float:
        """Return the latencies along a chain, in the longer direction, or up and down a tree."""
        if self.tree:
            levels = range(self.hierarchy.n_levels)
            siblings = [len({self.position(device, level) for device in self.groups[0]}) for level in levels]
            return sum(
                2 * math.ceil(math.log2(siblings[level])) * self.hierarchy.levels[level].latency_s
                for level in levels
            )
        group, waits_s = self.groups[0], []
        rings = any(
            level.network == "ring" and len({self.position(device, index) for device in group}) > 1
            for index, level in enumerate(self.hierarchy.levels)
        )
        for order in (group, [group[0], *reversed(group[1:])])[: 1 + rings]:
            waits_s.append(sum(self.latency_between([hop]) for hop in itertools.pairwise(order)))
        return max(waits_s)

    def ring_s(self, group: list[int]) -> float:
        """Return when the last piece has arrived, round by round and member by member."""
        rounds = self.phases * (self.n - 1)
        hops = list(zip(group, [*group[1:], group[0]], strict=True))
        sends_s = [self.send_s(*hop) / rounds for hop in hops]
        waits_s = [self.latency_between([hop]) for hop in hops]
        sent_s = arrived_s = [0.0] * self.n
        for _ in range(rounds):
            begin_s = [max(sent_s[member], arrived_s[member - 1]) for member in range(self.n)]
            sent_s = [begin + send for begin, send in zip(begin_s, sends_s, strict=True)]
            arrived_s = [sent + wait for sent, wait in zip(sent_s, waits_s, strict=True)]
        return max(arrived_s)

    def send_s(self, source: int, target: int) -> float:
        """Return the time of all rounds on the slowest link from one device to another."""
        crossed = self.crossed(source, target)
        switches = [
            self.level_time_s(level)
            for level in range(crossed, self.hierarchy.n_levels)
            if self.hierarchy.levels[level].network == "switch" or level == crossed
        ]
        return max(switches)

    def latency_of(self, distance: int) -> float:
        return self.latency_between(
            [(one, other) for group in self.groups for one, other, _ in self.exchanges(group, distance)]
        )

    def latency_between(self, pairs: list[tuple[int, int]]) -> float:
        """Return the latency of the outermost level that one of the pairs crosses."""
        crossed = min(self.crossed(one, other) for one, other in pairs)
        return self.hierarchy.levels[crossed].latency_s

    def crossed(self, one: int, other: int) -> int:
        """Return the outermost level on whose instances two devices differ."""
        return min(
            level
            for level in range(self.hierarchy.n_levels)
            if self.instance(one, level) != self.instance(other, level)
        )

    @functools.cache  # noqa: B019  a step is small and short-lived
    def level_time_s(self, level: int, distance: int | None = None) -> float:
        """Return the time of a level's fullest link; with halving and doubling of one round, or of all."""
        spec = self.hierarchy.levels[level]
        if self.halving and distance is None:
            return sum(self.level_time_s(level, each) for each in self.distances())
        if spec.network == "ring":
            busiest = max(self.ring_loads(level, distance).values(), default=0.0)
            return busiest / (spec.bandwidth_bytes_per_s / 2)
        return max(self.switch_loads(level, distance).values(), default=0.0) / spec.bandwidth_bytes_per_s

    def distances(self) -> list[int]:
        """Return between which members the rounds of halving and doubling are."""
        return [2**exponent for exponent in range(self.n.bit_length() - 1)]

    def switch_loads(self, level: int, distance: int | None = None) -> Loads:
        """Return the bytes out of every uplink of every instance."""
        loads: Loads = defaultdict(float)
        for group in self.groups:
            if self.halving:
                for sender, receiver, size in self.exchanges(group, distance):
                    if self.instance(sender, level) != self.instance(receiver, level):
                        loads[self.instance(sender, level), self.uplink(sender, level)] += size
                continue
            for members in self.by_instance(group, level).values():
                if len(members) < self.n:
                    for device in members:
                        link = self.instance(device, level), self.uplink(device, level)
                        loads[link] += self.sent_bytes(self.n // len(members)) / len(members)
        return loads

    def ring_loads(self, level: int, distance: int | None = None) -> Loads:
        """Return the bytes on every directed link of every ring."""
        if distance is not None:
            return self.exchanged_in_rings(level, distance)
        loads: Loads = defaultdict(float)
        for group in self.groups:
            parents = self.by_instance(group, level - 1) if level else {0: group}
            for parent, members in parents.items():
                self.add_ring(loads, level, parent, members)
        return loads

    def add_ring(self, loads: Loads, level: int, parent: int, members: list[int]) -> None:
        around = self.hierarchy.levels[level].cardinality
        positions = sorted({self.position(device, level) for device in members})
        if len(positions) == 1:
            return
        nexts = [*positions[1:], positions[0] + around]
        gap, end = max((after - here, here) for here, after in zip(positions, nexts, strict=True))
        length, begin = around - gap, (end + gap) % around
        at_one = [device for device in members if self.position(device, level) == positions[0]]
        closed = 2 * length >= around
        arc = range(around) if closed else range(begin, begin + length)
        if self.tree:
            each = self.message_bytes / 2 if closed and len(positions) == 2 else self.message_bytes
        else:
            each = self.sent_bytes(self.n) / 2 if closed else self.sent_bytes(self.n)
            if len(members) < self.n and (not closed or len(positions) == 2):
                # The way from the last of these members leads on to another parent.
                each /= 2
        for device in at_one:
            for place, direction in itertools.product(arc, (0, 1)):
                link = parent, self.uplink(device, level), place % around, direction
                loads[link] += each / len(at_one)

    def exchanged_in_rings(self, level: int, distance: int) -> Loads:
        around = self.hierarchy.levels[level].cardinality
        loads: Loads = defaultdict(float)
        for group in self.groups:
            for sender, receiver, size in self.exchanges(group, distance):
                parent = self.instance(sender, level - 1) if level else 0
                if level and parent != self.instance(receiver, level - 1):
                    continue
                here, there = self.position(sender, level), self.position(receiver, level)
                clockwise, uplink = (there - here) % around, self.uplink(sender, level)
                if not clockwise:
                    continue
                ways = [(clockwise, 0), (around - clockwise, 1)]
                shortest = min(ways)[0]
                chosen = [way for way in ways if way[0] == shortest]
                for length, direction in chosen:
                    for step in range(length):
                        place = (here + step if direction == 0 else here - 1 - step) % around
                        loads[parent, uplink, place, direction] += size / len(chosen)
        return loads

    def exchanges(self, group: list[int], only: int | None = None) -> Iterator[tuple[int, int, float]]:
        """Yield (sender, receiver, bytes): halves of what is left with the nearest first; AR both ways."""
        distance, size = 1, self.message_bytes / 2
        while distance < self.n:
            if only in (None, distance):
                for member in range(self.n):
                    yield group[member], group[member ^ distance], size * self.phases
            distance, size = 2 * distance, size / 2

    def sent_bytes(self, instances: int) -> float:
        """Return what a group sends out of one of some instances that its members are in."""
        if self.collective not in (AR, RS, AG):
            return self.message_bytes
        if self.tree:
            return min(2.0, instances / 2) * self.message_bytes
        return self.phases * (self.n - 1) / self.n * self.message_bytes

    def instance(self, device: int, level: int) -> int:
        return device // self.hierarchy.devices_inside(level)

    def position(self, device: int, level: int) -> int:
        return self.instance(device, level) % self.hierarchy.levels[level].cardinality

    def uplink(self, device: int, level: int) -> int:
        devices = self.hierarchy.devices_inside(level)
        return device % devices * self.hierarchy.levels[level].uplinks // devices

    def by_instance(self, group: list[int], level: int) -> dict[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for device in group:
            found[self.instance(device, level)].append(device)
        return found
