"""Work and memory of an episode, estimated from the scenario alone, without drawing or building anything.

The number of flows is that of the workloads' distributions. The estimate is for senders that use the
available capacity, as classic transports do; a policy that limits senders causes less work. Tests hold it to
a factor of three.
"""

from __future__ import annotations

import functools
import math
import os
import warnings
from pathlib import Path
from typing import NamedTuple

from sysgym.emulator.packets.engine.events import SOURCES_PER_FLOW
from sysgym.emulator.packets.engine.forwarding import looks_up_paths
from sysgym.emulator.packets.engine.ports import QUEUE_BUCKETS
from sysgym.emulator.packets.memory import records
from sysgym.emulator.packets.memory.flow_record import FLOW, SENT_TIME, TRANSMISSION
from sysgym.emulator.packets.sizing.topology_size import TopologySize, topology_size
from sysgym.emulator.packets.workloads.flow_sizes import FlowSizeDistribution, get_flow_sizes
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.congestion import (
    CongestionScenario,
    IncastWorkload,
    LongLivedWorkload,
    OnOffWorkload,
    PoissonWorkload,
    TrainingWorkload,
)
from sysgym.scenarios.schema.congestion.offered import hot_hosts, wire_bytes
from sysgym.scenarios.schema.congestion.traffic import PartTable, parts_of

PACKET_HOPS_PER_S = 1e7
"""Simulation speed of one core; see docs/packets.md."""

STEP_S = 100e-6
"""Wall time of a decision without its packets: observation, reward and a cheap agent."""

SETUP_S_PER_FLOW = 2e-6
"""Wall time for drawing, routing and laying out a flow."""

LONG_EPISODE_S = 600.0
"""Estimated time above which a warning is given; the longest shipped episode takes a twentieth of it."""

GREEDY_UTILIZATION = 0.8
"""Fraction of the shared capacity that long-lived flows use; collisions and recovery cost the rest."""

BYTES_PER_FLOW_DRAWN = 200
"""Bytes of the schedule per flow: its columns and the temporary memory for sorting them."""

MOST_MEMORY_SHARE = 0.8
"""Usable fraction of the machine's memory, since the estimate is rough and other processes need some."""


class Estimate(NamedTuple):
    """Estimated work and memory of an episode.

    Attributes:
        flows: Flows of the episode.
        packet_hops: Link crossings of data packets and ACKs.
        memory_bytes: Peak memory of the world, including its construction.
        wall_s: Wall time on one core.
    """

    flows: float
    packet_hops: float
    memory_bytes: float
    wall_s: float


class _Part(NamedTuple):
    """Contribution of one workload: flows, link crossings of data packets, bytes held while it is drawn."""

    flows: float
    packet_links: float
    window_packets: float
    drawing_bytes: float = 0.0


def estimate(scenario: CongestionScenario) -> Estimate:
    """Return the estimated work and memory of an episode, without building it.

    Args:
        scenario: Scenario of one episode; for a scenario that varies, its own values are used.
    """
    size, ends = topology_size(scenario.topology), scenario.transport
    parts = [_part(part, scenario, size) for part in parts_of(scenario.workload).values()]
    flows = sum(part.flows for part in parts)
    hops = sum(part.packet_links for part in parts) * (1.0 + 1.0 / ends.delayed_ack_packets)
    return Estimate(
        flows,
        hops,
        _memory_bytes(scenario, size, parts),
        hops / PACKET_HOPS_PER_S + scenario.control.episode_steps * STEP_S + flows * SETUP_S_PER_FLOW,
    )


class LongEpisode(UserWarning):
    """Warning that an episode is estimated to take longer than :data:`LONG_EPISODE_S`."""


