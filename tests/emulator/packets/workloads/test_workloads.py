from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sysgym.emulator.packets.memory.records import NEVER_NS, NOBODY
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.workloads import LONG_LIVED, NO_GROUP, FlowSchedule, build_flows
from sysgym.emulator.packets.workloads.poisson import arrival_rate_per_s
from sysgym.emulator.packets.workloads.schedule import (
    FIRST_EPHEMERAL_PORT,
    MOST_FLOWS,
    N_EPHEMERAL_PORTS,
    SERVICE_PORT,
    make_schedule,
    merged,
)
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import (
    CongestionScenario,
    DumbbellTopology,
    FatTreeTopology,
    IncastWorkload,
    LongLivedWorkload,
    MixWorkload,
    PoissonWorkload,
    SingleSwitchTopology,
    WorkloadTable,
)

LINE_RATE_BPS = 1e10
TYPES = (*[np.int32] * 2, *[np.int64] * 2, *[np.int32] * 4, np.int64, np.int32)
FAT_TREE = build_topology(
    FatTreeTopology(kind="fat_tree", k=4, link_rate_bps=LINE_RATE_BPS, link_delay_s=1e-6)
)
FAT_TREE_8 = build_topology(
    FatTreeTopology(kind="fat_tree", k=8, link_rate_bps=LINE_RATE_BPS, link_delay_s=1e-6)
)
DUMBBELL = build_topology(
    DumbbellTopology(kind="dumbbell", hosts_per_side=4, link_rate_bps=LINE_RATE_BPS, link_delay_s=1e-6)
)


def single_switch(hosts: int) -> Topology:
    return build_topology(
        SingleSwitchTopology(
            kind="single_switch", hosts=hosts, link_rate_bps=LINE_RATE_BPS, link_delay_s=1e-6
        )
    )


def long_lived(pairs: str, **keys: Any) -> LongLivedWorkload:
    return LongLivedWorkload.model_validate({"kind": "long_lived", "pairs": pairs, **keys})


def incast(**keys: Any) -> IncastWorkload:
    return IncastWorkload.model_validate(
        {"kind": "incast", "senders": 8, "request_bytes": 20_000, "period_s": 1e-3, **keys}
    )


def poisson(**keys: Any) -> PoissonWorkload:
    return PoissonWorkload.model_validate({"kind": "poisson", "load": 0.5, "flow_sizes": "websearch", **keys})


def flows(
    workload: WorkloadTable, topology: Topology, *, seed: int = 0, horizon_s: float = 0.1
) -> FlowSchedule:
    """An episode's flows, checked for what holds of all of them."""
    found = build_flows(workload, topology, np.random.default_rng(seed), horizon_s)
    n_flows = len(found.src)
    for (name, array), expected in zip(found._asdict().items(), TYPES, strict=True):
        assert array.dtype == expected, name
        assert array.shape[0] == n_flows, name
        assert array.ndim == (2 if name == "after" else 1), name
    assert np.all(found.src != found.dst)
    for hosts in (found.src, found.dst):
        assert np.all((hosts >= 0) & (hosts < topology.n_hosts))
    assert np.all(np.diff(found.start_ns) >= 0)
    assert np.all(found.start_ns >= 0)
    np.testing.assert_array_equal(found.start_ns == NEVER_NS, found.needs > 0)
    assert np.all(found.after < np.arange(n_flows)[:, np.newaxis])
    assert np.all((found.size_bytes == LONG_LIVED) | (found.size_bytes >= 1))
    assert np.all(found.dst_port == SERVICE_PORT)
    assert np.all(found.src_port >= FIRST_EPHEMERAL_PORT)
    assert np.all(found.src_port < FIRST_EPHEMERAL_PORT + N_EPHEMERAL_PORTS)
    return found


def digest(found: FlowSchedule) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest()


def pairs_of(
    workload: LongLivedWorkload, topology: Topology = FAT_TREE, seed: int = 0
) -> list[tuple[int, int]]:
    found = flows(workload, topology, seed=seed)
    return list(zip(found.src.tolist(), found.dst.tolist(), strict=True))


# Traffic matrices.


