"""Schedules: times in closed form, correctness transfer by transfer, and lower bounds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.collectives.bounds import gather_bound_s, lower_bound_s
from sysgym.emulator.collectives.checking import ScheduleError, check_schedule
from sysgym.emulator.collectives.collective import Kind, Phase
from sysgym.emulator.collectives.schedule import Plan, Schedule
from sysgym.emulator.collectives.spread import Spread
from sysgym.emulator.collectives.task import SynthesisTask
from tests.emulator.collectives.conftest import SYSTEMS, earliest, task

KINDS = [kind.value for kind in Kind]


def ring_plans(one: SynthesisTask) -> list[Plan]:
    """Return the plans in which every chunk goes once around a ring."""
    n = one.n_devices
    return [
        Plan.of(
            [
                ((device - step) % n, one.plan_hops(phase)[device, (device + 1) % n])
                for step in range(n - 1)
                for device in range(n)
            ]
        )
        for phase in one.collective.phases
    ]


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_a_ring_takes_n_less_one_steps(n: int, world: SimpleNamespace) -> None:
    one = world.task(f"ring-{n}", "all_gather", latency_s=0.25, size_bytes=8e9)
    schedule = Schedule.of_plans(one, ring_plans(one))
    check_schedule(schedule)
    assert schedule.time_s == pytest.approx((n - 1) * (0.25 + 8 / n))


def test_the_same_plan_backwards_reduces_in_the_same_time(world: SimpleNamespace) -> None:
    for kind, phases in (("reduce_scatter", 1), ("all_reduce", 2)):
        one = world.task("ring-5", kind, latency_s=0.25, size_bytes=5e9)
        schedule = Schedule.of_plans(one, ring_plans(one))
        check_schedule(schedule)
        assert schedule.time_s == pytest.approx(phases * 4 * 1.25)
        assert schedule.n_transfers == phases * 20


@pytest.mark.parametrize(("kind", "phases"), [("all_gather", 1), ("all_reduce", 2)])
def test_recursive_doubling_on_a_hypercube(kind: str, phases: int, world: SimpleNamespace) -> None:
    n, size_bytes, latency_s = 8, 8e9, 0.5
    one = world.task("hypercube-8", kind, size_bytes=size_bytes, latency_s=latency_s)
    plans = []
    for phase in one.collective.phases:
        hops, transfers = one.plan_hops(phase), []
        for bit in (1, 2, 4):
            for device in range(n):
                transfers += [(device ^ other, hops[device, device ^ bit]) for other in range(bit)]
        plans.append(Plan.of(transfers))
    schedule = Schedule.of_plans(one, plans)
    check_schedule(schedule)
    # The last link carries half of the chunks, all but the first while the other links work.
    assert schedule.time_s == pytest.approx(phases * (n / 2 + 2 * latency_s))
    assert schedule.busbw_bytes_per_s == pytest.approx(phases * 7 / 8 * size_bytes / schedule.time_s)


def test_hops_that_share_a_port_wait_and_others_do_not(world: SimpleNamespace) -> None:
    one = world.task("nodes-1x3", "all_to_all", size_bytes=3e9)
    fastest = one.hops.fastest
    owners, others = one.collective.owners.tolist(), one.collective.others
    hops = [fastest[owner, int(others[chunk].argmax())] for chunk, owner in enumerate(owners)]
    schedule = Schedule.of_plans(one, [Plan.of(list(enumerate(hops)))])
    check_schedule(schedule)
    # 0->1, 0->2, 1->0, 1->2, 2->0, 2->1: each port sends two and receives two chunks of one second.
    assert schedule.timing.starts_s.tolist() == pytest.approx([0, 1, 0, 2, 1, 2])
    assert schedule.time_s == pytest.approx(3.0)
    assert schedule.link_busy_s().tolist() == pytest.approx([2.0] * 6)


def test_a_slow_link_behind_a_switch_does_not_hold_the_fast_one(world: SimpleNamespace) -> None:
    one = world.task(
        "nodes-2x2", "broadcast", bandwidth_bytes_per_s=4e9, uplink_bandwidth_bytes_per_s=1e9, size_bytes=4e9
    )
    hop = one.hops.fastest[0, 1]
    assert one.durations_s[hop] == pytest.approx(1.0)
    assert one.durations_s[one.hops.fastest[0, 2]] == pytest.approx(4.0)
    assert sorted(set(one.occupancies_s.ravel().tolist())) == pytest.approx([0.0, 1.0, 4.0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("topology", SYSTEMS)
def test_what_is_spread_step_by_step_is_a_collective(topology: str, kind: str) -> None:
    one = task(topology, kind, latency_s=1e-3, uplink_latency_s=2e-3, pieces=1 if kind == "all_to_all" else 2)
    rng = np.random.default_rng(3)
    for schedule in (earliest(one), earliest(one, rng)):
        check_schedule(schedule)
        bound_s = lower_bound_s(one)
        assert bound_s <= schedule.time_s * (1 + 1e-9)
        assert schedule.busbw_bytes_per_s > 0
        assert schedule.link_busy_s().max() <= schedule.time_s
        starts_s, arrivals_s = schedule.timing.starts_s, schedule.timing.arrivals_s
        assert arrivals_s - starts_s == pytest.approx(one.durations_s[schedule.hops])


@settings(max_examples=40, deadline=None)
@given(
    topology=st.sampled_from(SYSTEMS),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**20),
    failed=st.integers(0, 3),
    slow=st.integers(0, 4),
    share=st.floats(0.3, 1.0),
)
def test_any_group_on_any_broken_system(
    topology: str, kind: str, seed: int, failed: int, slow: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    n = task(topology, kind).n_devices
    members = tuple(sorted(rng.permutation(n)[: max(2, round(share * n))].tolist()))
    faults = {"failed_cables": failed, "slow_cables": slow}
    one = task(topology, kind, members=members, faults=faults, seed=seed, latency_s=1e-3)
    schedule = earliest(one, rng)
    check_schedule(schedule)
    assert lower_bound_s(one) <= schedule.time_s * (1 + 1e-9)
    longer = replace(one.collective, size_bytes=2e9)
    grown = Schedule(replace(one, collective=longer), schedule.chunks, schedule.hops, schedule.n_reducing)
    assert schedule.time_s <= grown.time_s <= 2 * schedule.time_s * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
@pytest.mark.parametrize("topology", ["ring-7", "torus-3x3", "hypercube-8", "dgx1-1"])
def test_time_reversal_keeps_the_time_where_there_are_no_switches(topology: str, kind: str) -> None:
    one = task(topology, kind, latency_s=1e-3)
    (phase,) = one.collective.phases
    spread = Spread(one, phase)
    while spread.n_missing:
        found = spread.candidates(1, 1)
        spread.send(found.chunks[0], found.hops[0])
    assert Schedule.of_plans(one, [spread.plan]).time_s == pytest.approx(spread.time_s)


def test_chunks_pass_through_devices_that_do_not_take_part(world: SimpleNamespace) -> None:
    one = world.task("ring-6", "all_gather", members=(0, 3), size_bytes=2e9)
    schedule = world.earliest(one)
    check_schedule(schedule)
    assert schedule.n_transfers == 6
    assert schedule.time_s == pytest.approx(3.0)


def test_dead_ends_are_left_out(world: SimpleNamespace) -> None:
    one = world.task("ring-6", "all_gather", members=(0, 2), size_bytes=2e9)
    hop = one.hops.fastest
    needed = [(0, hop[0, 1]), (0, hop[1, 2]), (1, hop[2, 1]), (1, hop[1, 0])]
    schedule = Schedule.of_plans(one, [Plan.of([(0, hop[0, 5]), *needed, (0, hop[5, 4])])])
    assert schedule.n_transfers == 4
    check_schedule(schedule)


def test_what_is_wrong_with_a_schedule_is_told(world: SimpleNamespace) -> None:
    one = world.task("ring-3", "all_gather")
    hop = one.hops.fastest
    good = world.earliest(one)

    def broken(chunks: list[int], hops: list[int], n_reducing: int = 0) -> Schedule:
        return Schedule(one, np.array(chunks), np.array(hops), n_reducing)

    for schedule, words in (
        (broken([0], [hop[1, 2]]), "chunk 0 from device 1 to 2: the sender has nothing"),
        (broken([0, 0], [hop[0, 1], hop[0, 1]]), "the receiver has it already"),
        (broken([0], [hop[0, 1]]), "chunk 0: device 2 ends without it"),
        (broken([0], [99]), "expected hops from 0 to 5"),
        (broken([0], []), "expected a hop for each of 1 chunks"),
        (Schedule(one, good.chunks, good.hops, 1), "expected copies only, got 1 partial sums"),
    ):
        with pytest.raises(ScheduleError, match=words):
            check_schedule(schedule)
    reduced = world.task("ring-3", "reduce_scatter")
    partial = Schedule(reduced, np.array([0]), np.array([hop[1, 0]]), 1)
    with pytest.raises(
        ScheduleError, match="owner, device 0, has not every contribution exactly once: 0 of device 2"
    ):
        check_schedule(partial)
    again = Schedule(reduced, np.array([0, 0]), np.array([hop[1, 0], hop[1, 0]]), 2)
    with pytest.raises(ScheduleError, match="the sender has nothing"):
        check_schedule(again)


@pytest.mark.parametrize(
    ("topology", "device", "uplink", "nics", "expected"),
    [
        ("nodes-2x8", 300e9, 25e9, 8, 346.67e9),
        ("nodes-4x8", 300e9, 25e9, 8, 266.67e9),
        ("nodes-4x8", 450e9, 50e9, 8, 516.13e9),
        ("nodes-2x16", 235e9, 8.4e9, 1, 16.8e9),
        ("nodes-4x16", 235e9, 8.4e9, 1, 11.2e9),
    ],
)
def test_the_bound_is_forestcolls(
    topology: str, device: float, uplink: float, nics: int, expected: float, world: SimpleNamespace
) -> None:
    keys = {"bandwidth_bytes_per_s": device, "uplink_bandwidth_bytes_per_s": uplink, "nics": nics}
    one = world.task(topology, "all_gather", size_bytes=1.0, **keys)
    assert 1.0 / gather_bound_s(one.network, one.collective) == pytest.approx(expected, rel=1e-4)


def test_the_cut_bound_is_the_worst_of_all_cuts() -> None:
    for seed in range(6):
        one = task("nodes-2x3", "all_gather", faults={"slow_cables": 5, "failed_cables": 1}, seed=seed)
        network, worst = one.network, 0.0
        n = len(network.vertices)
        for number in range(1, 2**n):
            inside = (number >> np.arange(n)) & 1 == 1
            held = inside[:6].sum()
            leaving = inside[network.sources] & ~inside[network.targets]
            if 0 < held < 6:
                worst = max(worst, held / 6 * 1e9 / network.bandwidths_bytes_per_s[leaving].sum())
        assert gather_bound_s(network, one.collective) == pytest.approx(worst, rel=1e-6)


def test_bounds_that_are_reached(world: SimpleNamespace) -> None:
    for topology, kind, time_s in (
        ("fully-connected-4", "all_gather", 0.25),
        ("fully-connected-4", "all_reduce", 0.5),
        ("fully-connected-4", "all_to_all", 0.25),
        ("ring-5", "reduce_scatter", 0.4),
        ("hypercube-8", "all_gather", 7 / 24),
    ):
        one = world.task(topology, kind, pieces=4)
        assert lower_bound_s(one) == pytest.approx(time_s)
    # TACCL: an all-to-all of 1 GB over two NDv2 is 64 chunks of 62.5 MB over each NIC of 12.5 GB/s.
    ndv2 = world.task("dgx1-2", "all_to_all", bandwidth_bytes_per_s=25e9, uplink_bandwidth_bytes_per_s=12.5e9)
    assert lower_bound_s(ndv2) == pytest.approx(0.32)


def test_the_bound_of_a_reduction_is_that_of_the_reversed_network(world: SimpleNamespace) -> None:
    for seed in range(4):
        faults = {"slow_cables": 4, "slow_ratio": 0.3}
        times = [
            lower_bound_s(task("torus-3x3", kind, faults=faults, seed=seed))
            for kind in ("all_gather", "reduce_scatter", "all_reduce")
        ]
        assert times[0] == pytest.approx(times[1]), "cables are slow in both directions"
        assert times[0] <= times[2] <= times[0] + times[1] + 1e-12


def test_latency_bounds_small_vectors(world: SimpleNamespace) -> None:
    one = world.task("ring-8", "all_gather", size_bytes=8.0, latency_s=1.0)
    assert lower_bound_s(one) == pytest.approx(4.0)
    assert Phase.COPY in one.collective.phases
