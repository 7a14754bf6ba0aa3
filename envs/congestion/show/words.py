"""Description of a congestion scenario in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.topology.multicommodity import (
    concurrent_flow_bound,
    equal_cost_limit,
    uniform_demands,
)
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.emulator.packets.workloads.poisson import arrival_rate_per_s, flow_sizes
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.schema.congestion import Flow, TopologyTable, WorkloadTable
from sysgym.scenarios.schema.congestion.network import Routing
from sysgym.scenarios.schema.congestion.queue import Queue
from sysgym.scenarios.schema.congestion.topology import GraphTopology
from sysgym.scenarios.units import metric_text, significant

_COLLECTIVES = {
    "ring_all_reduce": "sum up around a ring",
    "tree_all_reduce": "sum up and hand down a binomial tree",
    "all_to_all": "exchange what each has for every other, in steps",
}
_PAIRS = {
    "one_to_one": "each host x to host x + n/2",
    "stride": "host x to host x + {stride}",
    "staggered": "each host to one on its edge switch (probability {p_edge:g}), elsewhere in its pod"
    " ({p_pod:g}) or in another pod",
    "random": "each host to any other",
    "random_bijective": "each host to one other and from one other",
    "permutation": "each host to one other and from one other",
    "hotspot": "all to a few hosts",
    "all_to_all": "every host to every other",
    "iroko": "west host i to east host i",
}
_MOST_SWITCHES = 50
"""Largest number of switches for which the capacity is computed, which takes about a second."""
_SEVERAL = 2000
"""Number of port numbers tried to find the paths between two hosts."""


def in_words(scenario: CongestionScenario) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of each paragraph."""
    topology = build_topology(scenario.topology)
    yield "Network", _network(scenario, topology)
    yield "Queues", _queues(scenario)
    yield "Traffic", _traffic(scenario.workload, scenario, topology)
    faults = _faults(scenario)
    if faults:
        yield "Faults", faults
    if scenario.flow is not None:
        yield "The agent's flow", _flow(scenario.flow, topology)
    control, base_rtt_s = scenario.control, _farthest(scenario, topology)[1]
    if scenario.flow is not None and scenario.flow.decision_rtts is not None:
        yield (
            "Decisions",
            f"One every {significant(scenario.flow.decision_rtts)} mean round trips, at the latest after"
            f" {_exact('s', control.decision_interval_s)}; {control.episode_steps} in an episode.",
        )
        return
    yield (
        "Decisions",
        f"One every {_exact('s', control.decision_interval_s)}, which is"
        f" {significant(control.decision_interval_s / base_rtt_s)} empty round trips;"
        f" {control.episode_steps} in an episode of {_exact('s', scenario.horizon_s)}.",
    )


def _flow(flow: Flow, topology: Topology) -> str:
    if flow.sender is None or flow.receiver is None:
        who = "The first flow of the traffic is the agent's"
    else:
        ends = [topology.node_names[host] for host in (flow.sender, flow.receiver)]
        who = f"The agent sends from {ends[0]} to {ends[1]}, without end, beside that traffic"
    law = f", over {flow.base_transport}" if flow.preset == "orca" else ""
    return f"{who}; the other flows run {flow.background}. Preset {flow.preset}{law}."


def _exact(unit: str, value: float) -> str:
    """Return a setting with its unit, ``s``, ``bps`` or ``bytes``."""
    return metric_text(f"x_{unit}", value, exact=True)


def _about(unit: str, value: float) -> str:
    return metric_text(f"x_{unit}", value)


def _rounded(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.0f}".replace(",", " ")


def _network(scenario: CongestionScenario, topology: Topology) -> str:
    spec = scenario.topology
    n_links, base_rtt_s, n_paths = _farthest(scenario, topology)
    rate_bps = spec.link_rate_bps
    parts = [
        f"{_form(spec, topology)} Links have {_exact('bps', rate_bps)} and {_exact('s', spec.link_delay_s)}."
    ]
    if spec.kind == "graph":
        parts.append(_cables(spec, topology))
    for override in spec.overrides:
        changes = [
            f"{key.rpartition('_')[0].replace('_', ' ')} {_exact(key.rpartition('_')[2], value)}"
            for key in ("rate_bps", "delay_s", "buffer_bytes", "ecn_threshold_bytes")
            if (value := getattr(override, key)) is not None
        ]
        parts.append(f"{override.link} differs: {', '.join(changes)}.")
    paths = "one path" if n_paths == 1 else f"{n_paths} equally short paths"
    ecmp = _choice_of_path(scenario.routing) if n_paths > 1 else ""
    parts.append(
        f"Between the farthest hosts lie {n_links} links, {paths}{ecmp}; an empty round trip takes"
        f" {_about('s', base_rtt_s)}, in which a host sends {_about('bytes', rate_bps * base_rtt_s / 8)}"
        f" ({significant(rate_bps * base_rtt_s / 8 / scenario.transport.mtu_bytes, 2)} full packets)."
    )
    return " ".join(parts)