@pytest.mark.parametrize("pairs", ["one_to_one", "iroko"])
def test_a_dumbbell_sends_from_west_to_east(pairs: str) -> None:
    assert pairs_of(long_lived(pairs), DUMBBELL) == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_one_to_one_elsewhere_makes_every_host_send_and_receive() -> None:
    assert pairs_of(long_lived("one_to_one")) == [(host, (host + 8) % 16) for host in range(16)]
    assert pairs_of(long_lived("one_to_one"), single_switch(3)) == [(0, 1), (1, 2), (2, 0)]


def test_iroko_pairs_need_a_dumbbell() -> None:
    with pytest.raises(SysgymError, match="needs a dumbbell"):
        pairs_of(long_lived("iroko"))


@pytest.mark.parametrize("stride", [1, 4, 8, 15])
def test_stride(stride: int) -> None:
    assert pairs_of(long_lived("stride", stride=stride)) == [
        (host, (host + stride) % 16) for host in range(16)
    ]


def test_a_stride_back_to_the_host_itself_is_refused() -> None:
    with pytest.raises(SysgymError, match="to itself"):
        pairs_of(long_lived("stride", stride=32))


def test_all_to_all() -> None:
    assert pairs_of(long_lived("all_to_all")) == [(a, b) for a in range(16) for b in range(16) if a != b]


@pytest.mark.parametrize("n_hosts", [2, 3, 16, 41])
def test_random_sends_once_from_every_host(n_hosts: int) -> None:
    found = flows(long_lived("random"), single_switch(n_hosts))
    assert found.src.tolist() == list(range(n_hosts))


def test_random_receivers_are_uniform_over_the_other_hosts() -> None:
    topology = single_switch(5)
    counts = Counter(pair for seed in range(2000) for pair in pairs_of(long_lived("random"), topology, seed))
    assert len(counts) == 5 * 4
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize("n_hosts", [2, 3, 16, 41])
def test_random_bijective_receives_once_at_every_host(n_hosts: int) -> None:
    found = flows(long_lived("random_bijective"), single_switch(n_hosts))
    assert found.src.tolist() == list(range(n_hosts))
    assert sorted(found.dst.tolist()) == list(range(n_hosts))


def test_all_derangements_are_equally_likely() -> None:
    topology = single_switch(4)
    drawn = Counter(
        tuple(receiver for _, receiver in pairs_of(long_lived("random_bijective"), topology, seed))
        for seed in range(3000)
    )
    assert len(drawn) == 9  # of four hosts
    assert stats.chisquare(list(drawn.values())).pvalue > 1e-3


@pytest.mark.parametrize(("n_hosts", "n_hot"), [(2, 1), (7, 1), (8, 1), (16, 2), (43, 5)])
def test_hotspot_sends_evenly_to_few(n_hosts: int, n_hot: int) -> None:
    found = flows(long_lived("hotspot"), single_switch(n_hosts))
    received = Counter(found.dst.tolist())
    assert len(received) == n_hot
    assert sorted([*received, *found.src.tolist()]) == list(range(n_hosts))
    assert max(received.values()) - min(received.values()) <= 1


def test_hot_hosts_are_drawn() -> None:
    hot = {receiver for seed in range(40) for _, receiver in pairs_of(long_lived("hotspot"), seed=seed)}
    assert len(hot) > 12


def test_staggered_shares_are_as_asked() -> None:
    topology = FAT_TREE_8
    workload = long_lived("staggered", p_edge=0.2, p_pod=0.3)
    shares = np.zeros(3)
    for seed in range(30):
        found = flows(workload, topology, seed=seed)
        assert found.src.tolist() == list(range(128))
        same_edge = topology.host_edge[found.src] == topology.host_edge[found.dst]
        same_pod = topology.host_pod[found.src] == topology.host_pod[found.dst]
        shares += [same_edge.sum(), (same_pod & ~same_edge).sum(), (~same_pod).sum()]
    expected = np.array([0.2, 0.3, 0.5]) * shares.sum()
    assert stats.chisquare(shares, expected).pvalue > 1e-3


