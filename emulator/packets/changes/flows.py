"""New flows of a running network, which replace the flows that have not started.

The new flows are those that the scenario with the new values would have from now on with the same seed. Two
networks with the same seed and the same changes therefore have the same flows, and a return to the old values
restores the old flows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.build import Assembly
from sysgym.emulator.packets.changes.links import tell_path
from sysgym.emulator.packets.changes.running import Running
from sysgym.emulator.packets.engine.event_queue.tournament import events_in, new_tournament
from sysgym.emulator.packets.engine.events import (
    FLOW_START,
    N_CLOCKS,
    SOURCE_BITS,
    SOURCE_MASK,
    SOURCES_PER_FLOW,
)
from sysgym.emulator.packets.memory.records import LONG_LIVED_PACKETS, NEVER_NS
from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads import LONG_LIVED, NO_GROUP, FlowSchedule, scenario_flows
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.schema.congestion import LongLivedWorkload

KEPT_ARRAYS = (
    "links",
    "packets",
    "segments",
    "hosts",
    "queue_histogram",
    "event",
    "callbacks",
    "notes",
    "stamps",
    "ports",
    "places",
    "table_rows",
    "table_links",
    "captured",
    "memories",
    "memory_ports",
    "inboxes",
    "credits",
    "arrival",
    "class_queues",
    "caps",
)
"""Arrays that do not depend on the flows."""


def new_schedule(running: Running, scenario: CongestionScenario, topology: Topology) -> FlowSchedule:
    """Return the flows that have started, and the future flows of the changed scenario.

    Rounds that have begun are completed unchanged. Long-lived flows of each pair are added or stopped.

    Args:
        running: The network.
        scenario: The scenario with the new values.
        topology: Its network.
    """
    rng = np.random.default_rng(running.seed)
    if isinstance(scenario.workload, LongLivedWorkload):
        return _with_more_or_fewer(running, scenario.workload.flows_per_pair)
    old, drawn, now_ns = running.schedule, scenario_flows(scenario, topology, rng), running.now_ns
    begun = np.arange(len(old.src)) < running.n_begun
    kept = begun | _of_begun_rounds(old, now_ns)
    added = (drawn.start_ns >= now_ns) & ~_of_begun_rounds(drawn, now_ns)
    to_come = _selected(drawn, added)
    rounds = to_come.group != NO_GROUP
    if np.any(rounds):
        first = int(old.group[kept].max(initial=NO_GROUP)) + 1
        shift = np.where(rounds, first - to_come.group[rounds].min(), 0)
        to_come = to_come._replace(group=(to_come.group + shift).astype(np.int32))
    return _joined(running.n_begun, _selected(old, kept), to_come)


def _of_begun_rounds(flows: FlowSchedule, now_ns: int) -> NDArray[np.bool_]:
    """Return a mask of the flows whose round has begun before now."""
    of_round = flows.group != NO_GROUP
    return of_round & np.isin(flows.group, np.unique(flows.group[of_round & (flows.start_ns < now_ns)]))


def _with_more_or_fewer(running: Running, per_pair: int) -> FlowSchedule:
    """Return the schedule with ``per_pair`` long-lived flows for each pair; stop excess flows."""
    old, flows, n_begun = running.schedule, running.state.flows, running.n_begun
    alive = flows["n_packets"] == LONG_LIVED_PACKETS
    pairs, pair = np.unique(np.column_stack((old.src, old.dst)), axis=0, return_inverse=True)
    pair = pair.reshape(-1)
    too_many = alive & (_alive_before(pair, alive) >= per_pair)
    begun = np.arange(len(pair)) < n_begun
    # An excess flow ends with one more packet, so that an ACK informs its sender of the end.
    ended = too_many & begun
    flows["n_packets"][ended] = flows["high"][ended] + 1
    missing = np.maximum(per_pair - np.bincount(pair[alive], minlength=len(pairs)), 0)
    ends = np.repeat(pairs, missing, axis=0).astype(np.int32)
    n, ports = len(ends), old.src_port.max(initial=0)
    added = FlowSchedule(
        src=ends[:, 0],
        dst=ends[:, 1],
        size_bytes=np.full(n, LONG_LIVED, np.int64),
        start_ns=np.full(n, running.now_ns, np.int64),
        src_port=(ports + 1 + np.arange(n)).astype(np.int32) % 2**16,
        dst_port=np.full(n, old.dst_port.max(initial=0), np.int32),
        group=np.full(n, NO_GROUP, np.int32),
        after=np.empty((n, 0), np.int32),
        after_delay_ns=np.zeros(n, np.int64),
        priority=np.full(n, old.priority.max(initial=0), np.int32),
    )
    return _joined(n_begun, _selected(old, begun | ~too_many), added)


def _alive_before(pair: NDArray[np.int64], alive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of running flows of the same pair before each flow."""
    by_pair = np.argsort(pair, kind="stable")
    running = alive[by_pair].astype(np.int64)
    before = np.cumsum(running) - running
    first = np.searchsorted(pair[by_pair], pair[by_pair])
    earlier = np.empty(len(pair), np.int64)
    earlier[by_pair] = before - before[first]
    return earlier


