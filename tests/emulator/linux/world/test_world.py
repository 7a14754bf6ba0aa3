"""Worlds on the Linux kernel: throughput of flows, counters, and resets."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.traffic import runner
from sysgym.emulator.packets.counters.statistics import FlowTable, HostCounters, PortCounters
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.errors import BackendUnavailable, ScenarioError, SysgymError, UnknownName

from .conftest import SLOW_DUMBBELL, MakeWorld, NamespaceWatch, wait_until

pytestmark = pytest.mark.linux

PAYLOAD_SHARE = 1460 / 1500
RATE_BPS = 2e7
RANGE = {"low": 0.5, "high": 1.0}


def ports_of(world: Any) -> PortCounters:
    return PortCounters(*world.readings()["ports"])


def hosts_of(world: Any) -> HostCounters:
    return HostCounters(*world.readings()["hosts"])


def core(world: Any) -> int:
    return int(world.topology.links_named("west->east")[0])


def run(world: Any, seconds: float, interval_s: float = 0.01) -> None:
    for _ in range(round(seconds / interval_s)):
        world.advance(interval_s)


def rates_bps(world: Any, seconds: float, row: int) -> Any:
    """Mean rate of a host counter over a time: the clock is a busy machine's."""
    before = world.readings()
    run(world, seconds)
    after = world.readings()
    return (after["hosts"][row] - before["hosts"][row]) * 8 / (after["now_s"] - before["now_s"])


SENT, DELIVERED = 0, 2


@pytest.mark.parametrize("transport", ["cubic", "reno", "bbr", "dctcp"])
def test_flows_fill_the_bottleneck(make_world: MakeWorld, transport: str) -> None:
    world = make_world(transport=transport)
    world.reset(1)
    run(world, 0.5)
    goodput_bps = rates_bps(world, 1.0, DELIVERED).sum()
    assert 0.9 * RATE_BPS * PAYLOAD_SHARE < goodput_bps < 1.02 * RATE_BPS * PAYLOAD_SHARE
    assert hosts_of(world).active_flows.tolist() == [1, 1, 0, 0]


def test_dctcp_keeps_the_queue_at_its_threshold_and_cubic_fills_the_buffer(make_world: MakeWorld) -> None:
    queue_bytes = {}
    for transport in ("dctcp", "cubic"):
        world = make_world(transport=transport)
        world.reset(1)
        run(world, 0.5)
        before, begun_s = ports_of(world), world.readings()["now_s"]
        world.clear_maxima()
        run(world, 1.0)
        after, ended_s = ports_of(world), world.readings()["now_s"]
        area = (after.queue_byte_s - before.queue_byte_s)[core(world)]
        queue_bytes[transport] = area / (ended_s - begun_s)
        assert after.queue_max_bytes[core(world)] <= 60_000 + 1500  # the packet being sent is counted
        if transport == "dctcp":
            assert after.marked_packets[core(world)] > before.marked_packets[core(world)]
            assert hosts_of(world).marked_packets.sum() > 0
        else:
            assert hosts_of(world).marked_packets.sum() == 0
        world.close()
    assert 7_000 < queue_bytes["dctcp"] < 25_000
    assert queue_bytes["cubic"] > 1.5 * queue_bytes["dctcp"]


