"""Cost of one collective among n ranks that are all alike: Hockney's alpha-beta model.

A round takes a latency (alpha), a byte a time (beta, one over the bandwidth per rank and direction);
arithmetic is free. Sizes are those of the full vector: what an all-reduce reduces, what an all-gather ends
with, what every rank of an all-to-all has to send, its own part included. The formulas are textbook ones;
most are in Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, IJHPCA
19(1), 2005, doi:10.1177/1094342005051521.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sysgym.emulator.accelerators.programs.patterns import Collective
from sysgym.scenarios.errors import SysgymError, UnknownName

ALL_TO_ALL = "A2A"
"""Name of the collective that reduction programs do not have."""


@dataclass(frozen=True)
class ClosedForm:
    """One algorithm for one collective.

    Attributes:
        rounds: Ranks -> latencies one after another.
        wire: Ranks -> bytes that a rank sends, over the bytes of the vector.
        power_of_two: It is defined for powers of two of ranks only.
    """

    rounds: Callable[[int], int]
    wire: Callable[[int], float]
    power_of_two: bool = False


def ceil_log2(n: int) -> int:
    """Return the rounds in which what one of n ranks knows can reach all: the ceiling of log2 n.

    Args:
        n: Ranks, at least 1.
    """
    return (n - 1).bit_length()


def _others(n: int) -> int:
    return n - 1


def _share_of_others(n: int) -> float:
    return (n - 1) / n


def _twice(function: Callable[[int], float]) -> Callable[[int], float]:
    return lambda n: 2 * function(n)


def _twice_rounds(function: Callable[[int], int]) -> Callable[[int], int]:
    return lambda n: 2 * function(n)


def _vector(n: int) -> float:
    """Return the vector once; one rank sends nothing."""
    return 1.0 if n > 1 else 0.0


_SCATTERED = ClosedForm(_others, _share_of_others)
_HALVED = ClosedForm(ceil_log2, _share_of_others, power_of_two=True)
_CHAIN = ClosedForm(_others, _vector)
_BINOMIAL = ClosedForm(ceil_log2, ceil_log2)

CLOSED_FORMS: dict[tuple[str, str], ClosedForm] = {
    (Collective.ALL_REDUCE, "ring"): ClosedForm(_twice_rounds(_others), _twice(_share_of_others)),
    (Collective.ALL_REDUCE, "recursive_doubling"): ClosedForm(ceil_log2, ceil_log2, power_of_two=True),
    (Collective.ALL_REDUCE, "halving_doubling"): ClosedForm(
        _twice_rounds(ceil_log2), _twice(_share_of_others), power_of_two=True
    ),
    (Collective.ALL_REDUCE, "binomial"): ClosedForm(_twice_rounds(ceil_log2), _twice(ceil_log2)),
    (Collective.ALL_REDUCE, "double_tree"): ClosedForm(_twice_rounds(ceil_log2), _twice(_vector)),
    (Collective.REDUCE_SCATTER, "ring"): _SCATTERED,
    (Collective.REDUCE_SCATTER, "halving_doubling"): _HALVED,
    (Collective.ALL_GATHER, "ring"): _SCATTERED,
    (Collective.ALL_GATHER, "halving_doubling"): _HALVED,
    (Collective.REDUCE, "binomial"): _BINOMIAL,
    (Collective.REDUCE, "pipelined_chain"): _CHAIN,
    (Collective.BROADCAST, "binomial"): _BINOMIAL,
    (Collective.BROADCAST, "pipelined_chain"): _CHAIN,
    (Collective.BROADCAST, "van_de_geijn"): ClosedForm(
        lambda n: ceil_log2(n) + n - 1, _twice(_share_of_others)
    ),
    (ALL_TO_ALL, "pairwise"): _SCATTERED,
}
"""(collective, algorithm) -> what it costs.

