"""Mean offered load of a workload on the links of a network.

Only open-loop traffic counts; long-lived flows and collectives adapt to the available capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.congestion.topology import Cut, TopologyTable
from sysgym.scenarios.schema.congestion.traffic import (
    IncastWorkload,
    OnOffWorkload,
    PartTable,
    PoissonWorkload,
    WorkloadTable,
    parts_of,
)
from sysgym.scenarios.schema.congestion.transport import Transport

HOSTS_PER_HOT_HOST = 8
"""Number of hosts per receiving host in the matrix hotspot."""


@dataclass(frozen=True)
class _Offered:
    """Offered load of one workload, bit/s on the wire.

    Attributes:
        key: Key to lower if the load is too high, such as ``workload.load``.
        value: Value of that key.
        sent_bps: Load sent by a sending host.
        received_bps: Load received by the host that receives most.
        crossing: Load across each cut of the topology in one direction.
    """

    key: str
    value: float
    sent_bps: float
    received_bps: float
    crossing: tuple[float, ...]


def offered_problems(
    workload: WorkloadTable, topology: TopologyTable, transport: Transport
) -> Iterator[Problem]:
    """Yield a problem for each link that the mean traffic would fill to or above capacity.

    Overrides of links are ignored.

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
    """Return the number of receiving hosts in the matrix hotspot."""
    return max(1, n_hosts // HOSTS_PER_HOT_HOST)


def wire_bytes(payload_bytes: int, transport: Transport) -> int:
    """Return a flow's bytes on the wire: its payload and the headers of its packets."""
    return payload_bytes + transport.header_bytes * -(-payload_bytes // transport.payload_bytes)


def _offered(key: str, part: PartTable, topology: TopologyTable, transport: Transport) -> _Offered | None:
    hosts, cuts = topology.n_hosts, tuple(topology.cuts())
    if isinstance(part, IncastWorkload):
        per_sender_bps = 8 * wire_bytes(part.request_bytes, transport) / part.period_s
        # Host 0 receives everything, or one host after another does; senders are any of the others.
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
    """Return the number of hosts across a cut from the receiver, averaged over a random receiver."""
    if to_first:
        return hosts - cut.hosts
    return cut.hosts * (hosts - cut.hosts) / hosts


def _crossing(part: PoissonWorkload | OnOffWorkload, topology: TopologyTable, cut: Cut) -> float:
    """Return the mean number of hosts whose traffic crosses a cut in one direction, one receiver each."""
    hosts, inside = topology.n_hosts, cut.hosts
    any_other = inside * (hosts - inside) / (hosts - 1)
    if part.matrix == "hotspot":
        return any_other * (hosts - hot_hosts(hosts)) / hosts
    if part.matrix in ("one_to_one", "iroko") and topology.kind in ("dumbbell", "parking_lot"):
        return inside if topology.kind == "dumbbell" else 2
    if part.matrix in ("one_to_one", "stride"):
        if topology.kind == "parking_lot":
            return 0.0  # depends on the positions of the hosts: left to the simulation
        stride = hosts // 2 if part.matrix == "one_to_one" else part.stride
        return sum((host + stride) % hosts >= inside for host in range(inside))
    return any_other