@pytest.mark.parametrize(("p_edge", "p_pod"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_staggered_extremes(p_edge: float, p_pod: float) -> None:
    found = flows(long_lived("staggered", p_edge=p_edge, p_pod=p_pod), FAT_TREE)
    same_edge = FAT_TREE.host_edge[found.src] == FAT_TREE.host_edge[found.dst]
    same_pod = FAT_TREE.host_pod[found.src] == FAT_TREE.host_pod[found.dst]
    assert np.all(same_edge == (p_edge == 1.0))
    assert np.all(same_pod == (p_edge + p_pod == 1.0))


def test_staggered_falls_back_to_any_other_host() -> None:
    # With k = 2 an edge switch has one host and a pod one edge switch.
    topology = build_topology(FatTreeTopology(kind="fat_tree", k=2, link_rate_bps=1e9, link_delay_s=0.0))
    assert pairs_of(long_lived("staggered", p_edge=0.5, p_pod=0.5), topology) == [(0, 1), (1, 0)]


def test_flows_per_pair_and_start_jitter() -> None:
    jitter_s = 2e-3
    found = flows(long_lived("stride", flows_per_pair=50, start_jitter_s=jitter_s), FAT_TREE)
    assert set(Counter(zip(found.src.tolist(), found.dst.tolist(), strict=True)).values()) == {50}
    assert np.all(found.size_bytes == LONG_LIVED)
    assert np.all(found.group == NO_GROUP)
    assert stats.kstest(found.start_ns, stats.uniform(0, jitter_s * 1e9).cdf).pvalue > 1e-3
    assert found.start_ns.max() <= jitter_s * 1e9


def test_without_jitter_all_start_at_once() -> None:
    assert not flows(long_lived("stride"), FAT_TREE).start_ns.any()


# Incast.


@pytest.mark.parametrize("receiver", ["first", "drawn"])
@given(
    senders=st.integers(1, 15),
    period_us=st.integers(1, 5000),
    jitter=st.floats(0.0, 1.0),
    horizon_us=st.integers(0, 20_000),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40, deadline=None)
def test_every_round_is_n_to_one(
    receiver: Literal["first", "drawn"],
    senders: int,
    period_us: int,
    jitter: float,
    horizon_us: int,
    seed: int,
) -> None:
    horizon_us = min(horizon_us, 100 * period_us)
    jitter_s = jitter * period_us * 1e-6
    workload = incast(senders=senders, period_s=period_us * 1e-6, jitter_s=jitter_s, receiver=receiver)
    found = flows(workload, FAT_TREE, seed=seed, horizon_s=horizon_us * 1e-6)
    n_rounds = -(-horizon_us // period_us)
    assert len(found.src) == n_rounds * senders
    assert np.all(found.size_bytes == 20_000)
    for round_ in range(n_rounds):
        of_round = found.group == round_
        assert len(set(found.src[of_round].tolist())) == senders
        assert len(set(found.dst[of_round].tolist())) == 1
        into_round_ns = found.start_ns[of_round] - round_ * period_us * 1000
        assert np.all(into_round_ns >= 0)
        assert np.all(into_round_ns <= round(jitter_s * 1e9))
    if receiver == "first":
        assert not found.dst.any()


def test_without_jitter_a_round_starts_in_the_same_nanosecond() -> None:
    found = flows(incast(), FAT_TREE, horizon_s=5e-3)
    np.testing.assert_array_equal(found.start_ns, found.group.astype(np.int64) * 1_000_000)


def test_senders_and_drawn_receivers_change_from_round_to_round() -> None:
    found = flows(incast(senders=3, receiver="drawn"), FAT_TREE, horizon_s=4.0)
    assert stats.chisquare(np.bincount(found.dst[::3], minlength=16)).pvalue > 1e-3
    assert stats.chisquare(np.bincount(found.src, minlength=16)).pvalue > 1e-3


def test_more_senders_than_hosts_are_refused() -> None:
    assert len(flows(incast(senders=15), FAT_TREE, horizon_s=1e-4).src) == 15
    with pytest.raises(SysgymError, match="more than 16 hosts"):
        flows(incast(senders=16), FAT_TREE)


# Poisson arrivals.


@pytest.mark.parametrize("load", [0.1, 0.6])
@pytest.mark.parametrize("header_bytes", [0, 40])
def test_the_offered_load_is_as_asked(load: float, header_bytes: int) -> None:
    horizon_s, mtu_bytes = 1.0 / load, 1500
    found = build_flows(
        poisson(load=load),
        FAT_TREE_8,
        np.random.default_rng(3),
        horizon_s,
        mtu_bytes=mtu_bytes,
        header_bytes=header_bytes,
    )
    packets = -(-found.size_bytes // (mtu_bytes - header_bytes))
    wire_bits = 8.0 * (found.size_bytes + header_bytes * packets)
    offered = wire_bits.sum() / (FAT_TREE_8.n_hosts * LINE_RATE_BPS * horizon_s)
    # The sum of a random number of random sizes: its variance is the number expected times the second moment.
    deviation = np.sqrt(len(wire_bits) * np.mean(wire_bits**2)) / wire_bits.sum()
    assert deviation < 0.01
    assert offered == pytest.approx(load, rel=4 * deviation)


def test_headers_count_towards_the_load() -> None:
    # A payload of 1460 bytes is a packet of 1500: 0.75 of 10 Gb/s is 625000 of them in a second.
    workload = poisson(load=0.75, flow_sizes="fixed", fixed_bytes=1460)
    rate = arrival_rate_per_s(workload, single_switch(3), mtu_bytes=1500, header_bytes=40)
    assert rate == pytest.approx(3 * 625_000.0)
    # A byte more is a packet more.
    workload = poisson(load=0.75, flow_sizes="fixed", fixed_bytes=1461)
    rate = arrival_rate_per_s(workload, single_switch(3), mtu_bytes=1500, header_bytes=40)
    assert rate == pytest.approx(3 * 0.75 * 1e10 / 8 / (1461 + 80))


def test_arrivals_are_a_poisson_process_at_uniform_hosts() -> None:
    horizon_s = 0.5
    workload = poisson(flow_sizes="fixed", fixed_bytes=100_000)
    found = flows(workload, FAT_TREE, seed=1, horizon_s=horizon_s)
    expected = arrival_rate_per_s(workload, FAT_TREE, mtu_bytes=1500, header_bytes=40) * horizon_s
    assert abs(len(found.src) - expected) < 4 * np.sqrt(expected)
    assert found.start_ns.max() < horizon_s * 1e9
    gaps_s = np.diff(found.start_ns) * 1e-9
    assert stats.kstest(gaps_s, stats.expon(scale=horizon_s / expected).cdf).pvalue > 1e-3
    assert np.corrcoef(gaps_s[:-1], gaps_s[1:])[0, 1] == pytest.approx(0.0, abs=4 / np.sqrt(len(gaps_s)))
    pairs = np.bincount(found.src * 16 + found.dst, minlength=256).reshape(16, 16)
    assert stats.chisquare(pairs[~np.eye(16, dtype=bool)]).pvalue > 1e-3
    assert np.all(found.size_bytes == 100_000)
    assert np.all(found.group == NO_GROUP)


def test_arrivals_end_at_the_last_one() -> None:
    """They are those of an episode that ends then."""
    short = flows(poisson(), FAT_TREE, seed=3, horizon_s=0.1)
    drained = flows(poisson(last_arrival_s=0.1), FAT_TREE, seed=3, horizon_s=0.5)
    later = flows(poisson(last_arrival_s=0.9), FAT_TREE, seed=3, horizon_s=0.1)
    for found in (drained, later):
        for name in FlowSchedule._fields:
            assert np.array_equal(getattr(found, name), getattr(short, name)), name


def test_the_number_of_arrivals_varies_like_a_poisson_variable() -> None:
    workload = poisson(flow_sizes="fixed", fixed_bytes=1_000_000)
    counts = [len(flows(workload, FAT_TREE, seed=seed, horizon_s=0.01).src) for seed in range(300)]
    expected = arrival_rate_per_s(workload, FAT_TREE, mtu_bytes=1500, header_bytes=40) * 0.01
    assert np.mean(counts) == pytest.approx(expected, rel=0.03)
    # 300 counts: the ratio of variance and mean is within 0.08 of one, two times in three.
    assert np.var(counts) / np.mean(counts) == pytest.approx(1.0, abs=0.3)


def test_sizes_do_not_depend_on_the_start() -> None:
    found = flows(poisson(), FAT_TREE_8, seed=5, horizon_s=0.5)
    assert stats.spearmanr(found.start_ns, found.size_bytes).pvalue > 1e-3


def test_too_many_arrivals_are_refused_before_they_are_drawn() -> None:
    with pytest.raises(SysgymError, match="flows in 7200 s"):
        flows(poisson(flow_sizes="fixed", fixed_bytes=1), FAT_TREE, horizon_s=7200.0)


def test_no_time_has_no_arrivals() -> None:
    assert len(flows(poisson(), FAT_TREE, horizon_s=0.0).src) == 0
    assert len(flows(incast(), FAT_TREE, horizon_s=0.0).src) == 0


# Poisson arrivals with other destinations.


@pytest.mark.parametrize("destinations", ["permutation", "stride"])
def test_all_of_a_host_s_flows_go_to_its_one_receiver(destinations: str) -> None:
    found = flows(poisson(destinations=destinations, stride=3), FAT_TREE, horizon_s=0.2)
    pairs = set(zip(found.src.tolist(), found.dst.tolist(), strict=True))
    assert sorted(src for src, _ in pairs) == list(range(16))
    assert sorted(dst for _, dst in pairs) == list(range(16))
    if destinations == "stride":
        assert pairs == {(host, (host + 3) % 16) for host in range(16)}


def test_hot_hosts_only_receive_and_the_others_offer_the_load() -> None:
    workload = poisson(load=0.1, destinations="hotspot", flow_sizes="fixed", fixed_bytes=146_000)
    found = flows(workload, FAT_TREE, horizon_s=1.0)
    hot = set(found.dst.tolist())
    assert len(hot) == 2
    assert not hot & set(found.src.tolist())
    offered = len(found.src) * 150_000 * 8 / (14 * LINE_RATE_BPS)
    assert offered == pytest.approx(0.1, rel=4 / np.sqrt(len(found.src)))


def test_staggered_destinations_are_drawn_for_every_flow() -> None:
    found = flows(poisson(destinations="staggered", p_edge=0.5, p_pod=0.2), FAT_TREE, horizon_s=1.0)
    same_edge = FAT_TREE.host_edge[found.src] == FAT_TREE.host_edge[found.dst]
    same_pod = FAT_TREE.host_pod[found.src] == FAT_TREE.host_pod[found.dst]
    counts = np.array([same_edge.sum(), (same_pod & ~same_edge).sum(), (~same_pod).sum()])
    assert stats.chisquare(counts, np.array([0.5, 0.2, 0.3]) * counts.sum()).pvalue > 1e-3
    assert len(set(found.dst[found.src == 0].tolist())) > 8


def test_all_to_all_gives_every_pair_as_many_flows_give_or_take_one() -> None:
    found = flows(poisson(destinations="all_to_all"), FAT_TREE, horizon_s=0.5)
    counts = np.bincount(found.src * 16 + found.dst, minlength=256).reshape(16, 16)
    for host in range(16):
        others = np.delete(counts[host], host)
        assert others.max() - others.min() <= 1
        # In turn: any 15 flows of a host in a row go to 15 hosts.
        receivers = found.dst[found.src == host]
        assert len(set(receivers[7:22].tolist())) == 15
    firsts = [tuple(found.dst[found.src == host][:3].tolist()) for host in range(16)]
    assert len(set(firsts)) > 12


# Mixes.


def mix(**parts: dict[str, Any]) -> MixWorkload:
    return MixWorkload.model_validate({"kind": "mix", "parts": parts})


BACKGROUND = {"kind": "poisson", "load": 0.3, "flow_sizes": "google-rpc"}
ROUNDS = {"kind": "incast", "senders": 8, "request_bytes": 20_000, "period_s": 1e-3}


def test_a_mix_has_the_flows_of_all_its_parts() -> None:
    found = flows(mix(background=BACKGROUND, rounds=ROUNDS), FAT_TREE, horizon_s=5e-3)
    of_rounds = found.group >= 0
    assert of_rounds.sum() == 5 * 8
    assert np.all(found.size_bytes[of_rounds] == 20_000)
    assert set(found.group.tolist()) == {-1, 0, 1, 2, 3, 4}
    offered = found.size_bytes[~of_rounds].sum() * 8 / (16 * LINE_RATE_BPS * 5e-3)
    assert 0.05 < offered < 0.6


def test_parts_of_a_mix_have_classes_of_their_own() -> None:
    found = flows(mix(background=BACKGROUND, rounds={**ROUNDS, "priority": 3}), FAT_TREE, horizon_s=5e-3)
    assert np.array_equal(found.priority, np.where(found.group >= 0, 3, 0))
    assert set(flows(incast(priority=2), FAT_TREE).priority.tolist()) == {2}


def test_a_part_of_a_mix_does_not_depend_on_the_other() -> None:
    one = flows(mix(background=BACKGROUND, rounds=ROUNDS), FAT_TREE, seed=4, horizon_s=5e-3)
    other = flows(
        mix(background=BACKGROUND, rounds={**ROUNDS, "senders": 3}), FAT_TREE, seed=4, horizon_s=5e-3
    )
    for name in ("src", "dst", "size_bytes", "start_ns"):
        np.testing.assert_array_equal(
            getattr(one, name)[one.group < 0], getattr(other, name)[other.group < 0]
        )


def test_rounds_of_two_parts_have_groups_of_their_own() -> None:
    found = flows(mix(one=ROUNDS, other={**ROUNDS, "senders": 3}), FAT_TREE, horizon_s=2e-3)
    assert Counter(found.group.tolist()) == {0: 8, 1: 8, 2: 3, 3: 3}


# Ports and seeds.


def test_source_ports_of_a_host_differ_while_there_are_any() -> None:
    n_flows = N_EPHEMERAL_PORTS
    schedule = make_schedule(
        np.random.default_rng(0),
        np.tile([3, 1], n_flows),
        np.full(2 * n_flows, 7),
        size_bytes=1,
        start_ns=np.arange(2 * n_flows),
    )
    for host in (1, 3):
        assert len(set(schedule.src_port[schedule.src == host].tolist())) == n_flows


def test_source_ports_differ_from_seed_to_seed() -> None:
    ports = {int(flows(long_lived("stride"), FAT_TREE, seed=seed).src_port[0]) for seed in range(20)}
    assert len(ports) > 15


def test_equal_times_stay_in_order() -> None:
    schedule = make_schedule(
        np.random.default_rng(0), [5, 4, 3], [0, 1, 2], size_bytes=[10, 20, 30], start_ns=[7, 0, 7], group=1
    )
    assert schedule.src.tolist() == [4, 5, 3]
    assert schedule.dst.tolist() == [1, 0, 2]
    assert schedule.size_bytes.tolist() == [20, 10, 30]
    assert schedule.group.tolist() == [1, 1, 1]


def test_flows_that_wait_come_last_and_keep_who_they_wait_for() -> None:
    schedule = make_schedule(
        np.random.default_rng(0),
        src=[0, 1, 2, 3],
        dst=[1, 2, 3, 0],
        size_bytes=[10, 20, 30, 40],
        start_ns=[9, 0, 5, 0],
        after=[[NOBODY, NOBODY], [0, NOBODY], [NOBODY, NOBODY], [0, 2]],
        after_delay_ns=[7, 8, 7, 9],
    )
    assert schedule.src.tolist() == [2, 0, 1, 3]
    assert schedule.start_ns.tolist() == [5, 9, NEVER_NS, NEVER_NS]
    assert schedule.after.tolist() == [[-1, -1], [-1, -1], [1, -1], [1, 0]]
    assert schedule.after_delay_ns.tolist() == [0, 0, 8, 9]
    assert schedule.needs.tolist() == [0, 0, 1, 2]
    first, waiting = schedule.successors()
    assert [waiting[a:b].tolist() for a, b in itertools.pairwise(first)] == [[3], [2, 3], [], []]


@pytest.mark.parametrize("after", [[[0], [NOBODY]], [[1], [NOBODY]], [[NOBODY], [2]], [[NOBODY], [-2]]])
def test_flows_wait_only_for_earlier_ones(after: list[list[int]]) -> None:
    with pytest.raises(SysgymError, match="waits for itself, for a later one"):
        make_schedule(np.random.default_rng(0), [0, 1], [1, 0], size_bytes=1, start_ns=0, after=after)


def test_a_connection_keeps_its_port() -> None:
    schedule = make_schedule(
        np.random.default_rng(0),
        [0, 1, 0, 0, 1],
        [1, 0, 1, 2, 0],
        size_bytes=1,
        start_ns=0,
        connection=[5, 9, 5, 4, 9],
    )
    ports = schedule.src_port
    assert ports[0] == ports[2] != ports[3]
    assert ports[1] == ports[4]


def test_merged_schedules_keep_their_flows_groups_and_dependencies() -> None:
    rng = np.random.default_rng(0)
    one = make_schedule(
        rng, [0, 1], [1, 0], size_bytes=[1, 2], start_ns=[3, 0], group=[0, 1], after=[[NOBODY], [0]]
    )
    other = make_schedule(rng, [2, 3], [3, 2], size_bytes=[4, 5], start_ns=[2, 4], group=0)
    both = merged(rng, [one, other, make_schedule(rng, [4], [5], size_bytes=6, start_ns=9)])
    assert both.size_bytes.tolist() == [4, 1, 5, 6, 2]
    assert both.group.tolist() == [2, 0, 2, NO_GROUP, 1]
    assert both.after.tolist() == [[-1], [-1], [-1], [-1], [1]]
    assert len(merged(rng, []).src) == 0


def test_more_flows_than_memory_are_refused() -> None:
    n_flows = MOST_FLOWS + 1
    with pytest.raises(SysgymError, match="at most"):
        make_schedule(np.random.default_rng(0), np.zeros(n_flows), np.ones(n_flows), size_bytes=1, start_ns=0)
    with pytest.raises(SysgymError, match="at most"):
        flows(incast(period_s=1e-6), FAT_TREE, horizon_s=7200.0)


EVERY_KIND: list[Callable[[], WorkloadTable]] = [
    lambda: long_lived("staggered", start_jitter_s=1e-3),
    lambda: long_lived("hotspot"),
    lambda: incast(jitter_s=1e-5, receiver="drawn"),
    poisson,
    lambda: poisson(destinations="all_to_all"),
    lambda: mix(background=BACKGROUND, rounds=ROUNDS),
]


@pytest.mark.parametrize("workload", EVERY_KIND)
def test_the_seed_decides_everything(workload: Callable[[], WorkloadTable]) -> None:
    one, again, other = (flows(workload(), FAT_TREE, seed=seed) for seed in (7, 7, 8))
    assert digest(one) == digest(again)
    assert digest(one) != digest(other)


@pytest.mark.parametrize("workload", EVERY_KIND)
def test_the_global_generator_is_not_touched(workload: Callable[[], WorkloadTable]) -> None:
    # The legacy global generator, on purpose: drawing from it would make episodes depend on each other.
    before = pickle.dumps(np.random.get_state())
    flows(workload(), FAT_TREE)
    assert pickle.dumps(np.random.get_state()) == before


IN_ANOTHER_PROCESS = """
import hashlib, numpy as np
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.workloads import build_flows
from sysgym.scenarios import load_scenario
scenario = load_scenario("fattree-k4-websearch")
topology = build_topology(scenario.topology)
flows = build_flows(scenario.workload, topology, np.random.default_rng(11), scenario.horizon_s)
print(hashlib.sha256(b"".join(array.tobytes() for array in flows)).hexdigest())
"""


def test_another_process_draws_the_same_flows() -> None:
    scenario = load_scenario("fattree-k4-websearch")
    assert isinstance(scenario, CongestionScenario)
    found = flows(scenario.workload, build_topology(scenario.topology), seed=11, horizon_s=scenario.horizon_s)
    printed = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS],
        env=os.environ | {"PYTHONHASHSEED": "4"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == digest(found)


def test_every_shipped_scenario_has_flows() -> None:
    for info in list_scenarios():
        scenario = load_scenario(info.name)
        if isinstance(scenario, CongestionScenario):
            topology = build_topology(scenario.topology)
            assert len(flows(scenario.workload, topology, horizon_s=scenario.horizon_s).src) > 0