def test_counters_agree_with_each_other(make_world: MakeWorld) -> None:
    world = make_world(transport="cubic")
    world.reset(1)
    run(world, 1.0)
    readings = world.readings()
    ports, hosts = PortCounters(*readings["ports"]), HostCounters(*readings["hosts"])
    uplinks = world.topology.host_uplink[:2]
    # What the hosts say that they have sent is what their ports have sent, but for what is on its way.
    assert ports.sent_bytes[uplinks] == pytest.approx(hosts.sent_bytes[:2], rel=0.02, abs=60_000)
    assert hosts.received_bytes.sum() == hosts.delivered_bytes.sum()
    assert hosts.delivered_bytes.sum() <= hosts.sent_bytes.sum() * PAYLOAD_SHARE * 1.001
    table = FlowTable(**world.flows())
    assert table.delivered_bytes.sum() == pytest.approx(hosts.delivered_bytes.sum(), rel=0.05)
    assert np.all(table.rtt_min_s < table.rtt_mean_s)
    assert np.all(table.rtt_mean_s < 0.1)
    counters = world.flow_counters(np.arange(2))
    assert counters[:, 0] == pytest.approx(hosts.sent_packets[:2], rel=0.05)
    assert np.all(counters[:, 9] >= 1)
    assert counters[:, 12].tolist() == [1, 1]


def test_intervals_are_exact(make_world: MakeWorld) -> None:
    world = make_world(transport="cubic")
    world.reset(1)
    begun = time.monotonic()
    late_s = np.array([world.advance(0.01) for _ in range(100)])
    took_s = time.monotonic() - begun
    assert np.all(late_s >= 0)
    assert np.quantile(late_s, 0.25) < 0.5e-3
    # Ends lie on a grid: what one interval is late is not added to the next.
    if not world.overruns:
        assert took_s == pytest.approx(1.0, abs=0.02 + late_s[-1])


def test_time_stands_still_before_the_first_interval(make_world: MakeWorld) -> None:
    world = make_world()
    world.reset(1)
    world.wait([], 0.1)
    assert world.readings()["now_s"] == 0
    assert hosts_of(world).sent_packets.sum() == 0
    world.advance(0.01)
    assert world.readings()["now_s"] == pytest.approx(0.01, abs=0.02)


def test_missed_interval_is_counted_and_another_one_begins(make_world: MakeWorld) -> None:
    world = make_world()
    world.reset(1)
    world.advance(0.01)
    world.wait([], 0.05)
    begun = time.monotonic()
    late_s = world.advance(0.01)
    assert 0.009 < time.monotonic() - begun < 0.1
    assert late_s > 0.03
    assert world.overruns == 1


def test_traffic_goes_on_while_nobody_asks(make_world: MakeWorld) -> None:
    world = make_world()
    world.reset(1)
    run(world, 0.3)
    before = hosts_of(world).delivered_bytes.sum()
    world.wait([], 0.5)
    assert (hosts_of(world).delivered_bytes.sum() - before) * 8 / 0.5 > 0.85 * RATE_BPS


def test_reset_leaves_nothing_of_the_episode_before(make_world: MakeWorld) -> None:
    world = make_world(transport="cubic")
    world.reset(1)
    run(world, 0.5)
    assert ports_of(world).queue_bytes[core(world)] > 0
    world.reset(2)
    readings = world.readings()
    assert not readings["hosts"].any()
    assert not readings["ports"].any()
    assert readings["now_s"] == 0
    world.advance(0.002)  # no packet of the old episode is in the way of the first ones
    assert ports_of(world).dropped_packets.sum() == 0


def test_caps_hold_at_once_and_are_lifted_by_a_reset(make_world: MakeWorld) -> None:
    world = make_world(transport="cubic")
    world.reset(1)
    run(world, 0.3)
    world.apply(host_caps_bps=np.array([4e6, 6e6, np.inf, np.inf]))
    run(world, 0.3)
    assert rates_bps(world, 1.0, SENT)[:2] == pytest.approx([4e6, 6e6], rel=0.06)
    world.reset(1)
    run(world, 0.5)
    assert rates_bps(world, 0.5, SENT).sum() > 0.9 * RATE_BPS


