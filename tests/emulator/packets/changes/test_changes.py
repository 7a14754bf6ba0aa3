"""Changes of a running network: each setting acts as it says, and nothing else changes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.packets.changes.running import changeable_keys
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.errors import ScenarioError, SysgymError, UnknownName
from sysgym.scenarios import CongestionScenario, load_scenario

K = "queue.ecn_threshold_bytes"
DELAY = "topology.link_delay_s"
LOAD = "workload.load"
SENDERS = "workload.senders"
PAIRS = "workload.flows_per_pair"


def network_of(name: str, transport: str = "dctcp", **overrides: Any) -> PacketNetwork:
    scenario = load_scenario(name, overrides=overrides.get("overrides"), expect=CongestionScenario)
    network = PacketNetwork(scenario, transport=transport)
    network.reset(20_000)
    return network


def state_bytes(network: PacketNetwork) -> bytes:
    """All of a world's arrays but addresses, which differ between processes."""
    running = network.running
    flows, ports = running.state.flows, running.state.links
    return flows.tobytes() + ports.tobytes() + running.state.hosts.tobytes() + str(network.now_ns).encode()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("incast-32", K),
        ("incast-32", SENDERS),
        ("incast-32", "workload.period_s"),
        ("incast-32", DELAY),
        ("fattree-k4-websearch", LOAD),
        ("dumbbell-10g", PAIRS),
        ("onoff-dumbbell", "workload.rate_bps"),
        ("incast-websearch-mix", "workload.parts.background.load"),
    ],
)
def test_the_present_value_changes_nothing(name: str, key: str) -> None:
    network, other = network_of(name), network_of(name)
    value: Any = network.scenario.resolved()
    for part in key.split("."):
        value = value[part]
    for one in (network, other):
        one.advance(0.0037)
    network.change({key: value})
    for one in (network, other):
        one.advance(0.004)
    assert state_bytes(network) == state_bytes(other)
    assert np.array_equal(network.schedule.start_ns, other.schedule.start_ns)


def test_a_lower_threshold_shortens_the_queue() -> None:
    queues = []
    for threshold in (30_000, 300_000):
        network = network_of("dumbbell-10g", overrides={PAIRS: 2})
        network.advance(0.02)
        network.change({K: threshold})
        network.advance(0.01)
        before, now_s = network.ports().queue_byte_s.max(), network.now_s
        network.advance(0.02)
        queues.append((network.ports().queue_byte_s.max() - before) / (network.now_s - now_s))
    assert queues[0] < 60_000 < 200_000 < queues[1] < 400_000


def test_a_delay_acts_on_packets_sent_later_and_keeps_their_order() -> None:
    network = network_of("dumbbell-10g", overrides={PAIRS: 1, "workload.start_jitter_s": 0.0})
    network.advance(0.02)
    base_rtt_s = 1e-9 * network.running.state.flows["base_rtt_ns"][0]
    network.change({DELAY: 100e-6})
    network.advance(0.01)
    assert 1e-9 * network.running.state.flows["base_rtt_ns"][0] == pytest.approx(base_rtt_s + 6 * 90e-6)
    assert network.running.state.flows["srtt_ns"][0] * 1e-9 >= base_rtt_s + 6 * 90e-6
    network.change({DELAY: 1e-6})
    network.advance(0.01)
    assert network.running.state.flows["srtt_ns"][0] * 1e-9 < base_rtt_s + 100e-6
    # Where packets overtook each other, senders would take holes for losses.
    assert network.hosts().retransmitted_packets.sum() == 0
    assert network.ports().dropped_packets.sum() == 0


def test_a_round_that_has_begun_is_completed_and_the_next_has_the_new_senders() -> None:
    network = network_of("incast-32")
    period_s = network.scenario.workload.period_s  # type: ignore[union-attr]
    network.advance(1.5 * period_s)
    network.change({SENDERS: 5})
    network.advance(4 * period_s)
    flows = network.flows()
    sizes = [int(np.sum(flows.group == group)) for group in range(6)]
    assert sizes == [32, 32, 5, 5, 5, 5]
    assert np.isfinite(flows.finish_s[flows.group < 5]).all()
    network.change({SENDERS: 32})
    assert int(np.sum(network.flows().group == 6)) == 32


def test_flows_of_a_new_load_are_those_of_a_network_that_always_had_it() -> None:
    network = network_of("fattree-k4-websearch")
    network.advance(0.01)
    network.change({LOAD: 0.2})
    drawn = network.draw_schedule(20_000)
    later = drawn.start_ns >= 10_000_000
    begun = network.running.n_begun
    assert np.array_equal(network.schedule.start_ns[begun:], drawn.start_ns[later])
    assert np.array_equal(network.schedule.src[begun:], drawn.src[later])
    network.advance(0.03)
    assert network.running.n_begun > begun
    assert np.isfinite(network.flows().finish_s[begun : begun + 5]).all()


