"""Conservation of packets, bytes and order: everything sent is delivered or counted as lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.packets.engine.event_queue.tournament import events_in
from sysgym.emulator.packets.engine.events import SOURCE_BITS, SOURCE_MASK
from sysgym.emulator.packets.memory.flow_record import ARRIVED, IN_FLIGHT, LOST
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_IS_ACK,
    PACKET_PAUSE,
    PACKET_RESUME,
)
from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import get_transport, list_transports
from sysgym.scenarios import CongestionScenario, load_scenario
from tests.emulator.packets.engine.event_queue.tournament_check import check_tournament

SWITCH = {"kind": "single_switch", "hosts": 9, "link_rate_bps": 1e9, "link_delay_s": 5e-6}
ON_ANY_SWITCH = [name for name in list_transports() if get_transport(name).needs_classes == 1]
INCAST = {"kind": "incast", "senders": 8, "request_bytes": 30_001, "period_s": 2e-3}


def network_of(transport: str, seed: int, **overrides: Any) -> PacketNetwork:
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    network = PacketNetwork(
        load_scenario("dumbbell-10g", overrides=dotted, expect=CongestionScenario), transport=transport
    )
    network.reset(seed)
    return network


def packets_on_links(network: PacketNetwork) -> list[list[int]]:
    """Slots of the packets on every link, first to arrive first."""
    state = network._state
    fifos = []
    for head in state.links["head"]:
        slots = []
        slot = int(head)
        while slot != NOBODY:
            slots.append(slot)
            slot = int(state.packets["next"][slot])
        fifos.append(slots)
    return fifos


def check_events(state: State) -> None:
    check_tournament(state.world, state.tournament, state.leaf_of, state.free_leaves)
    heads = state.links["head"]
    busy = np.flatnonzero(heads != NOBODY)
    arrivals = state.packets["arrival_ns"][heads[busy]] << SOURCE_BITS | busy
    keys = events_in(state)
    assert keys[keys & SOURCE_MASK < len(heads)].tolist() == arrivals.tolist(), "an arrival without a packet"


def check_invariants(network: PacketNetwork) -> None:
    state = network._state
    fifos = packets_on_links(network)
    check_events(state)
    in_flight = [slot for slots in fifos for slot in slots] + packets_that_wait(network)
    assert len(set(in_flight)) == len(in_flight), "a packet is in two places"
    assert len(in_flight) + state.world["free_packets"][0] == len(state.packets), "a slot is lost"
    free = []
    slot = int(state.world["first_free_packet"][0])
    while slot != NOBODY:
        free.append(slot)
        slot = int(state.packets["next"][slot])
    assert sorted(free + in_flight) == list(range(len(state.packets)))
    for slots in fifos:
        arrivals = state.packets["arrival_ns"][slots]
        assert np.all(np.diff(arrivals) >= 0), "a link changed the order of its packets"

    flags = state.packets["flags"][in_flight]
    in_flight = [
        slot for slot, flag in zip(in_flight, flags, strict=True) if not flag & (PACKET_PAUSE | PACKET_RESUME)
    ]
    control = [slot for slot in in_flight if state.segments["seq"][slot] == NOBODY]
    in_flight = [slot for slot in in_flight if slot not in set(control)]
    messages = state.messages
    dropped_control = messages["control_sent"].sum() - messages["control_arrived"].sum() - len(control)
    assert dropped_control >= 0, "grants came from nowhere"
    sent = state.hosts["sent_packets"].sum()
    dropped = state.links["dropped_packets"].sum() - dropped_control
    if network.scenario.transport.delays_acks:
        check_flows(network)
        return
    acks_in_flight = int((state.packets["flags"][in_flight] & PACKET_IS_ACK).sum())
    acked = state.hosts["acked_packets"].sum()
    reported = state.flows["nacks"].sum()
    late_acks = sent - dropped - acked - reported - len(in_flight)
    assert late_acks >= 0, "packets came from nowhere"
    unfinished = np.isnan(network.flows().finish_s)
    if unfinished.all():  # no flow has ended, so no ACK came too late to be counted
        assert late_acks == 0
    assert acks_in_flight <= len(in_flight)

    check_flows(network)


def packets_that_wait(network: PacketNetwork) -> list[int]:
    """Slots of packets in queues that may be paused, and of those that receivers hold."""
    state = network._state
    slots = [int(slot) for slot in state.flows["held_ack_slot"] if slot != NOBODY]
    for head in state.class_queues["head"].flat if state.world["n_classes"][0] else ():
        slot = int(head)
        while slot != NOBODY:
            slots.append(slot)
            slot = int(state.packets["next"][slot])
    return slots


def check_flows(network: PacketNetwork) -> None:
    state = network._state
    flows = state.flows
    if network.scenario.transport.detects_by_time:
        for flow in flows:
            check_scoreboard(network, flow)
    assert np.all(flows["una"] <= flows["rcv_nxt"]), "acknowledged before it arrived"
    assert np.all(flows["rcv_nxt"] <= flows["high"]), "received before it was sent"
    assert np.all(flows["una"] <= flows["nxt"])
    assert np.all(flows["nxt"] <= flows["high"])
    hosts = network.hosts()
    assert hosts.delivered_bytes.sum() == hosts.received_bytes.sum()
    assert hosts.delivered_bytes.sum() == network.flows().delivered_bytes.sum()


def check_scoreboard(network: PacketNetwork, flow: Any) -> None:
    """The counts of lost and arrived packets agree with the packets' states (RACK)."""
    seqs = np.arange(int(flow["una"]), int(flow["nxt"]))
    places = flow["first_transmission"] + (seqs & int(flow["window_mask"]))
    records = network._state.transmissions[places]
    assert flow["lost"] == (records["status"] == LOST).sum()
    assert flow["sacked"] == (records["status"] == ARRIVED).sum()
    resent = (records["status"] == IN_FLIGHT) & (records["resent"] == 1)
    if resent.any():
        assert flow["oldest_resent_ns"] <= network._state.sent_times[places[resent]].min()