@pytest.mark.parametrize("transport", ["paced", "dctcp"])
def test_round_trips_do_not_count_what_packets_wait_for_their_host_s_cap(
    make_world: MakeWorld, transport: str
) -> None:
    world = make_world(transport=transport)
    caps_bps = np.array([4e6, 8e6, np.inf, np.inf])
    world.reset(1)
    world.apply(host_caps_bps=caps_bps)
    run(world, 0.5)
    before = hosts_of(world)
    for _ in range(50):
        world.advance(0.02)
        after = hosts_of(world)
    samples = (after.rtt_samples - before.rtt_samples)[:2]
    rtt_s = (after.rtt_sum_s - before.rtt_sum_s)[:2] / samples
    a_packet_s = 8 * 1500 / caps_bps[:2]
    assert np.all(samples > 100)
    # Eight packets wait in the card of a capped host, 12 to 24 ms.
    assert np.all(rtt_s < 0.6 * a_packet_s)


def test_a_first_cap_takes_nothing_off_earlier_round_trips(make_world: MakeWorld) -> None:
    world = make_world(transport="paced")
    world.reset(1)
    run(world, 0.3)
    before = hosts_of(world)
    world.apply(host_caps_bps=np.array([4e6, 8e6, np.inf, np.inf]))
    after = hosts_of(world)
    assert before.rtt_sum_s.sum() > 0
    assert np.all(after.rtt_sum_s >= before.rtt_sum_s)


def test_paced_hosts_send_at_their_caps_and_losses_change_nothing(make_world: MakeWorld) -> None:
    world = make_world(transport="paced")
    world.reset(1)
    world.apply(host_caps_bps=np.array([1.6e7, 1.6e7, np.inf, np.inf]))
    run(world, 0.5)
    dropped = ports_of(world).dropped_packets.sum()
    assert rates_bps(world, 1.0, SENT)[:2] == pytest.approx([1.6e7, 1.6e7], rel=0.05)
    assert ports_of(world).dropped_packets.sum() > dropped


def test_rates_and_windows_of_learned_flows_are_obeyed(make_world: MakeWorld) -> None:
    world = make_world(transport="learned")
    world.reset(1)
    flows = np.arange(2)
    world.apply(windows=(flows, np.array([4.0, 20.0])), flow_rates=(flows, np.array([1e9, 1e9])))
    run(world, 0.5)
    assert world.flow_counters(flows)[:, 9].tolist() == [4, 20]
    world.apply(windows=(flows, np.array([200.0, 200.0])), flow_rates=(flows, np.array([2e6, 6e6])))
    run(world, 0.3)
    assert rates_bps(world, 1.0, SENT)[:2] == pytest.approx([2e6, 6e6], rel=0.1)


def test_window_of_a_kernel_transport_is_its_own(make_world: MakeWorld) -> None:
    world = make_world(transport="cubic")
    world.reset(1)
    with pytest.raises(SysgymError, match="cubic"):
        world.apply(windows=(np.array([0]), np.array([10.0])))


def test_sized_flows_finish_when_they_should(make_world: MakeWorld) -> None:
    world = make_world()
    sizes = [1_000, 14_600, 200_000]
    schedule = make_schedule(
        np.random.default_rng(0),
        [0, 0, 0],
        [2, 2, 2],
        size_bytes=sizes,
        start_ns=[0, 100_000_000, 200_000_000],
    )
    world.reset(1, schedule)
    run(world, 0.5)
    table = FlowTable(**world.flows())
    assert table.started.all()
    assert table.delivered_bytes.tolist() == sizes
    assert table.start_s == pytest.approx([0.0, 0.1, 0.2], abs=0.02)
    # A shaper lets the first packets pass at once: short flows are faster than on links of that rate.
    assert np.all(table.slowdown > 0)
    assert 0.9 < table.slowdown[2] < 1.5  # 80 ms at line rate
    hosts = hosts_of(world)
    assert hosts.delivered_bytes.tolist() == [sum(sizes), 0, 0, 0]
    assert hosts.received_bytes.tolist() == [0, 0, sum(sizes), 0]
    assert hosts.active_flows.sum() == 0