def _cables(spec: GraphTopology, topology: Topology) -> str:
    """Return the rates and delays of cables that differ from other links, and the capacity of the network."""
    parts = []
    for unit, values in (
        ("bps", [cable.rate_bps or spec.link_rate_bps for cable in spec.cables]),
        ("s", [spec.link_delay_s if cable.delay_s is None else cable.delay_s for cable in spec.cables]),
    ):
        usual = spec.link_rate_bps if unit == "bps" else spec.link_delay_s
        least, most = min(values, default=usual), max(values, default=usual)
        if (least, most) != (usual, usual):
            parts.append(
                _exact(unit, most) if least == most else f"{_exact(unit, least)} to {_exact(unit, most)}"
            )
    text = f"Cables between switches have {' and '.join(parts)}. " if parts else ""
    if topology.n_switches > _MOST_SWITCHES:
        return text.rstrip()
    demands_bps = uniform_demands(topology)
    limit, bound = equal_cost_limit(topology, demands_bps), concurrent_flow_bound(topology, demands_bps)
    return (
        f"{text}If every host sends equally to all others, its shortest paths carry {significant(limit, 2)}"
        f" of its link's rate before a cable is full, and any paths at most {significant(bound, 2)}"
        " (multi-commodity flow)."
    )


def _choice_of_path(routing: Routing) -> str:
    if routing.ecmp == "packet":
        return " of which every packet takes one at random"
    if routing.ecmp == "flowlet":
        gap = _exact("s", routing.flowlet_gap_s or 0.0)
        return f" of which a flow takes one at random, and a new one after a pause of {gap}"
    return " of which a hash of the flow's addresses and ports takes one"


def _form(spec: TopologyTable, topology: Topology) -> str:
    hosts = f"{topology.n_hosts} hosts"
    if spec.kind == "dumbbell":
        core = _exact("bps", spec.core_link_rate_bps)
        return f"A dumbbell: {hosts}, half on each of two switches that a link of {core} joins."
    if spec.kind == "single_switch":
        return f"{hosts} on one switch."
    if spec.kind == "fat_tree":
        return (
            f"A fat tree of {spec.k}-port switches: {hosts} in {spec.k} pods, {topology.n_switches} switches,"
            " as much capacity at the core as at the hosts."
        )
    if spec.kind == "graph":
        return f"A graph of {topology.n_switches} switches and {len(spec.cables)} cables with {hosts}."
    if spec.kind == "leaf_spine":
        ratio = spec.oversubscription
        room = "as much capacity up as down" if ratio <= 1 else f"{ratio:.3g}:1 oversubscribed"
        return (
            f"A leaf-spine network: {spec.leaves} leaves of {spec.hosts_per_leaf} hosts, {spec.spines}"
            f" spines, uplinks of {_exact('bps', spec.uplink_link_rate_bps)}; {room}."
        )
    core = _exact("bps", spec.core_link_rate_bps)
    return (
        f"A parking lot: {spec.bottlenecks} links of {core} in a row, a pair of hosts whose path takes"
        " them all and a pair across each."
    )


def _farthest(scenario: CongestionScenario, topology: Topology) -> tuple[int, float, int]:
    """Return links, empty round-trip time and number of shortest paths from host 0 to the farthest host."""
    others = np.arange(1, topology.n_hosts)
    first, port = np.zeros_like(others), np.zeros_like(others)
    total_s = np.zeros(len(others))
    for ends, size_bytes in (
        ((first, others), scenario.transport.mtu_bytes),
        ((others, first), scenario.transport.ack_bytes),
    ):
        routes = ecmp_routes(topology, *ends, port, port)
        hop_s = topology.hop_s(size_bytes)
        total_s += np.where(routes >= 0, hop_s[routes], 0.0).sum(axis=1)
    far = int(np.argmax(total_s))
    ports = np.arange(_SEVERAL)
    routes = ecmp_routes(topology, np.zeros(_SEVERAL), np.full(_SEVERAL, others[far]), ports, ports)
    return int((routes[0] >= 0).sum()), float(total_s[far]), len(np.unique(routes, axis=0))


def _queues(scenario: CongestionScenario) -> str:
    queue, rate_bps = scenario.queue, scenario.topology.link_rate_bps

    def time(size_bytes: float) -> str:
        return f"{_exact('bytes', size_bytes)} ({_about('s', size_bytes * 8 / rate_bps)} of a link)"

    text = f"A switch port holds {time(queue.buffer_bytes)}"
    if queue.shared_buffer_bytes is not None:
        text = (
            f"All ports of a switch share {time(queue.shared_buffer_bytes)}; each takes at most"
            f" {queue.alpha:g} times what is free, no more than {_exact('bytes', queue.buffer_bytes)},"
        )
    if queue.discipline == "red" and queue.red_min_bytes is not None and queue.red_max_bytes is not None:
        text += (
            f" and, by random early detection, {queue.red_action}s packets from an average of"
            f" {time(queue.red_min_bytes)} on."
        )
    elif queue.ecn_threshold_bytes is None:
        text += " and marks nothing."
    else:
        text += f" and marks packets that find more than {time(queue.ecn_threshold_bytes)}."
    if queue.pfc_pause_bytes is not None:
        text += f" What comes over a link is paused when {time(queue.pfc_pause_bytes)} of it are held."
    return text + _classes(queue)