def test_long_lived_flows_are_added_and_stop() -> None:
    network = network_of("dumbbell-10g", overrides={PAIRS: 2})
    network.advance(0.01)
    network.change({PAIRS: 5})
    network.advance(0.01)
    assert network.hosts().active_flows.sum() == 20
    network.change({PAIRS: 1})
    network.advance(0.01)
    assert network.hosts().active_flows.sum() == 4
    assert np.isfinite(network.flows().finish_s).sum() == 16
    sent = network.hosts().sent_bytes.sum()
    network.advance(0.01)
    assert network.hosts().sent_bytes.sum() - sent > 0.8 * 10e9 / 8 * 0.01  # the others go on


def test_flows_go_over_to_another_law() -> None:
    network = network_of("dumbbell-10g", overrides={PAIRS: 4})
    network.advance(0.02)
    marked = network.ports().marked_packets.sum()
    network.change({}, transport="cubic")
    assert network.law.name == "cubic"
    network.advance(0.01)
    settled = network.ports().marked_packets.sum()
    network.advance(0.02)
    assert marked > 0
    assert network.ports().marked_packets.sum() == settled  # CUBIC's packets here cannot be marked
    assert network.ports().dropped_packets.sum() > 0
    network.reset(20_000)
    assert network.law.name == "dctcp"


def test_laws_that_need_another_network_are_refused_before_anything_changes() -> None:
    network = network_of("dumbbell-10g")
    network.advance(0.005)
    before = state_bytes(network)
    for law, words in (("dcqcn", "notifications"), ("paced", "agent sets its rate"), ("homa", "receivers")):
        with pytest.raises(SysgymError, match=words):
            network.change({K: 30_000}, transport=law)
    assert state_bytes(network) == before
    assert network.scenario.queue.ecn_threshold_bytes == 97_500


def test_what_cannot_change_is_said() -> None:
    network = network_of("allreduce-ring-16")
    assert set(changeable_keys(network.scenario)) == {K, DELAY}
    with pytest.raises(UnknownName, match=r"workload\.size_bytes"):
        network.change({"workload.size_bytes": 1_000})
    network = network_of("incast-32")
    with pytest.raises(UnknownName, match=r"topology\.link_rate_bps"):
        network.change({"topology.link_rate_bps": 1e9})
    with pytest.raises(ScenarioError, match="senders"):
        network.change({SENDERS: 0})
    with pytest.raises(SysgymError, match="33 hosts"):
        network.change({SENDERS: 33})
    network.reset(1, network.draw_schedule(1))
    with pytest.raises(SysgymError, match="given to reset"):
        network.change({SENDERS: 3})
    network.record(["switch->h0"])
    with pytest.raises(SysgymError, match="a recording runs"):
        network.change({K: 30_000})


def test_a_copy_of_a_changed_network_goes_on_in_the_same_way() -> None:
    network = network_of("incast-32")
    network.advance(0.004)
    network.change({SENDERS: 9, K: 40_000}, transport="cubic")
    network.advance(0.001)
    twin = copy.deepcopy(network)
    for one in (network, twin):
        one.advance(0.006)
    assert state_bytes(network) == state_bytes(twin)


CHANGES = st.lists(
    st.tuples(
        st.floats(0.0002, 0.004),
        st.sampled_from(
            [
                ({K: 15_000}, None),
                ({K: 400_000}, None),
                ({DELAY: 2e-6}, None),
                ({DELAY: 60e-6}, None),
                ({SENDERS: 3}, None),
                ({SENDERS: 32}, None),
                ({"workload.period_s": 4e-3}, None),
                ({}, "cubic"),
                ({}, "reno"),
                ({}, "dctcp"),
                ({SENDERS: 12, DELAY: 20e-6}, "dctcp"),
            ]
        ),
    ),
    max_size=5,
)


@settings(max_examples=15)
@given(CHANGES)
def test_any_changes_conserve_bytes_and_repeat(
    changes: list[tuple[float, tuple[dict[str, Any], str | None]]],
) -> None:
    ends = []
    for _ in range(2):
        network = network_of("incast-32")
        for after_s, (values, law) in changes:
            network.advance(after_s)
            network.change(values, transport=law)
        network.advance(0.05)  # what has begun has time to end: time-outs are 10 ms
        flows, now_s = network.flows(), network.now_s
        old = flows.start_s < now_s - 0.045
        assert np.isfinite(flows.finish_s[old]).all()
        delivered = flows.delivered_bytes[np.isfinite(flows.finish_s)]
        assert (delivered == 64_000).all()
        assert (network.ports().queue_bytes >= 0.0).all()
        ends.append(state_bytes(network))
    assert ends[0] == ends[1]


def test_calls_come_at_multiples_of_the_interval_and_change_nothing() -> None:
    network, alone = network_of("incast-32"), network_of("incast-32")
    times: list[int] = []
    network.call_every(70e-6, lambda: times.append(network.now_ns))
    for _ in range(10):
        network.advance(100e-6)
    alone.advance(1e-3)
    assert times == [70_000 * n for n in range(1, 15)]
    assert state_bytes(network) == state_bytes(alone)
