"""Traffic matrices: pairs of a sending and a receiving host.

To add a matrix, write a function and add a line to ``_MATRICES``. The names are those of Iroko and of earlier
data center papers. Where these sources leave a definition open, the docstring says that the definition is our
own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.topology import Topology
from sysgym.scenarios.errors import SysgymError, UnknownName
from sysgym.scenarios.schema.congestion.offered import hot_hosts

Pairs = NDArray[np.int64]
"""Sender and receiver of every pair, shape (n_pairs, 2)."""


class MatrixSpec(Protocol):
    """Workload table that names a matrix, with the matrix's parameters."""

    @property
    def matrix(self) -> str:
        """Name of the matrix."""

    @property
    def stride(self) -> int:
        """Distance between the hosts of a pair."""

    @property
    def p_edge(self) -> float:
        """Probability of a receiver on the sender's edge switch."""

    @property
    def p_pod(self) -> float:
        """Probability of a receiver elsewhere in the sender's pod."""


def traffic_matrix(spec: MatrixSpec, topology: Topology, rng: np.random.Generator) -> Pairs:
    """Draw the pairs of hosts that ``spec.matrix`` names.

    Returns:
        Sender and receiver, shape (n_pairs, 2), never the same host.

    Raises:
        UnknownName: If there is no such matrix.
        SysgymError: If the matrix is not defined on the topology.
    """
    name = spec.matrix
    if name not in _MATRICES:
        raise UnknownName("traffic matrix", name, _MATRICES)
    if topology.n_hosts < 2:
        raise SysgymError(f"traffic matrix {name}: needs two hosts, the topology has {topology.n_hosts}")
    return _MATRICES[name](spec, topology, rng)


def _one_to_one(spec: MatrixSpec, topology: Topology, rng: np.random.Generator) -> Pairs:
    """Pair every host i with host i + n/2 (mod n); on dumbbells and parking lots, the first half only.

    These are the pairs from west host i to east host i of a dumbbell, and the paths of a parking lot.
    """
    if topology.kind in ("dumbbell", "parking_lot"):
        return _first_half_to_second(topology)
    return _shift(topology.n_hosts, topology.n_hosts // 2)


def _iroko(spec: MatrixSpec, topology: Topology, rng: np.random.Generator) -> Pairs:
    """Pair west host i with east host i: Iroko's files ``incast_N``, N parallel pairs over the core."""
    if topology.kind != "dumbbell":
        raise SysgymError(f"traffic matrix iroko: needs a dumbbell, the topology is a {topology.kind}")
    return _first_half_to_second(topology)


def _stride(spec: MatrixSpec, topology: Topology, rng: np.random.Generator) -> Pairs:
    """Pair host i with host i + stride (mod n)."""
    if spec.stride % topology.n_hosts == 0:
        raise SysgymError(
            f"traffic matrix stride: {spec.stride} leads every host of {topology.n_hosts} to itself"
        )
    return _shift(topology.n_hosts, spec.stride)


def _staggered(spec: MatrixSpec, topology: Topology, rng: np.random.Generator) -> Pairs:
    """Pair every host with a nearby or distant one, as in Hedera (NSDI 2010); the draw is our own definition.

    The receiver is on the sender's edge switch with probability ``p_edge``, on another edge switch of its pod
    with ``p_pod``, and otherwise in another pod, uniformly among these hosts. If there is no such host, it is
    any other host. Several hosts may send to the same receiver.
    """
    return _to(staggered_receivers(spec, topology, rng, np.arange(topology.n_hosts)))


def staggered_receivers(
    spec: MatrixSpec, topology: Topology, rng: np.random.Generator, senders: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Draw a receiver for each sender, as in ``staggered``; a sender may occur several times."""
    hosts = np.arange(topology.n_hosts)
    draw = rng.random(len(senders))
    receivers = np.empty(len(senders), dtype=np.int64)
    for index, host in enumerate(senders):
        same_edge = topology.host_edge == topology.host_edge[host]
        same_pod = topology.host_pod == topology.host_pod[host]
        if draw[index] < spec.p_edge:
            eligible = same_edge & (hosts != host)
        elif draw[index] < spec.p_edge + spec.p_pod:
            eligible = same_pod & ~same_edge
        else:
            eligible = ~same_pod
        if not eligible.any():
            eligible = hosts != host
        receivers[index] = rng.choice(np.flatnonzero(eligible))
    return receivers


def _random(spec: MatrixSpec, topology: Topology, rng: np.random.Generator) -> Pairs:
    """Pair every host with any other, drawn independently: hosts may receive from several or from none."""
    return _to(other_hosts(rng, np.arange(topology.n_hosts), topology.n_hosts))


def _random_bijective(spec: MatrixSpec, topology: Topology, rng: np.random.Generator) -> Pairs:
    """Pair hosts by a uniformly random permutation without fixed points."""
    hosts = np.arange(topology.n_hosts)
    while True:
        # One permutation in e, about 2.7, has no fixed point, for any number of hosts.
        receivers = rng.permutation(topology.n_hosts)
        if not np.any(receivers == hosts):
            return _to(receivers)


def _hotspot(spec: MatrixSpec, topology: Topology, rng: np.random.Generator) -> Pairs:
    """Pair most hosts with a few hot ones; our own definition.

    One host in eight (at least one), drawn at random, is hot and only receives. The others, in random order,
    are assigned to the hot hosts in turn, so the numbers of senders per hot host differ by at most one.
    """
    order = rng.permutation(topology.n_hosts)
    n_hot = hot_hosts(topology.n_hosts)
    hot, senders = order[:n_hot], order[n_hot:]
    pairs = np.column_stack((senders, hot[np.arange(len(senders)) % n_hot]))
    return pairs[np.argsort(senders)]


def _all_to_all(spec: MatrixSpec, topology: Topology, rng: np.random.Generator) -> Pairs:
    """Pair every host with every other, ordered by sender, then by receiver."""
    n_hosts = topology.n_hosts
    senders, receivers = np.divmod(np.arange(n_hosts * n_hosts), n_hosts)
    return np.column_stack((senders, receivers))[senders != receivers]


def other_hosts(rng: np.random.Generator, hosts: NDArray[np.int64], n_hosts: int) -> NDArray[np.int64]:
    """Draw one of the ``n_hosts - 1`` other hosts for each of ``hosts``, uniformly."""
    drawn = rng.integers(0, n_hosts - 1, size=len(hosts))
    return drawn + (drawn >= hosts)


def _first_half_to_second(topology: Topology) -> Pairs:
    first, second = np.split(np.arange(topology.n_hosts), 2)
    return np.column_stack((first, second))


def _shift(n_hosts: int, distance: int) -> Pairs:
    return _to((np.arange(n_hosts) + distance) % n_hosts)


def _to(receivers: NDArray[np.int64]) -> Pairs:
    return np.column_stack((np.arange(len(receivers)), receivers))


_MATRICES: dict[str, Callable[[MatrixSpec, Topology, np.random.Generator], Pairs]] = {
    "one_to_one": _one_to_one,
    "stride": _stride,
    "staggered": _staggered,
    "random": _random,
    "random_bijective": _random_bijective,
    "permutation": _random_bijective,
    "hotspot": _hotspot,
    "all_to_all": _all_to_all,
    "iroko": _iroko,
}
