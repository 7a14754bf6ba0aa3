"""Packet trimming: what is cut, how soon senders learn of it, and the limit of the headers' queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.memory.records import NOBODY
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads.schedule import make_schedule
from tests.emulator.packets.simple_laws import window_of

MakeNetwork = Callable[..., PacketNetwork]

PACKET_BYTES, HEADER_BYTES = 1500, 40
INCAST = {"kind": "incast", "senders": 16, "request_bytes": 90_000, "period_s": 0.2}
SWITCH = {"kind": "single_switch", "hosts": 17, "link_rate_bps": 10e9, "link_delay_s": 1e-6}


def trimming(**keys: Any) -> dict[str, Any]:
    """Eight packets of data and as many bytes of headers, as in NDP's switches (section 3)."""
    return {"buffer_bytes": 8 * PACKET_BYTES, "classes": 2, "ack_class": 1, "trim": True, **keys}


@pytest.mark.parametrize("transport", ["dctcp", "cubic", "bbr", "reno"])
def test_an_incast_loses_no_packet_unnoticed(make_network: MakeNetwork, transport: str) -> None:
    """Dropped, the ends of answers are missed by time-outs; trimmed, they are missed a round trip later."""
    ends = {}
    for queue in ({"buffer_bytes": 8 * PACKET_BYTES}, trimming()):
        network = make_network(
            transport, topology=SWITCH, workload=INCAST, queue=queue, transport__min_rto_s=10e-3
        )
        network.advance(0.15)
        flows = network.flows()
        assert np.all(np.isfinite(flows.finish_s))
        ends["trim" in queue] = (flows.finish_s.max(), network.hosts().timeouts.sum())
    counters, state = network.classes(), network._state
    assert counters.trimmed_packets.sum() > 0
    assert counters.dropped_packets.sum() == 0
    # All headers have arrived, and their receivers have counted them.
    assert state.flows["trimmed_packets"].sum() == counters.trimmed_packets.sum()
    assert network.hosts().retransmitted_packets.sum() == counters.trimmed_packets.sum()
    assert ends[True][1] == 0 < ends[False][1]
    sending_s = 16 * 62 * 8 * PACKET_BYTES / 10e9
    assert sending_s < ends[True][0] < 2 * sending_s < ends[False][0]
    assert state.world["free_packets"][0] == len(state.packets)


def test_bytes_cut_off_are_counted(make_network: MakeNetwork) -> None:
    network = make_network("paced", topology=SWITCH, workload=INCAST, queue=trimming())
    network.advance(2e-4)
    port = network.topology.host_downlink[0]
    counters = network.classes()
    trimmed = counters.trimmed_packets[port, 0]
    assert trimmed > 50
    assert counters.trimmed_packets.sum() == trimmed
    assert counters.accepted_packets[port, 1] == trimmed
    assert counters.accepted_bytes[port, 1] == HEADER_BYTES * trimmed
    # Every packet but an answer's last one is full.
    full_bytes = (PACKET_BYTES - HEADER_BYTES) * trimmed
    assert full_bytes - 16 * PACKET_BYTES < counters.trimmed_bytes[port, 0] <= full_bytes


def test_headers_that_find_no_room_are_dropped_and_counted(make_network: MakeNetwork) -> None:
    queue = trimming(class_buffer_bytes=[8 * PACKET_BYTES, 4 * HEADER_BYTES])
    network = make_network("paced", topology=SWITCH, workload=INCAST, queue=queue)
    network.advance(1e-3)
    port = network.topology.host_downlink[0]
    counters = network.classes()
    dropped = counters.dropped_packets[port]
    assert dropped[0] == 0 < dropped[1]
    assert counters.dropped_bytes[port, 1] == HEADER_BYTES * dropped[1]
    assert counters.accepted_packets[port, 1] == counters.trimmed_packets[port, 0] - dropped[1]
    assert network.ports().dropped_packets[port] == dropped[1]


