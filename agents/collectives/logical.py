"""Plans of the algorithms of collective libraries, on logical neighbours: ring, trees, doubling, direct.

Members are numbered along a short tour of the system. If logical neighbours are not adjacent, chunks take the
fastest path over other devices. A plan is for one phase: its mirror image in time is the reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from sysgym.emulator.collectives.collective import Kind, Phase
from sysgym.emulator.collectives.network import FloatArray, IntArray
from sysgym.emulator.collectives.schedule import Plan
from sysgym.emulator.collectives.task import SynthesisTask
from sysgym.emulator.compiling import cached_kernel

Edges = Iterator[tuple[int, int, int]]
"""Round, sender and receiver of a chunk, as places on the tour relative to the chunk's owner."""


class Router:
    """Paths of chunks over devices, and the plan that sends them.

    Args:
        task: The collective and its network.
        phase: The phase.
    """

    def __init__(self, task: SynthesisTask, phase: Phase) -> None:
        self._hops = task.plan_hops(phase)
        n = task.n_devices
        ends = np.array(list(self._hops), np.int64)
        times_s = task.durations_s[list(self._hops.values())]
        # Rounding makes paths of equal time differ in the last bits; the path with fewer hops is preferred.
        weights_s = times_s + 1e-9 * times_s.max()
        graph = csr_array((weights_s, (ends[:, 0], ends[:, 1])), shape=(n, n))
        _, self._before = shortest_path(graph, return_predecessors=True)
        self._has = {(chunk, owner) for chunk, owner in enumerate(task.collective.owners.tolist())}
        self._transfers: list[tuple[int, int]] = []

    def send(self, chunk: int, source: int, target: int) -> None:
        """Send a chunk along the fastest path, except to devices on it that already have the chunk."""
        way = [target]
        while way[-1] != source and (chunk, way[-1]) not in self._has:
            way.append(int(self._before[source, way[-1]]))
        for device, following in zip(way[:0:-1], way[-2::-1], strict=True):
            self._transfers.append((chunk, self._hops[device, following]))
            self._has.add((chunk, following))

    @property
    def plan(self) -> Plan:
        """The transfers so far."""
        return Plan.of(self._transfers)


def tour(task: SynthesisTask) -> list[int]:
    """Return the members in the order of a short closed tour: nearest neighbours, improved by 2-opt."""
    members = np.array(task.collective.members)
    times_s = task.distances_s + task.distances_s.T
    order = _short_tour(times_s[np.ix_(members, members)])
    return [int(member) for member in members[order]]


def ring_plan(task: SynthesisTask, phase: Phase, order: list[int], both_ways: bool) -> Plan:
    """Return the plan in which chunks go from neighbour to neighbour, one way around or both."""
    n = len(order)

    def edges(chunk: int) -> Edges:
        forwards = n - 1
        if both_ways:
            # With an even number of members, one direction is longer; chunks alternate between the two.
            forwards = n // 2 if chunk % 2 else (n - 1) // 2
        yield from ((step, step, step + 1) for step in range(forwards))
        yield from ((step, -step, -step - 1) for step in range(n - 1 - forwards))

    return _plan(task, phase, order, edges)


def tree_plan(task: SynthesisTask, phase: Phase, order: list[int]) -> Plan:
    """Return the plan in which every chunk goes down a binary tree rooted at its owner.

    The root's children are the neighbours on both sides, each of which serves half of the others. Chunks with
    the same owner alternate between the tree and its mirror image, as in double binary trees (Sanders, Speck,
    Traff, Parallel Computing 35, 2009).
    """
    n = len(order)

    def edges(chunk: int) -> Edges:
        sign = -1 if chunk % 2 else 1
        for step, sender, receiver in sorted(_halves(0, 1, n, 0)):
            yield step, sign * sender, sign * receiver

    return _plan(task, phase, order, edges)


def doubling_plan(task: SynthesisTask, phase: Phase, order: list[int]) -> Plan:
    """Return the plan of recursive doubling, or of Bruck's algorithm if the size is not a power of two."""
    n = len(order)
    place_of = {member: place for place, member in enumerate(order)}
    paired = n & (n - 1) == 0

    def edges(chunk: int) -> Edges:
        owner = place_of[int(task.collective.owners[chunk])]
        width, step = 1, 0
        while width < n:
            for place in range(min(width, n - width)):
                if paired:
                    sender, receiver = (owner ^ place) - owner, (owner ^ place ^ width) - owner
                else:
                    sender, receiver = -place, -place - width
                yield step, sender, receiver
            width, step = 2 * width, step + 1

    return _plan(task, phase, order, edges)


def direct_plan(task: SynthesisTask, phase: Phase, order: list[int]) -> Plan:
    """Return the plan in which every owner sends to all other members, in the order of the tour."""
    n = len(order)

    def edges(chunk: int) -> Edges:
        yield from ((step - 1, 0, step) for step in range(1, n))

    return _plan(task, phase, order, edges)


def _plan(task: SynthesisTask, phase: Phase, order: list[int], edges: Callable[[int], Edges]) -> Plan:
    """Return the plan that sends every chunk along its tree, round by round."""
    collective, n = task.collective, len(order)
    place_of = {member: place for place, member in enumerate(order)}
    rounds: dict[int, list[tuple[int, int, int]]] = {}
    for chunk, owner in enumerate(collective.owners.tolist()):
        place = place_of[owner]
        tree = [
            (step, (place + sender) % n, (place + receiver) % n) for step, sender, receiver in edges(chunk)
        ]
        if collective.kind is Kind.ALL_TO_ALL:
            tree = list(_way_to(place_of[int(collective.others[chunk].argmax())], tree))
        for step, sender, receiver in tree:
            rounds.setdefault(step, []).append((chunk, sender, receiver))
    router = Router(task, phase)
    for step in sorted(rounds):
        for chunk, sender, receiver in rounds[step]:
            router.send(chunk, order[sender], order[receiver])
    return router.plan


def _way_to(place: int, tree: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield the edges from the root of a tree to a place, the last edge first."""
    into = {receiver: (step, sender) for step, sender, receiver in tree}
    while place in into:
        step, sender = into[place]
        yield step, sender, place
        place = sender


def _halves(parent: int, first: int, end: int, step: int) -> Edges:
    """Yield the edges below a parent to the places [first, end): a child for each half of the range."""
    middle = (first + end + 1) // 2
    for low, high, head in ((first, middle, first), (middle, end, end - 1)):
        if low < high:
            yield step, parent, head
            inner = (low + 1, high) if head == low else (low, high - 1)
            yield from _halves(head, *inner, step + 1)


@cached_kernel()
def _short_tour(times_s: FloatArray) -> IntArray:
    """Return a short closed tour of all members: nearest neighbours, then 2-opt until no move helps."""
    n = times_s.shape[0]
    order = np.zeros(n, np.int64)
    seen = np.zeros(n, np.bool_)
    seen[0] = True
    for place in range(1, n):
        here, best = order[place - 1], -1
        for other in range(n):
            if not seen[other] and (best < 0 or times_s[here, other] < times_s[here, best]):
                best = other
        order[place] = best
        seen[best] = True
    improved = True
    while improved:
        improved = False
        for i in range(n - 1):
            for j in range(i + 2, n):
                a, b, c, d = order[i], order[i + 1], order[j], order[(j + 1) % n]
                gain = times_s[a, b] + times_s[c, d] - times_s[a, c] - times_s[b, d]
                if a != d and gain > 1e-9 * times_s[a, b]:
                    order[i + 1 : j + 1] = order[i + 1 : j + 1][::-1].copy()
                    improved = True
    return order
