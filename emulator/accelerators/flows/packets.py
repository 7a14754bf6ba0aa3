"""Simulation of a collective among the hosts of a packet network, compared with models of its time.

Every round of a collective (the data that a ring or halving-doubling sends between two waits) becomes one
flow for each transfer. The round ends when the slowest flow has arrived, and the next one starts with new
flows. Compared with the alpha-beta cost this adds headers, ACKs of received data, slow start in every round,
hops that store a packet before they forward it, and sharing of links where ECMP sends several flows over the
same one. The flow model has all of these but slow start and queues.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.engine import NOBODY
from sysgym.emulator.accelerators.flows.schedules import make_schedule
from sysgym.emulator.accelerators.flows.simulation import Flows, simulate
from sysgym.emulator.accelerators.flows.tables import FloatArray, Paths, Schedule
from sysgym.emulator.accelerators.programs.patterns import Collective
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.workloads.schedule import FlowSchedule
from sysgym.emulator.packets.workloads.schedule import make_schedule as make_flows
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError

_MOST_TIMES_THE_MODEL = 1000.0
_BITS = 8.0


@dataclass(frozen=True, eq=False)
class PacketRun:
    """The run of a collective among all hosts of a packet network, and the times of models.

    Attributes:
        topology: Kind of the network.
        transport: Name of the congestion control.
        algorithm: Algorithm of the collective.
        size_bytes: Bytes of the vector on each host.
        n_hosts: Number of hosts.
        n_flows: Number of flows of all rounds.
        round_s: Time of each round at packet level, float64 [n_rounds].
        flow_round_s: Time of each round in the flow model: max-min fair rates on the same routes, with
            headers and ACKs, float64 [n_rounds].
        model_round_s: Time of each round by alpha-beta: the longest propagation delay plus the most bytes of
            a host over its link, float64 [n_rounds].
        retransmitted_packets: Number of retransmissions in all rounds.
    """

    topology: str
    transport: str
    algorithm: str
    size_bytes: float
    n_hosts: int
    n_flows: int
    round_s: FloatArray
    flow_round_s: FloatArray
    model_round_s: FloatArray
    retransmitted_packets: int

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return len(self.round_s)

    @property
    def time_s(self) -> float:
        """Time of the collective at packet level."""
        return float(self.round_s.sum())

    @property
    def flow_time_s(self) -> float:
        """Time of the collective in the flow model."""
        return float(self.flow_round_s.sum())

    @property
    def model_time_s(self) -> float:
        """Time of the collective by alpha-beta."""
        return float(self.model_round_s.sum())


def fabric(kind: str, hosts: int = 16, *, link_rate_bps: float = 10e9) -> CongestionScenario:
    """Return a network for collectives: queues, delays and end hosts of the scenario fattree-k4-websearch.

    Args:
        kind: ``single_switch`` or ``fat_tree``.
        hosts: Number of hosts; k**3/4 with k even for a fat tree.
        link_rate_bps: Rate of every link, bit/s.

    Raises:
        SysgymError: There is no fat tree with this number of hosts.
        ScenarioError: The kind or a number is invalid.
    """
    base = load_scenario("fattree-k4-websearch", expect=CongestionScenario)
    table = {
        "kind": kind,
        "link_rate_bps": link_rate_bps,
        "link_delay_s": base.topology.link_delay_s,
    }
    if kind == "fat_tree":
        ports = round((4 * hosts) ** (1 / 3))
        if ports % 2 or ports**3 != 4 * hosts:
            raise SysgymError(f"no fat tree has {hosts} hosts: with k ports, k even, it has k**3/4")
        table["k"] = ports
    else:
        table["hosts"] = hosts
    return load_scenario("fattree-k4-websearch", overrides={"topology": table}, expect=CongestionScenario)


def run_on_packets(
    scenario: CongestionScenario,
    size_bytes: float,
    *,
    algorithm: str = "ring",
    collective: Collective = Collective.ALL_REDUCE,
    transport: str | Transport = "dctcp",
    seed: int = 0,
) -> PacketRun:
    """Run a collective among all hosts of a network, packet by packet.

    Args:
        scenario: The network; its workload is not used.
        size_bytes: Bytes of the vector on each host; for an AllGather, after it.
        algorithm: ``ring`` or ``halving_doubling``, whose rounds are the same for all hosts.
        collective: ``ALL_REDUCE``, ``REDUCE_SCATTER`` or ``ALL_GATHER``.
        transport: Congestion control of all flows.
        seed: Seed of ports, which decide the routes, and of the hosts' jitter.

    Raises:
        UnknownName: There is no such algorithm or transport.
        SysgymError: The collective or algorithm is a pipeline, or a round does not end.
    """
    network = PacketNetwork(scenario, transport=transport)
    if collective in (Collective.REDUCE, Collective.BROADCAST) or algorithm == "tree":
        raise SysgymError(
            f"{algorithm} {collective.value} is a pipeline: its rounds are not one after another"
        )
    schedule = make_schedule(collective, algorithm, _factors(network.topology))
    round_s, flow_round_s, model_round_s = (np.zeros(schedule.n_rounds) for _ in range(3))
    retransmitted = 0
    for turn in range(schedule.n_rounds):
        rng = np.random.default_rng((seed, turn))
        flows = _round(schedule, turn, size_bytes, rng)
        network.reset(int(rng.integers(2**31)), flows)
        model_round_s[turn] = _model_s(network, flows)
        flow_round_s[turn] = _flow_model_s(network, flows)
        round_s[turn] = _run(network, model_round_s[turn])
        retransmitted += int(network.flows().retransmitted_packets.sum())
    return PacketRun(
        topology=network.topology.kind,
        transport=network.transport.name,
        algorithm=algorithm,
        size_bytes=size_bytes,
        n_hosts=network.n_hosts,
        n_flows=schedule.n_transfers,
        round_s=round_s,
        flow_round_s=flow_round_s,
        model_round_s=model_round_s,
        retransmitted_packets=retransmitted,
    )


def _factors(topology: Topology) -> tuple[int, ...]:
    """Return the hosts as a product: pods, switches per pod, hosts per switch."""
    if topology.kind != "fat_tree":
        return (topology.n_hosts,)
    ports = round((4 * topology.n_hosts) ** (1 / 3))
    return (ports, ports // 2, ports // 2)


def _round(schedule: Schedule, turn: int, size_bytes: float, rng: np.random.Generator) -> FlowSchedule:
    chosen = np.flatnonzero(schedule.round == turn)
    share = schedule.piece_count[chosen] / schedule.n_pieces
    return make_flows(
        rng,
        schedule.src[chosen],
        schedule.dst[chosen],
        size_bytes=np.maximum(np.ceil(size_bytes * share), 1).astype(np.int64),
        start_ns=0,
    )


def _run(network: PacketNetwork, model_s: float) -> float:
    """Run a round's flows; return the time when the last one has arrived."""
    while not np.isfinite(network.flows().finish_s).all():
        if network.now_s > _MOST_TIMES_THE_MODEL * model_s + 1.0:
            raise SysgymError(f"{network.scenario.name}: a round has not ended after {network.now_s:.3g} s")
        network.advance(max(model_s / 4, 1e-6))
    return float(network.flows().finish_s.max())


