"""Traffic of training jobs: iterations of computation followed by a collective among the job's hosts.

A collective is a set of messages, each sent when the messages that it depends on have ended. The algorithms
are those of Thakur, Rabenseifner and Gropp (IJHPCA 2005): the ring (Patarasuk and Yuan, JPDC 2009), the
binomial tree and the pairwise exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.memory.records import NOBODY
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads.schedule import MOST_FLOWS, FlowSchedule, make_schedule, nanoseconds
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import TrainingWorkload

Ints = NDArray[np.int64]


class Collective(NamedTuple):
    """Messages of one collective among ranks 0 .. n - 1, each listed after those that it waits for."""

    src: Ints
    """Sending rank, shape (n_messages,)."""
    dst: Ints
    """Receiving rank, shape (n_messages,)."""
    size_bytes: Ints
    """Payload, shape (n_messages,)."""
    after: Ints
    """Messages that must end before each one, shape (n_messages, most per message), padded with -1."""
    done: Ints
    """Messages whose ends complete each rank's result, shape (n_ranks, most per rank), padded with -1."""


def training(
    spec: TrainingWorkload,
    topology: Topology,
    rng: np.random.Generator,
    horizon_s: float,
    *,
    mtu_bytes: int,
    header_bytes: int,
) -> FlowSchedule:
    """Return as many iterations of every job as could fit before the horizon in an empty network.

    A rank sends its first message of an iteration ``compute_s`` (plus the job's jitter) after it has the
    result of the previous one. The first iteration begins within ``start_jitter_s``. Every pair of ranks
    keeps one connection, so its messages take one path. ``group`` numbers the iterations of all jobs.

    Raises:
        SysgymError: If the jobs need more hosts than the topology has, or too many messages are possible.
    """
    n_hosts, n_ranks = topology.n_hosts, spec.job_hosts
    if n_ranks * spec.jobs > n_hosts:
        raise SysgymError(
            f"training: {spec.jobs} jobs of {n_ranks} hosts need more than the topology's {n_hosts}"
        )
    collective = _COLLECTIVES[spec.collective](n_ranks, spec.size_bytes)
    line_rate_bps = float(topology.link_rate_bps[topology.host_uplink].max())
    least_s = spec.compute_s + _least_s(collective, line_rate_bps, mtu_bytes, header_bytes)
    n_iterations = int(horizon_s / least_s) + 1 if horizon_s > 0 else 0
    n_messages = len(collective.src)
    if spec.jobs * n_iterations * n_messages > MOST_FLOWS:
        raise SysgymError(
            f"training: up to {n_iterations} iterations of {n_messages} messages in each of {spec.jobs} jobs;"
            f" at most {MOST_FLOWS} messages are possible"
        )
    order = np.arange(n_hosts) if spec.placement == "packed" else rng.permutation(n_hosts)
    hosts = order[: spec.jobs * n_ranks].reshape(spec.jobs, n_ranks)
    start_ns = rng.integers(0, nanoseconds(spec.start_jitter_s), size=spec.jobs, endpoint=True)
    jitter_ns = rng.integers(
        0, nanoseconds(spec.compute_jitter_s), size=(spec.jobs, n_iterations), endpoint=True
    )
    after, begins = _repeated(collective, n_iterations)
    shape = (spec.jobs, n_iterations, n_messages)
    job, iteration, message = (index.ravel() for index in np.indices(shape))
    offset = (job * n_iterations * n_messages)[:, np.newaxis]
    awaited = np.tile(after, (spec.jobs, 1))
    delay_ns = np.where(begins[message], nanoseconds(spec.compute_s) + jitter_ns[job, iteration], 0)
    src, dst = hosts[job, collective.src[message]], hosts[job, collective.dst[message]]
    return make_schedule(
        rng,
        src,
        dst,
        size_bytes=collective.size_bytes[message],
        start_ns=start_ns[job],
        group=job * n_iterations + iteration,
        after=np.where(awaited == NOBODY, NOBODY, awaited + offset),
        after_delay_ns=delay_ns,
        connection=src * n_hosts + dst,
    )


def ring_all_reduce(n_ranks: int, size_bytes: int) -> Collective:
    """Return a ring all-reduce of 2 (n - 1) steps, in which every rank passes a share of 1/n to the next.

    The first half of the steps reduces, the second half distributes the results. In step s, rank r sends the
    share r - s (mod n) that it received in step s - 1, once its own message of that step has also ended,
    because messages of a connection are sequential. Every rank sends 2 (n - 1)/n of its data.
    """
    n_steps = 2 * (n_ranks - 1)
    step, rank = (index.ravel() for index in np.indices((n_steps, n_ranks)))
    received, sent = (step - 1) * n_ranks + (rank - 1) % n_ranks, (step - 1) * n_ranks + rank
    after = np.where(step[:, np.newaxis] > 0, np.column_stack((received, sent)), NOBODY)
    shares = _shares(n_ranks, size_bytes)
    ranks, last = np.arange(n_ranks), (n_steps - 1) * n_ranks
    return Collective(
        src=rank,
        dst=(rank + 1) % n_ranks,
        size_bytes=shares[(rank - step) % n_ranks],
        after=after,
        done=np.column_stack((last + (ranks - 1) % n_ranks, last + ranks)),
    )