def test_more_flows_than_connections_at_first(make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of later flows are opened while earlier ones send."""
    monkeypatch.setattr(runner, "FIRST_CONNECTIONS", 40)
    world = make_world()
    n_flows = 400
    starts_ns = np.linspace(0, 2e9, n_flows).astype(np.int64)
    schedule = make_schedule(
        np.random.default_rng(0),
        np.arange(n_flows) % 2,
        np.full(n_flows, 2),
        size_bytes=1000,
        start_ns=starts_ns,
    )
    world.reset(1, schedule)
    run(world, 2.5)
    table = FlowTable(**world.flows())
    assert np.isfinite(table.finish_s).sum() == n_flows
    assert not any("flow" in warning for warning in world.warnings)
    assert np.median(table.finish_s - table.start_s) < 0.02


def test_flows_wait_for_those_before_them(make_world: MakeWorld) -> None:
    world = make_world()
    schedule = make_schedule(
        np.random.default_rng(0),
        [0, 2, 0],
        [2, 0, 3],
        size_bytes=50_000,
        start_ns=0,
        after=[[-1], [0], [1]],
        after_delay_ns=[0, 20_000_000, 0],
    )
    world.reset(1, schedule)
    assert np.isnan(FlowTable(**world.flows()).start_s[1:]).all()
    run(world, 0.2)
    table = FlowTable(**world.flows())
    assert not np.isnan(table.finish_s).any()
    assert 0.02 <= table.start_s[1] - table.finish_s[0] < 0.04
    assert 0 <= table.start_s[2] - table.finish_s[1] < 0.02


def test_incast_drops_where_the_buffer_is_small_and_all_flows_end(make_world: MakeWorld) -> None:
    world = make_world(
        "incast-32",
        overrides={
            "topology.hosts": 17,
            "workload.senders": 16,
            "workload.request_bytes": 30_000,
            "workload.period_s": 0.5,
            "topology.link_rate_bps": 1e8,
            "queue.buffer_bytes": 60_000,
            "queue.ecn_threshold_bytes": 30_000,
            "control.decision_interval_s": 0.01,
            "control.episode_steps": 100,
        },
    )
    world.reset(1)
    run(world, 1.0)
    table = FlowTable(**world.flows())
    first = table.group == 0
    assert first.sum() == 16
    assert np.isfinite(table.finish_s[first]).all()
    assert ports_of(world).dropped_packets[world.topology.host_downlink[0]] > 0
    assert table.retransmitted_packets.sum() > 0
    # 16 times 30 kB at 100 Mb/s are 40 ms.
    assert (table.finish_s[first].max() - table.start_s[first].min()) > 0.039


def test_flows_of_one_world_may_have_different_transports(make_world: MakeWorld) -> None:
    world = make_world(transport="reno", flow_transports={1: "dctcp"})
    world.reset(1)
    run(world, 0.5)
    marked = FlowTable(**world.flows()).marked_packets
    assert marked[0] == 0
    assert marked[1] > 0


def test_two_worlds_at_once_do_not_meet(make_world: MakeWorld) -> None:
    one, other = make_world(), make_world()
    one.reset(1)
    other.reset(2)
    one.advance(0.2)
    assert hosts_of(one).sent_packets.sum() > 100
    assert hosts_of(other).sent_packets.sum() == 0
    assert ports_of(other).sent_bytes.sum() == 0


def test_broken_flow_is_told_of_and_the_episode_goes_on(make_world: MakeWorld) -> None:
    world = make_world()
    world.reset(1)
    run(world, 0.2)
    world._traffic.connection(0).sender.shutdown(1)
    run(world, 0.3)
    assert any("flow 0 has broken off" in warning for warning in world.warnings)
    goodput_bps = rates_bps(world, 0.5, DELIVERED)
    assert goodput_bps[0] == 0
    assert goodput_bps[1] > 0.8 * RATE_BPS


def test_oracle_shares_the_bottleneck(make_world: MakeWorld) -> None:
    world = make_world()
    world.reset(1)
    assert world.oracle_rates_bps().tolist() == [0, 0, 0, 0]
    world.advance(0.05)
    assert world.oracle_rates_bps() == pytest.approx([1e7, 1e7, 0, 0])


def test_apply_and_readings_are_quick(make_world: MakeWorld) -> None:
    """A guard: the limits are ten times what a step costs, and an interval of these scenarios is longer."""
    for name, rate_bps, limit_s in (("iroko-dumbbell-1g", 1e7, 8e-3), ("iroko-fattree-1g", 2e6, 25e-3)):
        world = make_world(name, overrides={"topology.link_rate_bps": rate_bps})
        world.reset(1)
        world.advance(0.1)
        line_bps = world.topology.link_rate_bps[world.topology.host_uplink]
        took_s = []
        for step in range(100):
            begun = time.process_time()  # what it costs; others may have the processor in between
            world.apply(host_caps_bps=line_bps * (0.5 + 0.005 * step))
            world.readings()
            took_s.append(time.process_time() - begun)
            world.advance(0.01)
        assert np.median(took_s) < limit_s


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (
            {"faults.rate_changes": [{"link": "*", "interval_s": RANGE, "factor": RANGE}]},
            "faults.rate_changes",
        ),
        ({"faults.links": [{"link": "west->east", "down_s": 1.0}]}, "faults.links"),
        ({"queue.pfc_pause_bytes": 50_000, "queue.ecn_threshold_bytes": 30_000}, "queue.pfc_pause_bytes"),
        ({"queue.shared_buffer_bytes": 4_000_000}, "queue.shared_buffer_bytes"),
        ({"routing.ecmp": "packet"}, "routing.ecmp"),
        ({"routing.ecmp": "flowlet", "routing.flowlet_gap_s": 1e-3}, "routing.ecmp"),
        ({"transport.delayed_ack_packets": 4}, "transport.delayed_ack_packets"),
        ({"transport.header_bytes": 60}, "transport.header_bytes"),
        ({"transport.receive_coalescing_s": 1e-5}, "transport.receive_coalescing_s"),
        (
            {"transport.segmentation_offload_bytes": 6_000, "faults.loss_probability": 1e-3},
            "transport.segmentation_offload_bytes",
        ),
        ({"transport.host_jitter_s": 1e-3}, "transport.host_jitter_s"),
        ({"topology.hosts_per_side": 100}, "topology"),
    ],
)
def test_what_the_kernel_cannot_do_is_named(make_world: MakeWorld, overrides: Any, key: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        make_world(overrides={**SLOW_DUMBBELL, **overrides})
    assert key in [problem.key for problem in raised.value.problems]


def test_unknown_transport_is_named(make_world: MakeWorld) -> None:
    with pytest.raises(UnknownName, match="cubic"):
        make_world(transport="cubix")


def test_small_queue_and_slow_links_mean_single_packets(make_world: MakeWorld) -> None:
    assert make_world().bundle_packets == 1
    fast = make_world(overrides={"queue.ecn_threshold_bytes": 30_000})
    assert fast.bundle_packets == 5
    bursts = {"transport.segmentation_offload_bytes": 4_500}
    assert make_world(overrides=bursts).bundle_packets == 3
    assert any("bundles of up to 5" in warning for warning in fast.warnings)


def test_namespaces_go_with_the_world(make_world: MakeWorld) -> None:
    world, watch = make_world(), NamespaceWatch()
    for node in world._fabric.nodes:
        watch.add(node.pid)
    assert len(watch.alive()) == 6
    world.reset(1)
    run(world, 0.1)
    world.close()
    world.close()
    assert wait_until(lambda: not watch.alive())


def test_missing_program_leaves_nothing_behind(
    make_world: MakeWorld, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise BackendUnavailable("linux", f"no {name}")

    monkeypatch.setattr(programs, "congestion_control", missing)
    with pytest.raises(BackendUnavailable):
        make_world(transport="dctcp")
