"""Rows and records of counters have the same field names."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.emulator.network import Controls, PerFlow
from sysgym.emulator.packets.counters.rows import FLOW_COUNTERS, HOST_ROW, PORT_ROW, as_records, as_rows
from sysgym.emulator.packets.counters.statistics import HostCounters, PortCounters
from sysgym.emulator.packets.engine.wire import ns_per_byte_q20
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.scenarios import CongestionScenario, load_scenario


def test_rows_are_named_as_the_counters() -> None:
    assert PORT_ROW._fields == PortCounters._fields
    assert HOST_ROW._fields == HostCounters._fields
    assert tuple(PORT_ROW) == tuple(range(len(PORT_ROW)))
    assert tuple(HOST_ROW) == tuple(range(len(HOST_ROW)))


def test_records_travel_as_rows() -> None:
    rows = np.arange(26.0).reshape(2, 13)
    records = as_records(rows)
    assert records.dtype == FLOW_COUNTERS
    assert records["sent_packets"].tolist() == [0.0, 13.0]
    assert records["active_flows"].tolist() == [12.0, 25.0]
    assert np.array_equal(as_rows(records), rows)


def test_a_byte_at_one_gigabit_takes_eight_nanoseconds() -> None:
    assert ns_per_byte_q20(1e9) == 8 * 2**20
    rates_bps = np.array([8e9, 10e9, np.inf])
    assert ns_per_byte_q20(rates_bps).tolist() == [2**20, 838861.0, 0.0]


def test_a_step_is_setting_advancing_and_reading() -> None:
    scenario = load_scenario("iroko-dumbbell-1g", expect=CongestionScenario)
    stepped, by_hand = (PacketNetwork(scenario, transport="cubic") for _ in range(2))
    caps_bps, flows = np.full(stepped.n_hosts, 2e8), np.arange(2)
    stepped.advance(0.01)
    read = stepped.step(
        Controls(host_caps_bps=caps_bps, window_factors=PerFlow(flows, 0.5)), 0.01, read_flows=flows
    )
    by_hand.advance(0.01)
    by_hand.set_host_rate_caps(caps_bps)
    by_hand.scale_windows(flows, 0.5)
    by_hand.advance(0.01)
    assert read.now_s == by_hand.now_s == pytest.approx(0.02)
    assert read.jitter_s == 0.0
    for one, other in zip((*read.ports, *read.hosts), (*by_hand.ports(), *by_hand.hosts()), strict=True):
        assert np.array_equal(one, other)
    assert read.flow_counters is not None
    assert np.array_equal(read.flow_counters, by_hand.flow_counters(flows))
    assert read.flow_counters["acked_packets"].tolist() == stepped.flows().acked_packets[:2].tolist()
    assert stepped.step(Controls(), 0.0).flow_counters is None