@settings(max_examples=25, deadline=None)
@given(
    transport=st.sampled_from(ON_ANY_SWITCH),
    seed=st.integers(0, 2**31 - 1),
    buffer_packets=st.integers(2, 60),
    initial_window=st.integers(1, 64),
    loss_detection=st.sampled_from(["rack", "dupack"]),
)
def test_conservation_under_loss(
    transport: str, seed: int, buffer_packets: int, initial_window: int, loss_detection: str
) -> None:
    network = network_of(
        transport,
        seed,
        topology=SWITCH,
        workload=INCAST,
        queue__buffer_bytes=1500 * buffer_packets,
        queue__ecn_threshold_bytes=1500 * (buffer_packets // 2),
        transport__initial_window_packets=initial_window,
        transport__min_rto_s=1e-3,
        transport__loss_detection=loss_detection,
    )
    for _ in range(10):
        network.advance(1e-3)
        check_invariants(network)


FAT_TREE = {"kind": "fat_tree", "k": 4, "link_rate_bps": 1e9, "link_delay_s": 2e-6}


@settings(max_examples=40, deadline=None)
@given(
    transport=st.sampled_from(ON_ANY_SWITCH),
    seed=st.integers(0, 2**31 - 1),
    delayed=st.integers(1, 4),
    burst_bytes=st.sampled_from([None, 3_000, 65_536]),
    coalescing_s=st.sampled_from([None, 1e-5, 1e-4]),
    discipline=st.sampled_from(["fifo", "red"]),
    action=st.sampled_from(["mark", "drop"]),
    loss=st.sampled_from([0.0, 1e-3, 0.05]),
    ecmp=st.sampled_from(["flow", "flowlet", "packet"]),
    trouble=st.sampled_from(
        ["none", "links fail", "lossless", "shared buffer", "classes", "classes and failing links"]
    ),
    loss_detection=st.sampled_from(["rack", "dupack"]),
    buffer_packets=st.integers(4, 80),
)
def test_conservation_with_every_feature(
    transport: str,
    seed: int,
    delayed: int,
    burst_bytes: int | None,
    coalescing_s: float | None,
    discipline: str,
    action: str,
    loss: float,
    ecmp: str,
    trouble: str,
    loss_detection: str,
    buffer_packets: int,
) -> None:
    queue: dict[str, Any] = {"buffer_bytes": 1500 * buffer_packets, "discipline": discipline}
    if trouble == "lossless":
        queue |= {"buffer_bytes": 1500 * (buffer_packets + 10), "pfc_pause_bytes": 1500 * buffer_packets}
        action = "mark"
    if trouble == "shared buffer":
        queue |= {"shared_buffer_bytes": 1500 * buffer_packets, "shared_buffer_alpha": 2.0}
    if trouble.startswith("classes"):
        queue |= {"classes": 3, "scheduler": "wrr", "trim": loss_detection == "rack", "ack_class": 1}
    if discipline == "red":
        queue |= {"red_min_bytes": 1500, "red_max_bytes": 1500 * buffer_packets // 2, "red_action": action}
    fails = [{"link": "agg0_*<->core*", "down_s": 2e-3, "up_s": 6e-3}, {"link": "h3<->*", "down_s": 4e-3}]
    network = network_of(
        transport,
        seed,
        topology=FAT_TREE,
        workload={**INCAST, "senders": 12, "receiver": "drawn"},
        queue=queue,
        transport__delayed_ack_packets=delayed,
        transport__delayed_ack_timeout_s=2e-4,
        transport__segmentation_offload_bytes=burst_bytes,
        transport__receive_coalescing_s=coalescing_s,
        transport__min_rto_s=1e-3,
        transport__loss_detection=loss_detection,
        routing={"ecmp": ecmp, "flowlet_gap_s": 2e-5 if ecmp == "flowlet" else None},
        faults={
            "loss_probability": loss,
            "links": fails if "link" in trouble else [],
            "reroute_s": 1e-3,
        },
    )
    network._state.flows["priority"] = np.arange(len(network._state.flows)) % 3
    for _ in range(10):
        network.advance(1e-3)
        check_invariants(network)
    if trouble == "lossless" and loss == 0.0:
        assert network.ports().dropped_packets.sum() == 0


@pytest.mark.parametrize("loss_detection", ["rack", "dupack"])
@pytest.mark.parametrize("transport", ON_ANY_SWITCH)
def test_everything_is_delivered_in_the_end(transport: str, loss_detection: str) -> None:
    network = network_of(
        transport, 3, topology=SWITCH, workload=INCAST, queue__buffer_bytes=15_000,
        queue__ecn_threshold_bytes=7_500, transport__min_rto_s=1e-3, control__episode_steps=20,
        transport__loss_detection=loss_detection,
    )  # fmt: skip
    network.advance(5.0)
    flows = network.flows()
    assert len(flows.src) >= 8
    assert np.all(np.isfinite(flows.finish_s))
    assert np.array_equal(flows.delivered_bytes, flows.size_bytes)
    assert network.ports().dropped_packets.sum() > 0, "the test is about losses"
    assert network.hosts().active_flows.sum() == 0
    assert np.all(network._state.links["head"] == NOBODY)
    check_invariants(network)


def test_cubic_scoreboard_agrees_with_its_bitmap() -> None:
    network = network_of("cubic", 5, workload__flows_per_pair=2, transport__loss_detection="dupack")
    mask = network.scenario.transport.max_window_packets - 1
    seen_recovery = False
    for _ in range(2000):
        network.advance(2e-5)
        for flow in network._state.flows:
            una, high, cursor = (
                int(flow["una"]),
                int(flow["high"]),
                max(int(flow["hole_cursor"]), int(flow["una"])),
            )
            offset = int(flow["bitmap_offset"])
            sacked = {
                seq
                for seq in range(una, high)
                if int(network._state.sacked[offset + ((seq & mask) >> 6)]) >> (seq & 63) & 1
            }
            lost = [seq for seq in range(cursor, int(flow["lost_below"])) if seq not in sacked]
            assert flow["sacked"] == len(sacked)
            assert flow["lost"] == len(lost)
            seen_recovery = seen_recovery or bool(flow["in_recovery"])
    assert seen_recovery


@settings(max_examples=15, deadline=None)
@given(
    transport=st.sampled_from(["eqds", "ndp", "homa"]),
    seed=st.integers(0, 2**31 - 1),
    loss=st.sampled_from([0.0, 1e-3, 0.05]),
    ecmp=st.sampled_from(["flow", "packet"]),
    buffer_packets=st.integers(4, 40),
    initial_window=st.integers(1, 64),
)
def test_conservation_with_receivers_and_trimming(
    transport: str, seed: int, loss: float, ecmp: str, buffer_packets: int, initial_window: int
) -> None:
    network = network_of(
        transport,
        seed,
        topology=FAT_TREE,
        workload={**INCAST, "senders": 12, "receiver": "drawn"},
        queue={"buffer_bytes": 1500 * buffer_packets, "classes": 8, "trim": True},
        routing={"ecmp": ecmp},
        faults={"loss_probability": loss},
        transport__min_rto_s=1e-3,
        transport__initial_window_packets=initial_window,
        control__episode_steps=20,
    )
    for _ in range(10):
        network.advance(1e-3)
        check_invariants(network)
        check_messages(network)
    network.advance(2.0)
    assert np.isfinite(network.flows().finish_s).all()
    assert network.hosts().active_flows.sum() == 0


def check_messages(network: PacketNetwork) -> None:
    """What receivers know agrees with the flows; a host's list holds its incomplete messages, by rank."""
    messages, flows = network._state.messages, network._state.flows
    arrived = flows["rcv_nxt"] + flows["held_out_of_order"]
    assert np.array_equal(messages["received_packets"], arrived)
    assert np.array_equal(messages["remaining_packets"], flows["n_packets"] - arrived)
    begun = messages["first_arrival_ns"] >= 0
    assert np.array_equal(messages["listed"] == 1, begun & (messages["remaining_packets"] > 0))
    assert np.all(flows["credit_packets"] <= np.where(begun, messages["granted_packets"], 2**40))
    assert np.all(flows["spent_packets"] <= flows["credit_packets"])
    for host_id, host in enumerate(network._state.inboxes):
        indices, index = [], int(host["first"])
        while index != NOBODY:
            indices.append(index)
            index = int(messages["next"][index])
        assert len(indices) == host["n_messages"]
        assert np.all(flows["dst"][indices] == host_id)
        assert np.all(np.diff(messages["rank"][indices]) >= 0)
        assert messages["pulls"][indices].sum() == host["pulls"]
