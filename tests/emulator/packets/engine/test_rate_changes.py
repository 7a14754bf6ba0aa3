"""Links with changing rates: throughput, queues, and conservation of packets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.errors import ScenarioError
from sysgym.scenarios import CongestionScenario, load_scenario

MakeNetwork = Callable[..., PacketNetwork]

CORE = "west->east"


def change(link: str = CORE, every_s: float | tuple[float, float] = 1e-3, **rate: Any) -> dict[str, Any]:
    """One entry of faults.rate_changes."""
    low, high = every_s if isinstance(every_s, tuple) else (every_s, every_s)
    return {"link": link, "interval_s": {"low": low, "high": high, "scale": "linear"}, **rate}


def fixed(value: float) -> dict[str, Any]:
    return {"low": value, "high": value, "scale": "linear"}


def link_id(network: PacketNetwork, name: str = CORE) -> int:
    return int(network.topology.links_named(name)[0])


def sent_bits(network: PacketNetwork, duration_s: float, link: int) -> float:
    before = network.ports().sent_bytes[link]
    network.advance(duration_s)
    return float(8 * (network.ports().sent_bytes[link] - before))


@pytest.mark.parametrize("transport", ["cubic", "dctcp"])
@pytest.mark.parametrize(("rate", "new_bps"), [("factor", 2.5e9), ("rate_bps", 2.5e9)])
def test_a_link_carries_its_new_rate(
    make_network: MakeNetwork, transport: str, rate: str, new_bps: float
) -> None:
    value = new_bps if rate == "rate_bps" else new_bps / 10e9
    drawn: dict[str, Any] = {rate: fixed(value)}
    network = make_network(transport, faults__rate_changes=[change(every_s=10e-3, **drawn)])
    core = link_id(network)
    network.advance(5e-3)
    assert sent_bits(network, 5e-3, core) == pytest.approx(10e9 * 5e-3, rel=0.01)
    assert network.link_rate_bps[core] == new_bps
    network.advance(3e-3)
    assert sent_bits(network, 5e-3, core) == pytest.approx(new_bps * 5e-3, rel=0.01)
    assert network.topology.link_rate_bps[core] == 10e9
    assert network.oracle_rates_bps().sum() == pytest.approx(new_bps, rel=0.01)
    network.reset(1)
    assert network.link_rate_bps[core] == 10e9


def test_the_bytes_that_wait_stay_and_leave_at_the_new_rate(make_network: MakeNetwork) -> None:
    """Four hosts at 10 Gb/s fill the queue of a link; then it is ten times slower."""
    network = make_network(
        "paced", faults__rate_changes=[change(every_s=1e-3, factor=fixed(0.1))],
        queue__buffer_bytes=10_000_000, transport__host_jitter_s=0.0,
    )  # fmt: skip
    core = link_id(network)
    network.advance(1e-3 - 1e-9)
    before = network.ports()
    network.advance(2e-9)
    after = network.ports()
    assert before.queue_bytes[core] > 900_000
    assert after.queue_bytes[core] == pytest.approx(before.queue_bytes[core], abs=3100)
    assert after.queue_byte_s[core] == pytest.approx(before.queue_byte_s[core], rel=1e-4)
    assert after.queue_max_bytes[core] == pytest.approx(before.queue_max_bytes[core], abs=3100)
    network.set_host_rate_caps(np.full(network.n_hosts, 1e3))  # hardly anything more comes
    network.advance(1e-4)
    waits = network.ports().queue_bytes[core]
    assert sent_bits(network, 2e-3, core) == pytest.approx(1e9 * 2e-3, rel=1e-3)
    assert network.ports().queue_bytes[core] == pytest.approx(waits - 1e9 * 2e-3 / 8, abs=3100)


def test_an_integral_over_changes_is_the_queue_s(make_network: MakeNetwork) -> None:
    network = make_network(
        "cubic", faults__rate_changes=[change(every_s=(50e-6, 500e-6), factor={"low": 0.05, "high": 1.0})]
    )
    core, step_s, total = link_id(network), 1e-6, 0.0
    for _ in range(4000):
        network.advance(step_s)
        total += network.ports().queue_bytes[core] * step_s
    assert network.ports().queue_byte_s[core] == pytest.approx(total, rel=0.01)


def test_quantiles_are_in_bytes_whatever_the_rate(make_network: MakeNetwork) -> None:
    network = make_network(
        "paced", faults__rate_changes=[change(every_s=1e-3, factor=fixed(0.01))], queue__buffer_bytes=300_000
    )
    network.advance(40e-3)  # full from the beginning, at any rate
    assert network.queue_quantile_bytes(0.5)[link_id(network)] == pytest.approx(300_000, rel=0.08)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("transport", ["dctcp", "bbr", "paced"])
@pytest.mark.parametrize("link", ["west<->east", "*->*"])
def test_no_packet_is_lost_or_made(make_network: MakeNetwork, transport: str, link: str, seed: int) -> None:
    changes = [change(link, (20e-6, 400e-6), factor={"low": 0.02, "high": 3.0, "scale": "log"})]
    network = make_network(
        transport,
        seed,
        faults__rate_changes=changes,
        queue__buffer_bytes=60_000,
        queue__ecn_threshold_bytes=30_000,
    )
    # A host hands over eight packets and one more; then its link may slow down. Times are whole nanoseconds.
    buffers = np.where(network.topology.from_host, 10 * 1500 / 0.02, 60_000)
    for _ in range(30):
        network.advance(200e-6)
        ports = network.ports()
        assert np.all(ports.queue_bytes <= buffers + 8.0)
        assert np.all(ports.queue_max_bytes <= buffers + 8.0)
    network.reset(seed)
    network.advance(6e-3)
    state = network._state
    in_flight = state.hosts["sent_packets"].sum() - state.hosts["acked_packets"].sum()
    in_flight -= state.links["dropped_packets"].sum()
    assert in_flight + state.world["free_packets"][0] == len(state.packets)
    waiting = 0
    for record in state.links:
        slot, last_ns = record["head"], state.world["now_ns"][0]
        while slot >= 0:
            packet = state.packets[slot]
            assert packet["arrival_ns"] >= last_ns, "packets overtake each other on a link"
            last_ns, slot, waiting = packet["arrival_ns"], packet["next"], waiting + 1
    assert waiting == in_flight
    assert network.flows().delivered_bytes.sum() == network.hosts().received_bytes.sum() > 0
    again = make_network(
        transport,
        seed,
        faults__rate_changes=changes,
        queue__buffer_bytes=60_000,
        queue__ecn_threshold_bytes=30_000,
    )
    again.advance(6e-3)
    assert again._state.flows.tobytes() == state.flows.tobytes()


def test_a_link_carries_no_more_than_its_rates_allow(make_network: MakeNetwork) -> None:
    changes = [change(every_s=(100e-6, 300e-6), factor={"low": 0.1, "high": 1.0})]
    network = make_network("paced", faults__rate_changes=changes)
    core, room_bits = link_id(network), 0.0
    network.advance(1e-3)
    began = network.ports().sent_bytes[core]
    for _ in range(2000):
        rate_bps = network.link_rate_bps[core]
        network.advance(1e-6)
        room_bits += 1e-6 * 0.5 * (rate_bps + network.link_rate_bps[core])
    assert 8 * (network.ports().sent_bytes[core] - began) == pytest.approx(room_bits, rel=0.01)


def test_a_host_s_own_link_is_used_at_once_when_it_becomes_faster(make_network: MakeNetwork) -> None:
    slow_then_fast = [
        change("h0->west", 1e-3, rate_bps=fixed(1e6)),
        change("h0->west", 1.7e-3, rate_bps=fixed(8e9)),
    ]
    network = make_network("paced", faults__rate_changes=slow_then_fast, topology__hosts_per_side=1)
    network.advance(1.7e-3)
    assert sent_bits(network, 0.2e-3, link_id(network, "h0->west")) == pytest.approx(8e9 * 0.2e-3, rel=0.02)


def test_every_episode_draws_its_own_changes_and_a_seed_always_the_same(make_network: MakeNetwork) -> None:
    changes = [change(every_s=(1e-3, 5e-3), factor={"low": 0.1, "high": 1.0})]

    def rates(seed: int) -> list[float]:
        network = make_network("dctcp", seed, faults__rate_changes=changes)
        found = []
        for _ in range(20):
            network.advance(1e-3)
            found.append(float(network.link_rate_bps[link_id(network)]))
        return found

    assert rates(1) == rates(1)
    assert rates(1) != rates(2)
    assert 1e9 <= min(rates(1)) < max(rates(1)) <= 10e9


def test_the_workload_is_the_same_with_and_without_changes(make_network: MakeNetwork) -> None:
    changed = make_network("dctcp", 3, faults__rate_changes=[change(factor=fixed(0.5))])
    plain = make_network("dctcp", 3)
    one, other = changed.schedule, plain.schedule
    for name in ("src", "dst", "size_bytes", "start_ns", "src_port", "dst_port"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_genet_s_link_changes_within_an_episode() -> None:
    scenario = load_scenario("genet-links", expect=CongestionScenario).draw("train", 3)
    network = PacketNetwork(scenario, transport="cubic")
    network.reset(3)
    core, found = link_id(network), set()
    for _ in range(60):
        network.advance(1.0)
        found.add(float(network.link_rate_bps[core] / network.topology.link_rate_bps[core]))
    assert 5 < len(found) < 40
    assert 0.25 <= min(found) < max(found) <= 1.0


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ([change()], "rate_bps"),
        ([change(factor=fixed(0.5), rate_bps=fixed(1e9))], "rate_bps"),
        ([change(factor=fixed(0.0))], "factor"),
        ([change(rate_bps=fixed(-1e9))], "rate_bps"),
        ([change(every_s=0.0, factor=fixed(0.5))], "interval_s"),
        ([change(every_s=1e-6, factor=fixed(0.5))], "interval_s"),
    ],
)
def test_changes_that_make_no_sense_are_refused(changes: list[dict[str, Any]], key: str) -> None:
    overrides = {"faults.rate_changes": changes, "control.episode_steps": 1_000_000}
    with pytest.raises(ScenarioError, match=key):
        load_scenario("dumbbell-10g", overrides=overrides)


def test_a_link_that_does_not_exist_is_named(make_network: MakeNetwork) -> None:
    with pytest.raises(ScenarioError, match=r"faults\.rate_changes\[0\]\.link"):
        make_network("dctcp", faults__rate_changes=[change("west->esat", factor=fixed(0.5))])


def test_lossless_queues_have_no_changing_links() -> None:
    overrides = {
        "queue.pfc_pause_bytes": 200_000,
        "faults.rate_changes": [change(factor=fixed(0.5))],
    }
    with pytest.raises(ScenarioError, match="pfc_pause_bytes"):
        load_scenario("dumbbell-10g", overrides=overrides)
