"""Times of rings and chains of P2's systems, round by round, for brute forces: no closed form is used."""

from __future__ import annotations

from collections.abc import Sequence

INNER, NIC, INNER_LATENCY, OUTER_LATENCY = 235e9, 8.4e9, 3e-6, 14e-6


def crossings(group: Sequence[int], gpus: int, *, closed: bool) -> list[bool]:
    """Return for each hop from a member to the next one whether it leaves a node.

    Args:
        group: Devices in the order of the ring or chain.
        gpus: Devices of a node.
        closed: Whether there is a hop from the last member to the first one.
    """
    after = [*group[1:], group[0]] if closed else group[1:]
    return [one // gpus != other // gpus for one, other in zip(group, after, strict=False)]


def ring_time_s(group: Sequence[int], gpus: int, phases: int, size_bytes: float, per_nic: int) -> float:
    """Return when the last member of a ring has received its last piece.

    In every round each member sends a piece to the next one, when it has sent its piece of the round before
    and has received what it now sends on. A piece takes its time on the hop's slowest link, and then
    a latency on its way.

    Args:
        group: Devices in the order of the ring.
        gpus: Devices of a node.
        phases: 2 for an all-reduce, 1 for a reduce-scatter or an all-gather.
        size_bytes: Bytes of the vector.
        per_nic: Rings that share a NIC.
    """
    n = len(group)
    if n == 1:
        return 0.0
    piece = size_bytes / n
    hops = crossings(group, gpus, closed=True)
    send_s = [max(piece / INNER, per_nic * piece / NIC) if crosses else piece / INNER for crosses in hops]
    wait_s = [OUTER_LATENCY if crosses else INNER_LATENCY for crosses in hops]
    sent_s, arrived_s = [0.0] * n, [0.0] * n
    for _ in range(phases * (n - 1)):
        sent_s = [max(sent_s[at], arrived_s[at - 1]) + send_s[at] for at in range(n)]
        arrived_s = [sent_s[at] + wait_s[at] for at in range(n)]
    return max(arrived_s)


def chain_time_s(group: Sequence[int], gpus: int, size_bytes: float, per_nic: int) -> float:
    """Return the time of a chain that is a pipeline of ever so small pieces: a reduce or a broadcast.

    The fullest link carries the whole vector for each chain, and the first piece meets every hop's latency.

    Args:
        group: Devices in the order of the chain.
        gpus: Devices of a node.
        size_bytes: Bytes of the vector.
        per_nic: Chains that share a NIC.
    """
    hops = crossings(group, gpus, closed=False)
    if not hops:
        return 0.0
    wait_s = sum(OUTER_LATENCY if crosses else INNER_LATENCY for crosses in hops)
    return max(size_bytes / INNER, per_nic * size_bytes / NIC if any(hops) else 0.0) + wait_s