def check_size(scenario: CongestionScenario) -> None:
    """Raise an error if the machine's memory cannot hold a world, before any of it is built.

    Warn with :class:`LongEpisode` if the episode takes very long.

    Raises:
        ScenarioError: If the estimate exceeds the machine's memory.
    """
    needed, there_is = estimate(scenario), machine_memory_bytes()
    if needed.memory_bytes > MOST_MEMORY_SHARE * there_is:
        raise ScenarioError(
            scenario.name,
            "",
            f"about {needed.flows:.2g} flows, {gigabytes(needed.memory_bytes)} of memory for an episode",
            f"at most {gigabytes(MOST_MEMORY_SHARE * there_is)}, {MOST_MEMORY_SHARE:.0%} of this machine's",
            advice="use a smaller network, fewer flows or a shorter episode (control.episode_steps)",
        )
    if needed.wall_s > LONG_EPISODE_S:
        warnings.warn(
            f"{scenario.name}: an episode takes about {duration(needed.wall_s)} on one core"
            f" ({needed.packet_hops:.2g} packet-hops, {needed.flows:.2g} flows)",
            LongEpisode,
            stacklevel=3,
        )


def duration(time_s: float) -> str:
    """Return a time in words: ``40 s``, ``12 min``, ``3 h``, ``5 days``."""
    for size_s, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if time_s >= 2 * size_s:
            return f"{time_s / size_s:,.0f} {unit}"
    return f"{time_s:.0f} s"


def gigabytes(size_bytes: float) -> str:
    """Return a size in words: ``12 GB``."""
    return f"{size_bytes / 1e9:.2g} GB" if size_bytes < 1e11 else f"{size_bytes / 1e9:,.0f} GB"


@functools.cache
def machine_memory_bytes() -> float:
    """Return the memory that this process may use: the machine's, or its control group's limit if lower."""
    try:
        total = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf  # the system does not report it
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            total = min(total, float(Path("/sys/fs/cgroup", limit).read_text()))
        except (OSError, ValueError):  # no control groups of this version; the word "max"
            continue
    return total


def _memory_bytes(scenario: CongestionScenario, size: TopologySize, parts: list[_Part]) -> float:
    route_bytes = 2 * (size.longest_path + 1) * records.ROUTE_HOP.itemsize
    flowlets = 2 * (size.longest_path + 1) if scenario.routing.ecmp == "flowlet" else 0
    per_flow = (
        # Routes are computed, joined and copied once.
        FLOW.itemsize
        + 3 * route_bytes
        + flowlets * records.FLOWLET.itemsize
        + SOURCES_PER_FLOW * 8
        + BYTES_PER_FLOW_DRAWN
    )
    queue = scenario.queue
    class_queues = queue.classes if queue.is_list else 0
    per_link = records.LINK.itemsize + records.PORT.itemsize + 4 * QUEUE_BUCKETS
    per_link += class_queues * records.CLASS_QUEUE.itemsize
    packets = max(1024, 64 * size.n_hosts)
    looked_up = size.n_nodes + size.n_links if looks_up_paths(scenario) else 0
    tables = size.n_edges * (size.n_nodes + looked_up) * 4
    return (
        sum(part.flows * (per_flow + _window_bytes(part.window_packets, scenario)) for part in parts)
        + max(part.drawing_bytes for part in parts)
        + size.n_links * per_link
        + size.n_hosts * records.HOST.itemsize
        + packets * (records.PACKET.itemsize + records.SEGMENT.itemsize + records.NOTE.itemsize)
        + tables
    )


def _window_bytes(window_packets: float, scenario: CongestionScenario) -> float:
    words = math.ceil(window_packets / 64)
    by_time = scenario.transport.detects_by_time
    return 2 * 8 * words + (64 * words * (TRANSMISSION.itemsize + SENT_TIME.itemsize) if by_time else 0)


def _part(part: PartTable, scenario: CongestionScenario, size: TopologySize) -> _Part:
    horizon_s, ends = scenario.horizon_s, scenario.transport
    packets: float
    flows: float
    pairs: float
    window: float
    if isinstance(part, LongLivedWorkload):
        return _long_lived(part, scenario, size)
    if isinstance(part, IncastWorkload):
        packets = math.ceil(part.request_bytes / ends.payload_bytes)
        flows = math.ceil(horizon_s / part.period_s) * part.senders
        return _Part(flows, flows * packets * size.mean_path, min(packets, ends.max_window_packets))
    if isinstance(part, TrainingWorkload):
        return _training(part, scenario, size)
    if isinstance(part, PoissonWorkload):
        horizon_s = min(horizon_s, part.last_arrival_s or horizon_s)
        sizes = _flow_sizes(part)
        packets = sizes.mean_packets(ends.payload_bytes)
        senders = size.n_hosts - (hot_hosts(size.n_hosts) if part.destinations == "hotspot" else 0)
        mean_bits = 8 * (sizes.mean_bytes() + ends.header_bytes * packets)
        flows = senders * part.load * scenario.topology.link_rate_bps / mean_bits * horizon_s
        orders = 24 * size.n_hosts**2 if part.destinations == "all_to_all" else 0
        window = min(packets, ends.max_window_packets)
        return _Part(flows, flows * packets * _path(part, size), window, orders)
    packets = math.ceil(part.message_bytes / ends.payload_bytes)
    pairs = _pairs(part, size)
    mean_bits = 8 * wire_bytes(part.message_bytes, ends)
    flows = pairs * part.busy_fraction * part.rate_bps * horizon_s / mean_bits
    cycles = pairs * (horizon_s / (part.on_s + part.off_s) + 8)
    window = min(packets, ends.max_window_packets)
    return _Part(flows, flows * packets * _path(part, size), window, 32 * pairs + 48 * cycles)


