"""Closed forms of single links, shared links and chains, and invariants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.simulation import Flows, Timeline, simulate
from sysgym.emulator.packets.topology.max_min_fairness import max_min_rates
from sysgym.scenarios.errors import SysgymError

MakeFlows = Callable[..., Flows]
CheckRun = Callable[[Flows, NDArray[np.float64], Timeline], None]

GB_PER_S = np.array([1e9])


def test_one_flow_takes_its_bytes_over_the_bandwidth_and_the_latency(make_flows: MakeFlows) -> None:
    run = simulate(make_flows([3e9], [[0]], latency_s=0.25), GB_PER_S)
    assert (run.start_s[0], run.sent_s[0], run.finish_s[0], run.time_s) == (0.0, 3.0, 3.25, 3.25)


def test_nothing_to_do_takes_no_time(make_flows: MakeFlows) -> None:
    assert simulate(make_flows([], []), GB_PER_S).time_s == 0.0


def test_two_flows_share_until_the_shorter_one_is_sent(make_flows: MakeFlows) -> None:
    # Half each until 2 s; then the longer one has 2e9 bytes left and all of the link.
    run = simulate(make_flows([1e9, 3e9], [[0], [0]]), GB_PER_S)
    np.testing.assert_allclose(run.sent_s, [2.0, 4.0], rtol=1e-12)


def test_equal_flows_end_at_exactly_the_same_time(make_flows: MakeFlows) -> None:
    run = simulate(make_flows([1e9 / 3] * 7, [[0]] * 7), GB_PER_S)
    assert len(set(run.finish_s)) == 1
    assert run.time_s == pytest.approx(7 / 3, rel=1e-12)


def test_parking_lot_is_max_min_fair(make_flows: MakeFlows) -> None:
    # One flow over three links, one more on each: 1/2, 1/2; then the 2 GB/s link leaves 3/2 to its own flow.
    bandwidth = np.array([1e9, 2e9, 4e9])
    flows = make_flows([1e9, 1e9, 1e9, 1e9], [[0, 1, 2], [0], [1], [2]])
    run = simulate(flows, bandwidth, record_rates=True)
    assert run.rates is not None
    first = {
        int(flow): rate for flow, rate in zip(run.rates.flow[:4], run.rates.rate_bytes_per_s, strict=False)
    }
    assert first == pytest.approx({0: 0.5e9, 1: 0.5e9, 2: 1.5e9, 3: 3.5e9})
    np.testing.assert_allclose(run.sent_s, [2.0, 2.0, 2 / 3, 2 / 7], rtol=1e-12)


def test_a_flow_speeds_up_when_one_that_it_never_met_ends(make_flows: MakeFlows) -> None:
    # b shares link 0 with a and link 1 with c. When a has gone, b is held by link 1 no less, but c is.
    bandwidth = np.array([1.0, 1.5])
    run = simulate(make_flows([1.0, 10.0, 10.0], [[0], [0, 1], [1]]), bandwidth)
    # Until 2: a 1/2, b 1/2, c 1. Then b and c 3/4 each: c has 8 left, b 9.
    assert run.sent_s[0] == pytest.approx(2.0)
    assert run.sent_s[2] == pytest.approx(2.0 + 8.0 / 0.75)
    assert run.sent_s[1] == pytest.approx(2.0 + 8.0 / 0.75 + 1.0)


def test_a_chain_of_dependencies_adds_up(make_flows: MakeFlows) -> None:
    run = simulate(
        make_flows([1e9, 2e9, 3e9], [[0], [0], [0]], waits=[[], [0], [1]], latency_s=0.1), GB_PER_S
    )
    np.testing.assert_allclose(run.start_s, [0.0, 1.1, 3.2], rtol=1e-12)
    np.testing.assert_allclose(run.finish_s, [1.1, 3.2, 6.3], rtol=1e-12)


def test_what_follows_does_not_wait_for_the_latency(make_flows: MakeFlows) -> None:
    run = simulate(make_flows([1e9, 1e9], [[0], [0]], follows=[-1, 0], latency_s=5.0), GB_PER_S)
    np.testing.assert_allclose(run.finish_s, [6.0, 7.0], rtol=1e-12)


def test_a_pipeline_of_chunks_fills_and_then_flows(make_flows: MakeFlows) -> None:
    # n links, m chunks: (n + m - 1) chunk times and n latencies.
    n, m, chunk = 4, 8, 1e8
    links, waits, follows = [], [], []
    for c in range(m):
        for hop in range(n):
            links.append([hop])
            waits.append([c * n + hop - 1] if hop else [])
            follows.append((c - 1) * n + hop if c else -1)
    flows = make_flows([chunk] * (n * m), links, waits=waits, follows=follows, latency_s=1e-3)
    run = simulate(flows, np.full(n, 1e9))
    assert run.time_s == pytest.approx((n + m - 1) * 0.1 + n * 1e-3, rel=1e-12)


def test_a_flow_spread_over_links_uses_its_share_of_each(make_flows: MakeFlows) -> None:
    # A quarter of the bytes over each of four parallel links; one of them is shared with another flow.
    shares = [[0.25] * 4, [1.0]]
    run = simulate(make_flows([4e9, 1e9], [[0, 1, 2, 3], [0]], shares=shares), np.full(4, 1e9))
    # Equal rates r with r / 4 + r = 1e9 until the second is sent, then 4e9.
    assert run.sent_s[1] == pytest.approx(1.25)
    assert run.sent_s[0] == pytest.approx(1.25 + (4e9 - 1e9) / 4e9)


def test_no_bytes_take_the_latency_alone(make_flows: MakeFlows) -> None:
    run = simulate(make_flows([0.0, 0.0], [[0], [0]], waits=[[], [0]], latency_s=2e-6), GB_PER_S)
    np.testing.assert_allclose(run.finish_s, [2e-6, 4e-6], rtol=1e-12)


def test_a_terabyte_and_a_byte_on_one_link(make_flows: MakeFlows) -> None:
    run = simulate(make_flows([1e12, 1.0], [[0], [0]]), GB_PER_S)
    np.testing.assert_allclose(run.sent_s, [1000.000000001, 2e-9], rtol=1e-12)


def test_more_flows_at_once_than_there_was_room_for(make_flows: MakeFlows) -> None:
    n = 400
    run = simulate(make_flows(np.arange(1.0, n + 1), [[0]] * n), np.array([1.0]))
    # The k-th shortest of flows that share a link: those before it are sent, the others have as much.
    k = np.arange(1, n + 1)
    np.testing.assert_allclose(run.sent_s, k * (k + 1) / 2 + k * (n - k), rtol=1e-9)


@st.composite
def _networks(draw: st.DrawFn) -> tuple[list[Any], dict[str, Any], NDArray[np.float64]]:
    n_links = draw(st.integers(1, 6))
    n_flows = draw(st.integers(1, 14))
    bandwidth = [draw(st.sampled_from([1.0, 2.0, 3.5, 10.0])) for _ in range(n_links)]
    sizes = [draw(st.sampled_from([0.0, 1.0, 2.0, 7.0, 1e-3, 1e4])) for _ in range(n_flows)]
    links = [
        draw(st.lists(st.integers(0, n_links - 1), min_size=1, max_size=n_links, unique=True))
        for _ in range(n_flows)
    ]
    shares = [[draw(st.sampled_from([1.0, 0.5, 1 / 3])) for _ in path] for path in links]
    waits = [
        draw(st.lists(st.integers(0, flow - 1), max_size=2, unique=True)) if flow else []
        for flow in range(n_flows)
    ]
    follows, left = [], list(range(n_flows))
    for flow in range(n_flows):
        earlier = [other for other in left if other < flow]
        chosen = draw(st.sampled_from([-1, *earlier]))
        if chosen >= 0:
            left.remove(chosen)
        follows.append(chosen)
    latency_s = [draw(st.sampled_from([0.0, 0.1, 3.0])) for _ in range(n_flows)]
    options = {"shares": shares, "waits": waits, "follows": follows, "latency_s": latency_s}
    return [sizes, links], options, np.array(bandwidth)


@given(_networks())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_and_capacities_are_kept(
    make_flows: MakeFlows,
    check_run: CheckRun,
    network: tuple[list[Any], dict[str, Any], NDArray[np.float64]],
) -> None:
    arguments, options, bandwidth = network
    flows = make_flows(*arguments, **options)
    check_run(flows, bandwidth, simulate(flows, bandwidth, record_rates=True))


@given(_networks())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_first_rates_are_the_max_min_rates(
    make_flows: MakeFlows, network: tuple[list[Any], dict[str, Any], NDArray[np.float64]]
) -> None:
    (sizes, links), _, bandwidth = network
    flows = make_flows([size + 1.0 for size in sizes], links)
    run = simulate(flows, bandwidth, record_rates=True)
    assert run.rates is not None
    rates = np.zeros(len(sizes))
    now = run.rates.time_s == 0.0
    rates[run.rates.flow[now]] = run.rates.rate_bytes_per_s[now]
    routes = np.full((len(links), max(map(len, links))), -1, np.int32)
    for row, path in zip(routes, links, strict=True):
        row[: len(path)] = path
    np.testing.assert_allclose(rates, max_min_rates(routes, bandwidth), rtol=1e-9)


def test_the_order_of_flows_does_not_matter(make_flows: MakeFlows) -> None:
    sizes, links = [5.0, 1.0, 3.0, 2.0], [[0], [0, 1], [1], [0]]
    bandwidth = np.array([1.0, 0.7])
    forward = simulate(make_flows(sizes, links), bandwidth)
    backward = simulate(make_flows(sizes[::-1], links[::-1]), bandwidth)
    np.testing.assert_allclose(forward.finish_s, backward.finish_s[::-1], rtol=1e-12)


def test_flows_that_wait_in_a_circle_are_an_error(make_flows: MakeFlows) -> None:
    flows = make_flows([1.0, 1.0, 1.0], [[0]] * 3, waits=[[], [2], [1]])
    with pytest.raises(SysgymError, match="2 of 3 flows never start"):
        simulate(flows, GB_PER_S)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size_bytes": np.array([1.0, -1.0])}, "size or latency is negative"),
        ({"size_bytes": np.array([1.0, np.nan])}, "size or latency is negative or not a number"),
        ({"latency_s": np.array([0.0, np.inf])}, "not finite"),
        ({"path": np.array([0, 2], np.int32)}, "path goes from 0 to 2, there are 2"),
        ({"follows": np.array([1, 1], np.int32)}, "two flows follow the same"),
        ({"wait_first": np.array([0, 0, 1])}, "wait_first does not ascend from 0 to 0"),
        ({"latency_s": np.zeros(3)}, "2 flows, but latency_s has the shape"),
    ],
)
def test_tables_that_make_no_sense_are_errors(
    make_flows: MakeFlows, change: dict[str, Any], message: str
) -> None:
    flows = dataclasses.replace(make_flows([1.0, 1.0], [[0], [0]]), **change)
    with pytest.raises(SysgymError, match=message):
        simulate(flows, GB_PER_S)


def test_a_link_without_bandwidth_is_an_error(make_flows: MakeFlows) -> None:
    with pytest.raises(SysgymError, match="bandwidth"):
        simulate(make_flows([1.0], [[0]]), np.array([0.0]))
