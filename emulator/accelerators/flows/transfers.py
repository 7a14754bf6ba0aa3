"""Transfers of a collective among devices: senders, receivers, pieces and links.

All groups of a pattern, in all reduction groups, run at the same time and therefore share links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysgym.emulator.accelerators.flows.engine import NOBODY
from sysgym.emulator.accelerators.flows.links import LinkGraph
from sysgym.emulator.accelerators.flows.schedules import make_schedule
from sysgym.emulator.accelerators.flows.simulation import Flows
from sysgym.emulator.accelerators.flows.tables import IntArray, Schedule
from sysgym.emulator.accelerators.programs.patterns import Collective
from sysgym.scenarios.errors import SysgymError


@dataclass(frozen=True, eq=False)
class Transfers:
    """A schedule in every group, group after group; arrays [n_transfers].

    Attributes:
        flows: Sizes, latencies, paths and dependencies.
        schedule: Schedule of each group: transfer t is transfer ``t % schedule.n_transfers`` of it.
        groups: Devices of each group, int32 [n_groups, n_members].
        src: Sending device, int32.
        dst: Receiving device, int32.
    """

    flows: Flows
    schedule: Schedule
    groups: IntArray
    src: IntArray
    dst: IntArray

    @property
    def n_transfers(self) -> int:
        """Number of transfers in all groups."""
        return len(self.src)


def lower_collective(
    links: LinkGraph,
    groups: ArrayLike,
    collective: Collective,
    vector_bytes: ArrayLike,
    *,
    algorithm: str = "ring",
    factors: Sequence[int] | None = None,
    chunks: int | None = None,
) -> Transfers:
    """Return the transfers of a collective that several groups run at the same time.

    If a group spans a level whose network is a ring, rings and chains run in both directions, with half of
    the bytes each.

    Args:
        links: Links of the devices.
        groups: Devices of each group, [n_groups, n_members]; the first member is the root.
        collective: Collective of each group.
        vector_bytes: Bytes of a group's whole vector, one number or [n_groups]: the data of every member
            before an AllReduce, ReduceScatter or Reduce, of the root of a Broadcast, and of every member
            after an AllGather.
        algorithm: See :mod:`~sysgym.emulator.accelerators.flows.schedules`.
        factors: Factors of a group's levels, outermost first; None for one level.
        chunks: Pieces of each pipeline of a chain or tree; None for as many as its length needs.

    Raises:
        UnknownName: There is no such algorithm.
        SysgymError: A device does not exist or is in two groups, the factors are not those of a group, or a
            size is negative or not finite.
    """
    members = np.array(groups, np.int32, ndmin=2)
    n_groups, n_members = members.shape
    if len(np.unique(members)) < members.size:
        raise SysgymError("a device is in two groups, or twice in one")
    if factors is not None and int(np.prod(factors, dtype=np.int64)) != n_members:
        raise SysgymError(f"groups of {n_members} devices are not the product of {tuple(factors)}")
    size_bytes = np.broadcast_to(np.asarray(vector_bytes, np.float64), (n_groups,))
    if not (np.isfinite(size_bytes).all() and np.all(size_bytes >= 0)):
        raise SysgymError(f"vectors of {size_bytes} bytes: expected finite sizes of at least 0")
    schedule = make_schedule(
        collective,
        algorithm,
        (n_members,) if factors is None else factors,
        channels=2 if spans_ring(links, members) else 1,
        chunks=chunks,
    )
    senders, receivers, pair_of = schedule.connections
    group = np.arange(n_groups)[:, None]
    source, target = members[:, senders], members[:, receivers]
    paths = links.paths(source.ravel(), target.ravel(), members, np.broadcast_to(group, source.shape).ravel())
    path = (pair_of + group * len(senders)).ravel()
    behind = group * schedule.n_transfers
    wait_counts = np.tile(np.diff(schedule.wait_first), n_groups)
    flows = Flows(
        size_bytes=(size_bytes[:, None] * (schedule.piece_count / max(schedule.n_pieces, 1))).ravel(),
        latency_s=links.latency_s(source.ravel(), target.ravel())[path],
        path=path.astype(np.int32),
        paths=paths,
        wait_first=np.concatenate(([0], np.cumsum(wait_counts))),
        wait_on=(schedule.wait_on + behind).ravel().astype(np.int32),
        follows=np.where(schedule.follows == NOBODY, NOBODY, schedule.follows + behind)
        .ravel()
        .astype(np.int32),
    )
    return Transfers(
        flows, schedule, members, members[:, schedule.src].ravel(), members[:, schedule.dst].ravel()
    )


def spans_ring(links: LinkGraph, groups: NDArray[np.int32]) -> bool:
    """Return whether members of a group are on different instances of a level that is a ring."""
    for index, level in enumerate(links.hierarchy.levels):
        if level.network == "ring":
            instance = groups // links.hierarchy.devices_inside(index) % level.cardinality
            if np.any(instance != instance[:, :1]):
                return True
    return False