The ``double_tree`` is NCCL's two binary trees, pipelined, each with half of the vector; the
``pipelined_chain`` is counted without the time that the first piece needs for its own bytes.
"""


def list_algorithms(collective: str) -> list[str]:
    """Return the names of the algorithms for a collective, sorted.

    Args:
        collective: ``AR``, ``RS``, ``AG``, ``R``, ``B`` or ``A2A``.

    Raises:
        UnknownName: There is no such collective.
    """
    collectives = {known for known, _ in CLOSED_FORMS}
    if collective not in collectives:
        raise UnknownName("collective", collective, collectives)
    return sorted(name for known, name in CLOSED_FORMS if known == collective)


def closed_form(collective: str, algorithm: str) -> ClosedForm:
    """Return an algorithm for a collective.

    Args:
        collective: ``AR``, ``RS``, ``AG``, ``R``, ``B`` or ``A2A``.
        algorithm: One of :func:`list_algorithms`.

    Raises:
        UnknownName: There is no such collective, or no such algorithm for it.
    """
    algorithms = list_algorithms(collective)
    if algorithm not in algorithms:
        raise UnknownName(f"algorithm for the collective {collective}", algorithm, algorithms)
    return CLOSED_FORMS[collective, algorithm]


def collective_time_s(
    collective: str,
    algorithm: str,
    n: int,
    size_bytes: float,
    bandwidth_bytes_per_s: float,
    latency_s: float,
) -> float:
    """Return the time of a collective among n ranks.

    Args:
        collective: ``AR``, ``RS``, ``AG``, ``R``, ``B`` or ``A2A``.
        algorithm: One of :func:`list_algorithms`.
        n: Ranks, at least 1.
        size_bytes: Of the full vector.
        bandwidth_bytes_per_s: Of each rank and direction.
        latency_s: Of a round.

    Raises:
        UnknownName: There is no such collective, or no such algorithm for it.
        SysgymError: The number of ranks is less than 1, or no power of two where the algorithm needs one.
    """
    form = closed_form(collective, algorithm)
    check_ranks(n)
    if form.power_of_two:
        check_power_of_two(algorithm, n)
    return form.rounds(n) * latency_s + form.wire(n) * size_bytes / bandwidth_bytes_per_s


@dataclass(frozen=True)
class Nodes:
    """Nodes of ranks that are all alike.

    Attributes:
        ranks_per_node: At least 1.
        nodes: At least 1.
        inner_bytes_per_s: Of each rank and direction inside a node.
        outer_bytes_per_s: Of each rank and direction between nodes, however many ranks of a node send.
        inner_latency_s: Of a round inside a node.
        outer_latency_s: Of a round between nodes.
    """

    ranks_per_node: int
    nodes: int
    inner_bytes_per_s: float
    outer_bytes_per_s: float
    inner_latency_s: float
    outer_latency_s: float

    def inside_s(self, collective: Collective, algorithm: str, size_bytes: float) -> float:
        """Return the time of a collective in every node at once."""
        return collective_time_s(
            collective,
            algorithm,
            self.ranks_per_node,
            size_bytes,
            self.inner_bytes_per_s,
            self.inner_latency_s,
        )

    def between_s(self, collective: Collective, algorithm: str, size_bytes: float) -> float:
        """Return the time of a collective of one rank of every node."""
        return collective_time_s(
            collective, algorithm, self.nodes, size_bytes, self.outer_bytes_per_s, self.outer_latency_s
        )


def hierarchical_time_s(nodes: Nodes, size_bytes: float) -> float:
    """Return the time of reduce-scatter in nodes, all-reduce between them, all-gather in nodes, by rings.

    Args:
        nodes: All ranks of a node send between nodes at once.
        size_bytes: Of the full vector.

    Raises:
        SysgymError: A number of ranks or nodes is less than 1.
    """
    inner_s = nodes.inside_s(Collective.ALL_REDUCE, "ring", size_bytes)
    shard_bytes = size_bytes / nodes.ranks_per_node
    return inner_s + nodes.between_s(Collective.ALL_REDUCE, "ring", shard_bytes)


def leaders_time_s(nodes: Nodes, size_bytes: float) -> float:
    """Return the time of a reduce in nodes, a ring all-reduce of their leaders, and a broadcast in nodes.

    Args:
        nodes: Only leaders send between nodes.
        size_bytes: Of the full vector.

    Raises:
        SysgymError: A number of ranks or nodes is less than 1.
    """
    chain_s = nodes.inside_s(Collective.REDUCE, "pipelined_chain", size_bytes)
    return 2.0 * chain_s + nodes.between_s(Collective.ALL_REDUCE, "ring", size_bytes)


def check_ranks(n: int) -> None:
    """Check a number of ranks.

    Raises:
        SysgymError: It is less than 1.
    """
    if n < 1:
        raise SysgymError(f"a collective among {n} ranks; there must be at least 1")


def check_power_of_two(algorithm: str, n: int) -> None:
    """Check a number of ranks for an algorithm that pairs them.

    Raises:
        SysgymError: It is no power of two.
    """
    if n & (n - 1):
        raise SysgymError(
            f"{algorithm} is defined for a power of two of ranks, not for {n}; a ring serves any number"
        )
