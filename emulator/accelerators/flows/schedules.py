"""Message schedules of collectives: senders, receivers and pieces, independent of devices.

The vector is cut into pieces. A transfer moves the pieces ``range(begin, stop, step)`` from one member to
another, which adds them to its own (``reduces``) or replaces its own by them.

* ring: reduce-scatter, then all-gather, around the ring (Patarasuk and Yuan 2009).
* halving-doubling: members exchange halves with one member after another, then gather them the same way back
  (Thakur, Rabenseifner and Gropp, IJHPCA 19(1) 2005). Near members come first, so that the least data is left
  for the links further out. If the number of members is not a power of two, the p members that differ in a
  digit of prime radix p exchange p-ths.
* tree: two binary trees, each for half of the vector, in pipelined chunks (Sanders, Speck and Träff 2009; the
  all-reduce of NCCL). A member that is an inner vertex of one tree is a leaf of the other.
* Reduce and Broadcast are chains of pipelined chunks for every algorithm, and a tree's ReduceScatter and
  AllGather are those of the ring, as in NCCL.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.engine import NOBODY
from sysgym.emulator.accelerators.flows.tables import Schedule, new_schedule
from sysgym.emulator.accelerators.matrices import prime_steps
from sysgym.emulator.accelerators.programs.patterns import Collective
from sysgym.scenarios.errors import SysgymError, UnknownName

Algorithm = Literal["ring", "halving_doubling", "tree"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)

_CHAIN_CHUNKS_PER_MEMBER, _FEWEST_CHAIN_CHUNKS, _MOST_CHAIN_TRANSFERS = 16, 256, 2**19
_MOST_TREE_CHUNKS, _FEWEST_TREE_CHUNKS, _MOST_TREE_TRANSFERS = 256, 32, 2**17


def make_schedule(
    collective: Collective,
    algorithm: str,
    factors: Sequence[int],
    *,
    channels: int = 1,
    chunks: int | None = None,
) -> Schedule:
    """Return the transfers of a collective in one group; the result is cached.

    Args:
        collective: The collective.
        algorithm: ``ring``, ``halving_doubling`` or ``tree``.
        factors: The group's size as a product over levels, outermost first; members are in mixed radix.
        channels: 1, or 2 for rings and chains in both directions with half of the bytes each, which uses all
            links of a ring of devices.
        chunks: Pieces of each pipeline of a chain or tree; None for :func:`default_chunks`.

    Raises:
        UnknownName: There is no such algorithm.
        SysgymError: A factor, the channels or the chunks are less than 1, or the channels more than 2.
    """
    if algorithm not in ALGORITHMS:
        raise UnknownName("algorithm", algorithm, ALGORITHMS)
    if min(factors, default=1) < 1 or channels not in (1, 2) or (chunks is not None and chunks < 1):
        raise SysgymError(
            f"a schedule for factors {tuple(factors)}, {channels} channels and {chunks} chunks: expected "
            "positive numbers and 1 or 2 channels"
        )
    sizes = tuple(int(factor) for factor in factors if factor > 1)
    n_members = int(np.prod(sizes, dtype=np.int64))
    is_chain = collective in (Collective.REDUCE, Collective.BROADCAST)
    if chunks is None:
        chunks = default_chunks(n_members, chain=is_chain)
    if is_chain:
        return _chain(collective, n_members, channels, chunks)
    if algorithm == "halving_doubling":
        return _halving_doubling(collective, sizes)
    if algorithm == "tree" and collective is Collective.ALL_REDUCE:
        return _double_tree(sizes, chunks)
    return _ring(collective, n_members, channels)


def default_chunks(n_members: int, *, chain: bool) -> int:
    """Return the number of pieces of a pipeline: enough for its length, but few to simulate.

    A chain of n members takes longer than one with infinitely many chunks by the share (n - 2) / chunks: here
    1/16, and more from 182 members on.

    Args:
        n_members: Members of the group.
        chain: Whether the pipeline is a chain and not a tree.
    """
    if chain:
        most = _MOST_CHAIN_TRANSFERS // max(n_members, 1)
        return max(min(max(_FEWEST_CHAIN_CHUNKS, _CHAIN_CHUNKS_PER_MEMBER * n_members), most), 1)
    most = _MOST_TREE_TRANSFERS // (4 * max(n_members, 1))
    return max(min(_MOST_TREE_CHUNKS, most), _FEWEST_TREE_CHUNKS)


def _orders(n_members: int, channels: int) -> NDArray[np.int64]:
    """Return the order of the members in each channel, [channels, n_members]; the root is always first."""
    forward = np.arange(n_members)
    return np.stack((forward, -forward % n_members)[:channels])


def _table(shape: tuple[int, ...], *columns: Any) -> list[Any]:
    """Broadcast columns to a shape and flatten them."""
    return [np.broadcast_to(column, shape).ravel() for column in columns]


@functools.lru_cache(maxsize=16)
def _ring(collective: Collective, n: int, channels: int) -> Schedule:
    scatters = collective is not Collective.ALL_GATHER
    n_rounds = (n - 1) * (2 if collective is Collective.ALL_REDUCE else 1)
    order = _orders(n, channels)
    shape = (n_rounds, channels, n)
    turn = np.arange(n_rounds)[:, None, None]
    channel = np.arange(channels)[None, :, None]
    place = np.arange(n)[None, None, :]
    # The piece that its last receiver keeps; in an all-gather a member begins with its own piece.
    piece = order[channel, (place - turn - (1 if scatters else 0)) % n] * channels + channel
    index = (turn * channels + channel) * n
    before = index - channels * n
    first = turn == 0
    src, dst, begin, reduces, rounds, channel_of, wait_on, follows = _table(
        shape,
        order[channel, place],
        order[channel, (place + 1) % n],
        piece,
        np.full(1, scatters) & (turn < n - 1),
        turn,
        channel,
        before + (place - 1) % n,
        np.where(first, NOBODY, before + place),
    )
    waits = rounds > 0
    return new_schedule(
        n,
        n * channels,
        src=src,
        dst=dst,
        begin=begin,
        reduces=reduces,
        round=rounds,
        channel=channel_of,
        wait_first=np.concatenate(([0], np.cumsum(waits))),
        wait_on=wait_on[waits],
        follows=follows,
    )


@functools.lru_cache(maxsize=16)
def _chain(collective: Collective, n: int, channels: int, chunks: int) -> Schedule:
    order = _orders(n, channels)
    if collective is Collective.REDUCE:
        order = order[:, ::-1]
    edges = [
        _Edge(
            int(order[channel, place]),
            int(order[channel, place + 1]),
            channel,
            [channel * (n - 1) + place - 1] if place else [],
        )
        for channel in range(channels)
        for place in range(n - 1)
    ]
    return _pipeline(edges, n, channels, chunks, collective is Collective.REDUCE)


@dataclass
class _Edge:
    """A connection of a pipeline: a chunk is sent over it once it has arrived over the edges it waits for."""

    src: int
    dst: int
    channel: int
    waits: list[int]
    reduces: bool = False


def _pipeline(
    edges: Sequence[_Edge], n_members: int, channels: int, chunks: int, reduces: bool = False
) -> Schedule:
    n_edges = len(edges)
    shape = (chunks, n_edges)
    chunk = np.arange(chunks)[:, None]
    channel = np.array([edge.channel for edge in edges], np.int64)
    depth = np.zeros(n_edges, np.int64)
    for index, edge in enumerate(edges):
        depth[index] = 1 + max((depth[before] for before in edge.waits), default=-1)
    src, dst, begin, reduce, rounds, channels_of, follows = _table(
        shape,
        np.array([edge.src for edge in edges], np.int64),
        np.array([edge.dst for edge in edges], np.int64),
        channel * chunks + chunk,
        np.array([edge.reduces or reduces for edge in edges], np.bool_),
        depth + chunk,
        channel,
        np.where(chunk == 0, NOBODY, (chunk - 1) * n_edges + np.arange(n_edges)),
    )
    counts = np.array([len(edge.waits) for edge in edges], np.int64)
    waits = np.array([before for edge in edges for before in edge.waits], np.int64)
    return new_schedule(
        n_members,
        channels * chunks,
        src=src,
        dst=dst,
        begin=begin,
        reduces=reduce,
        round=rounds,
        channel=channels_of,
        wait_first=np.concatenate(([0], np.cumsum(np.tile(counts, chunks)))),
        wait_on=(waits[None, :] + chunk * n_edges).ravel(),
        follows=follows,
    )


@functools.lru_cache(maxsize=16)
def _double_tree(factors: tuple[int, ...], chunks: int) -> Schedule:
    edges: list[_Edge] = []
    n = int(np.prod(factors, dtype=np.int64))
    for channel in range(2):
        parents = _tree_parents(factors, mirrored=channel == 1)
        children: list[list[int]] = [[] for _ in range(n)]
        for member, parent in enumerate(parents):
            if parent != NOBODY:
                children[parent].append(member)
        root = parents.index(NOBODY)
        # From the root on; in reverse order every member comes after its children.
        downwards = [root]
        for member in downwards:
            downwards += children[member]
        up: dict[int, int] = {}
        for member in reversed(downwards[1:]):
            up[member] = len(edges)
            waits = [up[child] for child in children[member]]
            edges.append(_Edge(member, parents[member], channel, waits, reduces=True))
        down: dict[int, int] = {}
        for member in downwards[1:]:
            down[member] = len(edges)
            parent = parents[member]
            waits = [up[child] for child in children[root]] if parent == root else [down[parent]]
            edges.append(_Edge(parent, member, channel, waits))
    return _pipeline(edges, n, 2, chunks)


def _tree_parents(factors: Sequence[int], *, mirrored: bool) -> list[int]:
    """Return each member's parent, -1 for the root: a tree of each level's instances, joined by leaders.

    In mirrored trees the leaves are the inner vertices of the others: digits count from the end, or are
    shifted by one if the number of instances is odd.
    """
    n = int(np.prod(factors, dtype=np.int64))
    parents = []
    for member in range(n):
        digits = [int(digit) for digit in np.unravel_index(member, tuple(factors) or (1,))]
        if mirrored:
            digits = [_mirror(digit, factor) for digit, factor in zip(digits, factors, strict=False)]
        last = max((place for place, digit in enumerate(digits) if digit), default=NOBODY)
        if last == NOBODY:
            parents.append(NOBODY)
            continue
        digits[last] = _in_order_parent(digits[last], factors[last])
        if mirrored:
            digits = [_unmirror(digit, factor) for digit, factor in zip(digits, factors, strict=True)]
        parents.append(int(np.ravel_multi_index(digits, tuple(factors))))
    return parents


def _mirror(digit: int, factor: int) -> int:
    return (digit - 1) % factor if factor % 2 else factor - 1 - digit


def _unmirror(digit: int, factor: int) -> int:
    return (digit + 1) % factor if factor % 2 else factor - 1 - digit


def _in_order_parent(node: int, n_nodes: int) -> int:
    """Return the parent in the binary tree in which node 0 is the root and odd nodes are leaves."""
    lowest = node & -node
    above = node & ~lowest | lowest << 1
    return above if above < n_nodes else node - lowest


@functools.lru_cache(maxsize=16)
def _halving_doubling(collective: Collective, factors: tuple[int, ...]) -> Schedule:
    n = int(np.prod(factors, dtype=np.int64))
    stages = []
    stride = 1
    for factor in reversed(factors):
        for _, prime in prime_steps((factor,)):
            stages.append((prime, stride))
            stride *= prime
    order: list[tuple[int, int, bool]] = []
    if collective is not Collective.ALL_GATHER:
        order += [(*stage, True) for stage in stages]
    if collective is not Collective.REDUCE_SCATTER:
        order += [(*stage, False) for stage in reversed(stages)]
    columns: list[list[Any]] = []
    counts, waits = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    n_transfers = 0
    # Transfers of all previous turns that each member has received, [n, number].
    received = np.zeros((n, 0), np.int64)
    member = np.arange(n)[:, None]
    for turn, (radix, stride, reduces) in enumerate(order):
        offset = np.arange(1, radix)[None, :]
        partner = _moved(member, offset, radix, stride)
        # The remaining pieces have the member's remainder; a receiver gets those with its own remainder.
        begin = (partner if reduces else member) % (stride * radix)
        columns.append(
            _table((n, radix - 1), member, partner, begin, np.array(stride * radix), np.array(reduces), turn)
        )
        waits.append(np.repeat(received, radix - 1, axis=0).ravel())
        counts.append(np.full(n * (radix - 1), received.shape[1], np.int64))
        sent = n_transfers + _moved(member, -offset, radix, stride) * (radix - 1) + offset - 1
        received = np.concatenate((received, sent), axis=1)
        n_transfers += n * (radix - 1)
    src, dst, begin, step, reduce, rounds = (
        np.concatenate([np.zeros(0, np.int64), *(column[i] for column in columns)]) for i in range(6)
    )
    return new_schedule(
        n,
        n,
        src=src,
        dst=dst,
        begin=begin,
        stop=np.full(len(src), n),
        step=step,
        reduces=reduce,
        round=rounds,
        channel=np.zeros(len(src)),
        wait_first=np.cumsum(np.concatenate(counts)),
        wait_on=np.concatenate(waits),
        follows=_before_on_connection(src * n + dst),
    )


def _moved(
    member: NDArray[np.int64], offset: NDArray[np.int64], radix: int, stride: int
) -> NDArray[np.int64]:
    """Return the members whose digit of a radix and stride is larger by an offset, cyclically."""
    digit = member // stride % radix
    return member + ((digit + offset) % radix - digit) * stride


def _before_on_connection(connection: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the previous transfer on the same connection for each transfer, -1 for none."""
    order = np.argsort(connection, kind="stable")
    same = connection[order[1:]] == connection[order[:-1]]
    before = np.full(len(connection), NOBODY)
    before[order[1:][same]] = order[:-1][same]
    return before
