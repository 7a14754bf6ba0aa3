"""Slowdowns under fair sharing, compared with values computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads import FlowSchedule
from sysgym.envs.congestion.datacenter.fair_sharing import fair_slowdowns
from sysgym.envs.congestion.datacenter.measurement import Fabric
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError

LINE_BPS = 10e9
PACKET, PAYLOAD = 1500, 1460
SWITCH = {"kind": "single_switch", "hosts": 6, "link_rate_bps": LINE_BPS, "link_delay_s": 1e-6}


def schedule_of(flows: list[tuple[int, int, int, int]]) -> FlowSchedule:
    """Flows, each with its source, destination, packets and start in ns."""
    src, dst, packets, start_ns = (np.array(column) for column in zip(*flows, strict=True))
    n = len(flows)
    return FlowSchedule(
        src=src.astype(np.int32),
        dst=dst.astype(np.int32),
        size_bytes=packets.astype(np.int64) * PAYLOAD,
        start_ns=start_ns.astype(np.int64),
        src_port=np.arange(40_000, 40_000 + n, dtype=np.int32),
        dst_port=np.full(n, 80, np.int32),
        group=np.full(n, -1, np.int32),
        after=np.full((n, 1), -1, np.int32),
        after_delay_ns=np.zeros(n, np.int64),
        priority=np.zeros(n, np.int32),
    )


def network_with(flows: list[tuple[int, int, int, int]]) -> tuple[PacketNetwork, Fabric]:
    workload = {"kind": "long_lived", "pairs": "all_to_all"}
    changes: dict[str, Any] = {"topology": SWITCH, "transport.mtu_bytes": PACKET, "workload": workload}
    scenario = load_scenario("incast-32", overrides=changes, expect=CongestionScenario)
    network = PacketNetwork(scenario)
    network.reset(0, schedule=schedule_of(flows))
    return network, Fabric.of(scenario)


def completion_times_s(flows: list[tuple[int, int, int, int]]) -> Any:
    network, fabric = network_with(flows)
    return fair_slowdowns(network, fabric) * network.flows().ideal_fct_s


def test_a_lone_flow_has_a_slowdown_of_one() -> None:
    assert fair_slowdowns(*network_with([(0, 5, 700, 0)])) == pytest.approx([1.0], rel=1e-3)


def test_two_flows_share_a_link_until_the_shorter_one_ends() -> None:
    """Of 1000 and 3000 packets: the first has half of the link all the time, the second for 2000 packets."""
    packet_s = 8.0 * PACKET / LINE_BPS
    network, fabric = network_with([(0, 5, 1000, 0), (1, 5, 3000, 0)])
    extra_s = fair_slowdowns(network, fabric) * network.flows().ideal_fct_s - network.flows().ideal_fct_s
    assert extra_s == pytest.approx([1000 * packet_s, 1000 * packet_s], rel=1e-3)


def test_a_flow_that_comes_later_takes_half_from_then_on() -> None:
    """The second begins when the first has sent 500 of its 1000 packets, and has 200 itself."""
    packet_s = 8.0 * PACKET / LINE_BPS
    start_ns = round(500 * packet_s * 1e9)
    found_s = completion_times_s([(0, 5, 1000, 0), (1, 5, 200, start_ns)])
    alone_s = [completion_times_s([(0, 5, packets, 0)])[0] for packets in (1000, 200)]
    assert found_s - alone_s == pytest.approx([200 * packet_s, 200 * packet_s], rel=1e-2)


def test_flows_on_other_links_do_not_matter() -> None:
    assert fair_slowdowns(*network_with([(0, 5, 700, 0), (1, 4, 900, 10)])) == pytest.approx(1.0, rel=1e-3)


def test_acks_take_their_part() -> None:
    """Two hosts send to each other: 60 bytes of ACKs for 1500 of data on each cable."""
    slowdowns = fair_slowdowns(*network_with([(0, 5, 100_000, 0), (5, 0, 100_000, 0)]))
    assert slowdowns == pytest.approx(1.0 + 60 / 1500, rel=1e-3)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.just(5), st.integers(1, 2000), st.integers(0, 10**6)),
        min_size=1,
        max_size=8,
    )
)
def test_the_common_link_never_idles(flows: list[tuple[int, int, int, int]]) -> None:
    """All to one host: the last bit arrives when a single server would have sent all of them."""
    flows = sorted(flows, key=lambda flow: flow[3])
    found_s = completion_times_s(flows)
    alone_s = np.array([completion_times_s([flow])[0] for flow in flows])
    packet_s, busy_until_s = 8.0 * PACKET / LINE_BPS, 0.0
    for _, _, packets, start_ns in flows:
        busy_until_s = max(busy_until_s, start_ns * 1e-9) + packets * packet_s
    sizes_s = np.array([packets for _, _, packets, _ in flows]) * packet_s
    ends_s = np.array([start_ns for *_, start_ns in flows]) * 1e-9 + found_s - (alone_s - sizes_s)
    assert ends_s.max() == pytest.approx(busy_until_s, rel=1e-3)
    assert np.all(found_s >= alone_s * (1.0 - 1e-6))


@pytest.mark.parametrize("name", ["dumbbell-10g", "allreduce-ring-16"])
def test_flows_that_never_end_or_wait_are_refused(name: str) -> None:
    scenario = load_scenario(name, expect=CongestionScenario)
    network = PacketNetwork(scenario)
    network.reset(0)
    with pytest.raises(SysgymError, match=f"{name}: flows never end or wait for others"):
        fair_slowdowns(network, Fabric.of(scenario))