def _classes(queue: Queue) -> str:
    if queue.classes == 1:
        return ""
    order = "each by its weight" if queue.scheduler == "wrr" else "a higher one before all lower ones"
    text = f" All this holds for each of {queue.classes} classes of packets, which are served {order}."
    if queue.trim:
        text += " A data packet that finds no room is cut to its header."
    return text


def _traffic(workload: WorkloadTable, scenario: CongestionScenario, topology: Topology) -> str:
    if workload.kind == "mix":
        parts = (
            f"{name.replace('_', ' ')}: {_traffic(part, scenario, topology)}"
            for name, part in workload.parts.items()
        )
        return "Several at once. " + " ".join(parts)
    if workload.kind == "incast":
        load = (
            workload.senders
            * workload.request_bytes
            * 8
            / workload.period_s
            / scenario.topology.link_rate_bps
        )
        whom = "host 0" if workload.receiver == "first" else "a host drawn for each round"
        return (
            f"Every {_exact('s', workload.period_s)} {workload.senders} hosts send"
            f" {_exact('bytes', workload.request_bytes)} each to {whom} at once:"
            f" {_about('bytes', workload.senders * workload.request_bytes)} a round, {load:.2f} of"
            " a link on average."
        )
    if workload.kind == "training":
        jobs = "One job" if workload.jobs == 1 else f"{workload.jobs} jobs"
        each = " each" if workload.jobs > 1 else ""
        return (
            f"{jobs} on {workload.job_hosts} hosts{each}, {workload.placement}: its hosts compute for"
            f" {_exact('s', workload.compute_s)}, then {_COLLECTIVES[workload.collective]}"
            f" ({_exact('bytes', workload.size_bytes)} at every host), over and over. A message is sent when"
            " those that it depends on have arrived."
        )
    pairs = _PAIRS[workload.matrix].format(
        stride=workload.stride, p_edge=workload.p_edge, p_pod=workload.p_pod
    )
    if workload.matrix == "one_to_one" and scenario.topology.kind == "dumbbell":
        pairs = "each west host to the east host across"
    if workload.matrix == "one_to_one" and scenario.topology.kind == "parking_lot":
        pairs = "one across all bottlenecks, one across each"
    if workload.kind == "long_lived":
        many = "One flow" if workload.flows_per_pair == 1 else f"{workload.flows_per_pair} flows"
        return f"{many} for each pair of hosts, without end: {pairs}."
    if workload.kind == "on_off":
        average = _about("bps", workload.rate_bps * workload.busy_fraction)
        return (
            f"Bursts, {pairs}: a pair sends at {_exact('bps', workload.rate_bps)} for"
            f" {_exact('s', workload.on_s)}, is silent for {_exact('s', workload.off_s)} ({workload.periods},"
            f" on average), which makes {average} a pair; in flows of"
            f" {_exact('bytes', workload.message_bytes)}."
        )
    sizes = flow_sizes(workload)
    ends = scenario.transport
    rate = arrival_rate_per_s(workload, topology, mtu_bytes=ends.mtu_bytes, header_bytes=ends.header_bytes)
    median, tail = (float(sizes.quantile(p)) for p in (0.5, 0.99))
    return (
        f"Flows arrive at random (a Poisson process), {pairs}: {workload.load:.3g} of each sender's"
        f" link, about {_rounded(rate * scenario.horizon_s)} flows an episode. Sizes, {workload.flow_sizes}:"
        f" mean {_about('bytes', sizes.mean_bytes())}, median {_about('bytes', median)}, one in a hundred"
        f" above {_about('bytes', tail)}."
    )


def _faults(scenario: CongestionScenario) -> str:
    faults, parts = scenario.faults, []
    if faults.loss_probability > 0:
        parts.append(f"Every link loses one packet in {significant(1 / faults.loss_probability)} at random.")
    for fault in faults.links:
        until = "for good" if fault.up_s is None else f"until {_exact('s', fault.up_s)}"
        parts.append(f"{fault.link} is down from {_exact('s', fault.down_s)} {until}.")
    for change in faults.rate_changes:
        low, high = (float(end) for end in (change.interval_s.low, change.interval_s.high))
        drawn = f"every {_exact('s', low)} to {_exact('s', high)}"
        if change.rate_bps is not None:
            rates = f"{_exact('bps', change.rate_bps.low)} to {_exact('bps', change.rate_bps.high)}"
        else:
            assert change.factor is not None
            rates = f"{change.factor.low:g} to {change.factor.high:g} times its rate"
        parts.append(f"The rate of {change.link} is drawn again {drawn}: {rates}.")
    if faults.links:
        parts.append(f"Switches route around it after {_exact('s', faults.reroute_s)}.")
    return " ".join(parts)