def test_the_last_packet_of_the_queue_is_cut_as_often_as_the_new_one(make_network: MakeNetwork) -> None:
    """A slow flow's packets meet a full queue that another flow keeps full: half of them are cut at once.

    The others are accepted; the packet behind them, which finds no room either, cuts them with probability
    one half until one behind it stays. With two arrivals for each departure, shares follow the arrivals.
    """
    network = make_network(
        "paced", topology={**SWITCH, "hosts": 3}, queue=trimming(), transport__host_jitter_s=0.0
    )
    network.reset(1, make_schedule(np.random.default_rng(0), [1, 2], [0, 0], size_bytes=-1, start_ns=0))
    network.advance(5e-3)
    flows = network._state.flows
    cut = flows["trimmed_packets"]
    # Without the draw, the phase of two equal senders decides which one loses every packet.
    assert cut.min() > 0.4 * cut.sum()


def test_wrr_between_headers_and_data_keeps_data_flowing(make_network: MakeNetwork) -> None:
    """Headers of 40 bytes, ten for every packet of data, take 400 of 1900 bytes (NDP, section 3.1)."""
    n = 96
    queue = trimming(scheduler="wrr", weights=[1.0, 10 * HEADER_BYTES / PACKET_BYTES], ack_class=1)
    goodputs = []
    for keys in ({}, {"scheduler": "strict", "weights": None}):
        network = make_network(
            "paced",
            topology={**SWITCH, "hosts": n + 1},
            workload={"kind": "incast", "senders": n, "request_bytes": 2_000_000, "period_s": 0.2},
            queue={**queue, **keys},
        )
        network.advance(1e-3)
        before = network.classes()
        network.advance(1e-3)
        after, port = network.classes(), network.topology.host_downlink[0]
        sent = (after.accepted_bytes - after.waiting_bytes) - (before.accepted_bytes - before.waiting_bytes)
        goodputs.append(sent[port, 0] / 1.25e6)
        assert sent[port].sum() == pytest.approx(1.25e6, rel=0.01)
    assert goodputs[0] == pytest.approx(1500 / 1900, rel=0.02)
    assert goodputs[1] < 0.2


def test_nothing_is_left_behind(make_network: MakeNetwork) -> None:
    network = make_network("dctcp", topology=SWITCH, workload=INCAST, queue=trimming())
    network.advance(0.1)
    state = network._state
    assert np.all(state.class_queues["head"] == NOBODY)
    assert np.all(state.class_queues["waiting_bytes"] == 0)
    assert np.all(state.ports["queued_bytes"] == 0)


def test_a_packet_that_takes_the_place_of_another_one_is_marked_too(make_network: MakeNetwork) -> None:
    queue = trimming(buffer_bytes=20 * PACKET_BYTES, ecn_threshold_bytes=10 * PACKET_BYTES)
    network = make_network(
        window_of(200.0, ecn_capable=True),
        topology=SWITCH,
        workload={"kind": "long_lived", "pairs": "stride"},
        queue=queue,
    )
    rng = np.random.default_rng(0)
    network.reset(0, make_schedule(rng, [0, 1, 2, 3], [8] * 4, size_bytes=50_000_000, start_ns=0))
    network.advance(5e-3)
    before = network.flows()
    network.advance(10e-3)
    after = network.flows()
    assert network.classes().trimmed_packets.sum() > 10_000
    acked = (after.acked_packets - before.acked_packets).sum()
    assert (after.marked_packets - before.marked_packets).sum() == acked > 5_000


def test_a_syn_is_never_trimmed(make_network: MakeNetwork) -> None:
    network = make_network(
        "dctcp", topology=SWITCH, workload=INCAST, queue=trimming(class_buffer_bytes=[2_000, 1_000_000]),
        transport__handshake=True, transport__ack_bytes=1_400, transport__max_rto_s=60.0,
    )  # fmt: skip
    network.advance(0.15)
    assert network._state.flows["nacks"].sum() == network.classes().trimmed_packets.sum() > 0
    assert network.classes().dropped_packets.sum() > 0