def _long_lived(part: LongLivedWorkload, scenario: CongestionScenario, size: TopologySize) -> _Part:
    pairs, ends = _pairs(part, size), scenario.transport
    rate_bps = scenario.topology.link_rate_bps
    busy_hosts = min(pairs, hot_hosts(size.n_hosts) if part.pairs == "hotspot" else size.n_hosts)
    total_bps = min(busy_hosts * rate_bps, size.capacity_bps) * GREEDY_UTILIZATION
    packets_per_s = total_bps / (8 * ends.mtu_bytes)
    flows, path = pairs * part.flows_per_pair, _path(part, size)
    loss, round_trip_s = scenario.faults.loss_probability * path, 2 * path * scenario.topology.link_delay_s
    if loss > 0 and round_trip_s > 0:
        # Random loss at rate p limits a window to about 1.2 / sqrt(p) (Mathis et al., CCR 27(3), 1997).
        packets_per_s = min(packets_per_s, flows * 1.2 / (math.sqrt(loss) * round_trip_s))
    packets = packets_per_s * scenario.horizon_s
    return _Part(flows, packets * path, ends.max_window_packets, 32 * pairs)


def _training(part: TrainingWorkload, scenario: CongestionScenario, size: TopologySize) -> _Part:
    n, ends, rate_bps = part.job_hosts, scenario.transport, scenario.topology.link_rate_bps
    share = max(part.size_bytes // n, 1)
    message_bytes, messages, chain = {
        "ring_all_reduce": (share, 2 * (n - 1) * n, 2 * (n - 1)),
        "all_to_all": (share, n * (n - 1), n - 1),
        "tree_all_reduce": (part.size_bytes, 2 * (n - 1), 2 * math.ceil(math.log2(n))),
    }[part.collective]
    least_s = part.compute_s + chain * 8 * wire_bytes(message_bytes, ends) / rate_bps
    iterations = int(scenario.horizon_s / least_s) + 1
    flows = part.jobs * iterations * messages
    packets = math.ceil(message_bytes / ends.payload_bytes)
    # The schedule holds as much as line rate would allow; a step ends with its slowest message.
    moved = flows * packets * _path(part, size) * GREEDY_UTILIZATION
    waits = n.bit_length() if part.collective == "tree_all_reduce" else 2
    return _Part(flows, moved, min(packets, ends.max_window_packets), flows * 24 * (waits + 2))


def _pairs(part: LongLivedWorkload | OnOffWorkload, size: TopologySize) -> float:
    if part.pairs == "all_to_all":
        return size.n_hosts * (size.n_hosts - 1)
    if part.pairs == "hotspot":
        return size.n_hosts - hot_hosts(size.n_hosts)
    return size.n_one_to_one if part.pairs in ("one_to_one", "iroko") else size.n_hosts


def _path(part: PartTable, size: TopologySize) -> float:
    """Return the mean number of links of a flow's path."""
    if getattr(part, "matrix", "") in ("one_to_one", "iroko", "stride"):
        return size.far_path
    return size.mean_path


def _flow_sizes(part: PoissonWorkload) -> FlowSizeDistribution:
    if part.flow_sizes == "fixed":
        return FlowSizeDistribution.fixed(part.fixed_bytes or 1)
    return get_flow_sizes(part.flow_sizes)