def tree_all_reduce(n_ranks: int, size_bytes: int) -> Collective:
    """Return a tree all-reduce: data are summed up a binomial tree with root 0, and sent down again.

    Up: rank r sends to r minus its lowest set bit when it has received from all its children. Down: a rank
    sends to its children one after the other, the one with the largest subtree first. Each rank but the root
    sends its data up once, and there are n - 1 messages down in all.
    """
    children: list[list[int]] = [
        [rank + bit for bit in _bits(rank, n_ranks) if rank + bit < n_ranks] for rank in range(n_ranks)
    ]
    ends: list[tuple[int, int]] = []
    awaited: list[list[int]] = []
    up: dict[int, int] = {}
    # A rank comes after its children, whose numbers are higher.
    for rank in range(n_ranks - 1, 0, -1):
        up[rank] = len(ends)
        ends.append((rank, rank & (rank - 1)))
        awaited.append([up[child] for child in children[rank]])
    down: dict[int, int] = {}
    for rank in range(n_ranks):
        before = [down[rank]] if rank else [up[child] for child in children[0]]
        for child in reversed(children[rank]):
            down[child] = len(ends)
            ends.append((rank, child))
            awaited.append(before)
            before = [down[child]]
    # The root has the sum after its children's messages, every other rank after its parent's message.
    done = [[up[child] for child in children[0]], *([down[rank]] for rank in range(1, n_ranks))]
    src, dst = np.array(ends, dtype=np.int64).T
    return Collective(src, dst, np.full(len(src), size_bytes), _padded(awaited), _padded(done))


def all_to_all(n_ranks: int, size_bytes: int) -> Collective:
    """Return a pairwise exchange: in step s = 1 .. n - 1, rank r sends a share of 1/n to rank r + s (mod n).

    A rank begins its next step when it has sent and received in the present one. It keeps one share itself,
    so it sends (n - 1)/n of its data.
    """
    n_steps = n_ranks - 1
    step, rank = (index.ravel() for index in np.indices((n_steps, n_ranks)))
    # Steps count from 1, indices from 0: the previous step has the number ``step``, and its sender was
    # ``step`` ranks behind.
    sent, received = (step - 1) * n_ranks + rank, (step - 1) * n_ranks + (rank - step) % n_ranks
    after = np.where(step[:, np.newaxis] > 0, np.column_stack((sent, received)), NOBODY)
    ranks, last = np.arange(n_ranks), (n_steps - 1) * n_ranks
    dst = (rank + step + 1) % n_ranks
    return Collective(
        src=rank,
        dst=dst,
        size_bytes=_shares(n_ranks, size_bytes)[dst],
        after=after,
        done=np.column_stack((last + ranks, last + (ranks - n_steps) % n_ranks)),
    )


def _shares(n_ranks: int, size_bytes: int) -> Ints:
    """Return the sizes of n shares that differ by at most a byte."""
    edges = np.arange(n_ranks + 1, dtype=np.int64) * size_bytes // n_ranks
    return np.diff(edges)


def _bits(rank: int, n_ranks: int) -> list[int]:
    """Return the powers of two below the rank's lowest set bit; for rank 0, all below the number of ranks."""
    lowest = rank & -rank if rank else n_ranks
    return [1 << i for i in range(lowest.bit_length()) if (1 << i) < lowest]


def _padded(rows: list[list[int]]) -> Ints:
    width = max((len(row) for row in rows), default=0)
    return np.array([row + [NOBODY] * (width - len(row)) for row in rows], dtype=np.int64).reshape(-1, width)


def _repeated(collective: Collective, n_iterations: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Return ``after`` of consecutive iterations, and which messages begin a rank's part of an iteration."""
    n_messages = len(collective.src)
    begins = np.all(collective.after == NOBODY, axis=1)
    width = max(collective.after.shape[1], collective.done.shape[1])
    after = np.full((n_iterations, n_messages, width), NOBODY, dtype=np.int64)
    within = collective.after[np.newaxis] + (np.arange(n_iterations) * n_messages)[:, np.newaxis, np.newaxis]
    after[:, :, : collective.after.shape[1]] = np.where(collective.after == NOBODY, NOBODY, within)
    done = collective.done[collective.src[begins]]
    for iteration in range(1, n_iterations):
        earlier = np.where(done == NOBODY, NOBODY, done + (iteration - 1) * n_messages)
        after[iteration, begins, : done.shape[1]] = earlier
    return after.reshape(-1, width), begins


def _least_s(collective: Collective, rate_bps: float, mtu_bytes: int, header_bytes: int) -> float:
    """Return the time of a collective at line rate in an empty network: its longest chain of messages."""
    n_packets = -(-collective.size_bytes // (mtu_bytes - header_bytes))
    own_s = 8.0 * (collective.size_bytes + header_bytes * n_packets) / rate_bps
    end_s = np.zeros(len(own_s) + 1)
    for message, awaited in enumerate(collective.after):
        end_s[message] = own_s[message] + end_s[awaited].max(initial=0.0)
    return float(end_s.max())


_COLLECTIVES: dict[str, Callable[[int, int], Collective]] = {
    "ring_all_reduce": ring_all_reduce,
    "tree_all_reduce": tree_all_reduce,
    "all_to_all": all_to_all,
}
