"""Jitter of the switches' links: closed forms, order, and what a full queue does without it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads.schedule import make_schedule
from tests.emulator.packets.simple_laws import ALONE, paced_at, window_of

MakeNetwork = Callable[..., PacketNetwork]

JITTER_S = 4e-6


def test_each_switch_delays_a_packet_by_half_the_jitter_on_average(make_network: MakeNetwork) -> None:
    network = make_network(window_of(1), **ALONE, topology__link_jitter_s=JITTER_S)
    late_s = []
    for seed in range(300):
        schedule = make_schedule(np.random.default_rng(0), [0], [1], size_bytes=1460, start_ns=0)
        network.reset(seed, schedule)
        network.advance(1e-3)
        flows = network.flows()
        late_s.append(flows.finish_s[0] - flows.start_s[0] - flows.ideal_fct_s[0])
    switches = 2
    assert min(late_s) >= -1e-9
    assert max(late_s) <= switches * JITTER_S + 1e-9
    deviation_s = JITTER_S * (switches / 12 / len(late_s)) ** 0.5
    assert np.mean(late_s) == pytest.approx(switches * JITTER_S / 2, abs=4 * deviation_s)


def test_packets_keep_their_order(make_network: MakeNetwork) -> None:
    """Ten packet times of jitter: a packet out of order would be acknowledged twice, and sent again."""
    network = make_network(window_of(64), **ALONE, topology__link_jitter_s=12e-6)
    network.advance(20e-3)
    flows = network.flows()
    assert flows.acked_packets[0] > 1_000
    assert flows.retransmitted_packets[0] == 0


@pytest.mark.parametrize(("jitter_s", "least", "most"), [(0.0, 0.0, 0.02), (2e-6, 0.2, 0.5)])
def test_a_full_queue_takes_from_both_inputs_only_with_jitter(
    make_network: MakeNetwork, jitter_s: float, least: float, most: float
) -> None:
    """Two pods in step offer twice the rate of the receiver's link; one share is the smaller one."""
    network = make_network(
        paced_at(10e9), transport__host_jitter_s=0.0, queue__buffer_bytes=60_000,
        queue__ecn_threshold_bytes=None, transport__loss_detection="dupack",
        topology={
            "kind": "fat_tree", "k": 4, "link_rate_bps": 10e9, "link_delay_s": 10e-6,
            "link_model": "shaper", "link_jitter_s": jitter_s,
        },
        workload={"kind": "long_lived", "pairs": "one_to_one", "start_jitter_s": 0.0},
    )  # fmt: skip
    schedule = make_schedule(np.random.default_rng(1), [4, 8], [0, 0], size_bytes=10_000_000, start_ns=0)
    network.reset(1, schedule)
    network.advance(1e-3)
    before = network.flows().delivered_bytes
    network.advance(4e-3)
    delivered = network.flows().delivered_bytes - before
    assert least <= delivered.min() / delivered.sum() <= most