def _delays_s(network: PacketNetwork) -> FloatArray:
    """Return the propagation delay of every flow's route, float64 [n_flows]."""
    routes = network.routes()
    delay_s: FloatArray = np.where(routes == NOBODY, 0.0, network.topology.link_delay_s[routes]).sum(axis=1)
    return delay_s


def _model_s(network: PacketNetwork, flows: FlowSchedule) -> float:
    sizes = flows.size_bytes.astype(np.float64)
    busiest_s = max(
        float((np.bincount(end, sizes, network.n_hosts) * _BITS / network.line_rate_bps).max())
        for end in (flows.src, flows.dst)
    )
    return busiest_s + float(_delays_s(network).max())


def _flow_model_s(network: PacketNetwork, flows: FlowSchedule) -> float:
    ends, routes, ack_routes = network.scenario.transport, network.routes(), network.routes(acks=True)
    packets = -(-flows.size_bytes // ends.payload_bytes)
    hop_s = ends.mtu_bytes * _BITS / network.topology.link_rate_bps[routes[:, 1:]]
    # All hops but the first wait for a whole packet.
    store_s = np.where(routes[:, 1:] != NOBODY, hop_s, 0.0).sum(axis=1)
    both = np.concatenate((routes, ack_routes), axis=1)
    share = np.repeat((1.0, ends.ack_bytes / ends.mtu_bytes), (routes.shape[1], ack_routes.shape[1]))
    used: NDArray[np.bool_] = both != NOBODY
    n_flows = len(routes)
    return simulate(
        Flows(
            size_bytes=(flows.size_bytes + packets * ends.header_bytes).astype(np.float64),
            latency_s=_delays_s(network) + store_s,
            path=np.arange(n_flows, dtype=np.int32),
            paths=Paths(
                np.concatenate(([0], np.cumsum(used.sum(axis=1)))),
                both[used].astype(np.int32),
                np.broadcast_to(share, both.shape)[used],
            ),
            wait_first=np.zeros(n_flows + 1, np.int64),
            wait_on=np.zeros(0, np.int32),
            follows=np.full(n_flows, NOBODY, np.int32),
        ),
        network.topology.link_rate_bps / _BITS,
    ).time_s