def _selected(flows: FlowSchedule, chosen: NDArray[np.bool_]) -> FlowSchedule:
    return flows._replace(**{name: getattr(flows, name)[chosen] for name in flows._fields})


def _joined(n_begun: int, kept: FlowSchedule, added: FlowSchedule) -> FlowSchedule:
    """Return the flows of two schedules; the first ``n_begun`` keep their numbers, the rest is sorted."""
    columns: dict[str, NDArray[Any]] = {
        name: np.concatenate((getattr(kept, name), getattr(added, name)))
        for name in FlowSchedule._fields
        if name != "after"
    }
    n_flows = len(columns["src"])
    order = np.argsort(columns["start_ns"][n_begun:], kind="stable") + n_begun
    order = np.concatenate((np.arange(n_begun), order))
    return FlowSchedule(
        **{name: column[order] for name, column in columns.items()}, after=np.empty((n_flows, 0), np.int32)
    )


def grafted(running: Running, assembly: Assembly) -> State:
    """Return the running world with the flows of another world.

    Args:
        running: The world.
        assembly: A world at time 0 whose first ``running.n_begun`` flows are the same.

    Returns:
        The bound state.
    """
    old, new, n_begun = running.state, assembly.state, running.n_begun
    world = old.world
    n_old, n_new = len(old.flows), len(new.flows)
    stride, new_stride = old.routes.shape[2], new.routes.shape[2]
    flows = new.flows
    base_rtt_ns = flows["base_rtt_ns"].copy()
    flows[:n_begun] = old.flows[:n_begun]
    tell_path(flows, base_rtt_ns, world)
    common = min(stride, new_stride)
    flowlets = new.flowlets
    if world["by_flowlet"][0]:
        flowlets.reshape(n_new, 2, -1)[:n_begun, :, :common] = old.flowlets.reshape(n_old, 2, -1)[
            :n_begun, :, :common
        ]
    if stride != new_stride:  # a packet's place in the routes depends on their length
        place = old.packets["route"]
        old.packets["route"] = place // stride * new_stride + place % stride
    world["n_flows"], world["route_stride"] = n_new, new_stride
    world["n_scheduled"] = new.world["n_scheduled"]
    keys = _moved_events(old, new, SOURCES_PER_FLOW * (n_new - n_old), assembly)
    for name in ("wheel_size", "wheel_shift"):
        world[name] = new.world[name]
    words = int(new.flows["bitmap_offset"][n_begun]) if n_begun < n_new else len(new.received)
    for name, size_of_word in (("received", 1), ("sacked", 1), ("transmissions", 64), ("sent_times", 64)):
        before, after = getattr(old, name), getattr(new, name)
        if len(after) > 1 or size_of_word == 1:
            after[: words * size_of_word] = before[: words * size_of_word]
    if world["receivers"][0]:
        new.messages[:n_begun] = old.messages[:n_begun]
    state = new._replace(
        world=world,
        **new_tournament(world, keys, assembly.n_sources)._asdict(),
        flowlets=flowlets,
        **{name: getattr(old, name) for name in KEPT_ARRAYS},
    )
    state.bind()
    return state


def _moved_events(old: State, new: State, shift: int, assembly: Assembly) -> NDArray[np.int64]:
    """Return the events of the running world, with the source numbers of the new world."""
    keys = events_in(old)
    clocks = assembly.n_links + assembly.n_hosts
    behind_flows = clocks + N_CLOCKS + SOURCES_PER_FLOW * len(old.flows)
    source = keys & SOURCE_MASK
    keys = (keys + np.where(source >= behind_flows, shift, 0))[source != clocks + FLOW_START]
    next_flow = int(old.world["next_flow"][0])
    if next_flow < int(new.world["n_scheduled"][0]):
        start_ns = int(new.flows["start_ns"][next_flow])
        assert start_ns < NEVER_NS
        keys = np.append(keys, (start_ns << SOURCE_BITS) | (clocks + FLOW_START))
    return keys
