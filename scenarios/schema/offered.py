"""Mean offered load of a workload on every link of a network.

Only open-loop traffic counts: long-lived flows and collectives take what they get.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.network import Transport
from sysgym.scenarios.schema.topology import Cut, TopologyTable
from sysgym.scenarios.schema.traffic import (
    IncastWorkload,
    OnOffWorkload,
    PartTable,
    PoissonWorkload,
    WorkloadTable,
    parts_of,
)

HOSTS_PER_HOT_HOST = 8
"""Of the matrix hotspot: one host in so many receives."""


@dataclass(frozen=True)
class _Offered:
    """What one workload offers, bit/s on the wire.

    Attributes:
        key: What to lower, such as ``workload.load``.
        value: Its value.
        sent_bps: Sent by a host that sends.
        received_bps: Received by the host that receives most.
        crossing: What crosses each cut of the topology in one direction.
    """

    key: str
    value: float
    sent_bps: float
    received_bps: float
    crossing: tuple[float, ...]


def offered_problems(
    workload: WorkloadTable, topology: TopologyTable, transport: Transport
) -> Iterator[Problem]:
    """Yield where the traffic would fill a link to or above its capacity, on average, overrides left out.

    Args:
        workload: The ``[workload]`` table.
        topology: The ``[topology]`` table.
        transport: The ``[transport]`` table; headers count.
    """
    offers = [
        offered
        for key, part in parts_of(workload).items()
        if (offered := _offered(key, part, topology, transport)) is not None
    ]
    if not offers:
        return
    totals = [
        ("what a host sends", sum(offer.sent_bps for offer in offers), topology.link_rate_bps),
        ("what a host receives", sum(offer.received_bps for offer in offers), topology.link_rate_bps),
    ]
    for index, cut in enumerate(topology.cuts()):
        totals.append((f"what crosses {cut.name}", sum(o.crossing[index] for o in offers), cut.capacity_bps))
    worst = max(totals, key=lambda total: total[1] / total[2])
    what, offered_bps, capacity_bps = worst
    if offered_bps >= capacity_bps:
        first = max(offers, key=lambda offer: max(offer.sent_bps, offer.received_bps))
        yield Problem(
            first.key,
            first.value,
            f"less traffic: {what} is {offered_bps / capacity_bps:.3g} of the links' capacity on average",
            "at 1 or above the queue never ends: offer less, or use faster links",
        )


def hot_hosts(n_hosts: int) -> int:
    """Return how many hosts receive in the matrix hotspot."""
    return max(1, n_hosts // HOSTS_PER_HOT_HOST)


def wire_bytes(payload_bytes: int, transport: Transport) -> int:
    """Return a flow's bytes on the wire: payload and the headers of its packets."""
    return payload_bytes + transport.header_bytes * -(-payload_bytes // transport.payload_bytes)


def _offered(key: str, part: PartTable, topology: TopologyTable, transport: Transport) -> _Offered | None:
    hosts, cuts = topology.n_hosts, tuple(topology.cuts())
    if isinstance(part, IncastWorkload):
        per_sender_bps = 8 * wire_bytes(part.request_bytes, transport) / part.period_s
        # Host 0 receives all of it, or one host after another; senders are any of the others.
        received_bps = part.senders * per_sender_bps / (1 if part.receiver == "first" else hosts)
        sent_bps = per_sender_bps * part.senders / (hosts - 1)
        return _Offered(
            f"{key}.period_s",
            part.period_s,
            sent_bps,
            received_bps,
            tuple(sent_bps * _toward_one(cut, hosts, part.receiver == "first") for cut in cuts),
        )
    if isinstance(part, PoissonWorkload):
        pair_bps, pairs, value = part.load * topology.link_rate_bps, 1, part.load
    elif isinstance(part, OnOffWorkload):
        pair_bps, value = part.rate_bps * part.busy_fraction, part.rate_bps
        pairs = hosts - 1 if part.pairs == "all_to_all" else 1
    else:
        return None
    in_degree = pairs
    if part.matrix == "hotspot":
        hot = hot_hosts(hosts)
        in_degree = -(-(hosts - hot) // hot)
    return _Offered(
        f"{key}.load" if isinstance(part, PoissonWorkload) else f"{key}.rate_bps",
        value,
        pairs * pair_bps,
        in_degree * pair_bps,
        tuple(pairs * pair_bps * _crossing(part, topology, cut) for cut in cuts),
    )


def _toward_one(cut: Cut, hosts: int, to_first: bool) -> float:
    """Hosts on the far side of a cut from the receiver, on average over receivers if it is drawn."""
    if to_first:
        return hosts - cut.hosts
    return cut.hosts * (hosts - cut.hosts) / hosts


def _crossing(part: PoissonWorkload | OnOffWorkload, topology: TopologyTable, cut: Cut) -> float:
    """Hosts whose traffic crosses a cut in one direction, on average; each host sends to one."""
    hosts, inside = topology.n_hosts, cut.hosts
    any_other = inside * (hosts - inside) / (hosts - 1)
    if part.matrix == "hotspot":
        return any_other * (hosts - hot_hosts(hosts)) / hosts
    if part.matrix in ("one_to_one", "iroko") and topology.kind in ("dumbbell", "parking_lot"):
        return inside if topology.kind == "dumbbell" else 2
    if part.matrix in ("one_to_one", "stride"):
        if topology.kind == "parking_lot":
            return 0.0  # depends on which hosts lie where: left to the simulation
        stride = hosts // 2 if part.matrix == "one_to_one" else part.stride
        return sum((host + stride) % hosts >= inside for host in range(inside))
    return any_other
