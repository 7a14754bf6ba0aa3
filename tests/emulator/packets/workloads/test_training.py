"""Collectives of training jobs: messages, senders and dependencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sysgym.emulator.packets.memory.records import NEVER_NS, NOBODY
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.workloads import FlowSchedule, build_flows
from sysgym.emulator.packets.workloads.training import (
    Collective,
    all_to_all,
    ring_all_reduce,
    tree_all_reduce,
)
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import SingleSwitchTopology, TrainingWorkload

RANKS = st.integers(2, 20)
LINE_RATE_BPS = 1e10


def switch(hosts: int) -> Topology:
    return build_topology(
        SingleSwitchTopology(
            kind="single_switch", hosts=hosts, link_rate_bps=LINE_RATE_BPS, link_delay_s=1e-6
        )
    )


def job(**keys: Any) -> TrainingWorkload:
    given = {
        "kind": "training",
        "collective": "ring_all_reduce",
        "job_hosts": 4,
        "size_bytes": 4_000_000,
        "compute_s": 1e-3,
    }
    return TrainingWorkload.model_validate(given | keys)


def flows(workload: TrainingWorkload, hosts: int, horizon_s: float = 0.05, seed: int = 0) -> FlowSchedule:
    return build_flows(workload, switch(hosts), np.random.default_rng(seed), horizon_s)


def sent(collective: Collective, n: int) -> NDArray[np.int64]:
    return np.bincount(collective.src, collective.size_bytes, minlength=n).astype(np.int64)


def before(collective: Collective) -> list[set[int]]:
    """All messages that each one waits for, directly or not."""
    found: list[set[int]] = []
    for awaited in collective.after:
        direct = {int(message) for message in awaited if message != NOBODY}
        found.append(direct.union(*(found[message] for message in direct)))
    return found


def arrivals(collective: Collective, message: int) -> set[int]:
    """Messages to the sender of this one that are there when it is sent."""
    to_sender = set(np.flatnonzero(collective.dst == collective.src[message]).tolist())
    return before(collective)[message] & to_sender


@given(n=RANKS, size_bytes=st.integers(1, 10**7))
@settings(max_examples=40, deadline=None)
def test_a_ring_sends_each_rank_s_data_twice_but_for_two_shares(n: int, size_bytes: int) -> None:
    ring = ring_all_reduce(n, size_bytes)
    np.testing.assert_array_equal(ring.dst, (ring.src + 1) % n)
    assert len(ring.src) == 2 * n * (n - 1)
    assert ring.size_bytes.sum() == 2 * (n - 1) * size_bytes
    np.testing.assert_allclose(sent(ring, n), 2 * (n - 1) / n * size_bytes, atol=2)
    if size_bytes % n == 0:
        np.testing.assert_array_equal(sent(ring, n), 2 * (n - 1) * size_bytes // n)


@given(n=st.integers(2, 9))
@settings(max_examples=8, deadline=None)
def test_a_ring_reduces_and_hands_round(n: int) -> None:
    """Shares with sizes that tell them apart, passed on as the messages say."""
    ring = ring_all_reduce(n, n * (n + 1) // 2 + n * 1000)
    holds = [[{rank} for _ in range(n)] for rank in range(n)]
    for message in range(len(ring.src)):
        step, src, dst = message // n, int(ring.src[message]), int(ring.dst[message])
        share = (src - step) % n
        if step < n - 1:
            assert not holds[src][share] & holds[dst][share]
        holds[dst][share] = holds[dst][share] | holds[src][share]
        if step > 0:
            received, own = ring.after[message]
            assert (ring.dst[received], ring.src[own]) == (src, src)
            assert {received // n, own // n} == {step - 1}
    assert all(held == set(range(n)) for rank in holds for held in rank)
    assert max(len(chain) for chain in _chains(ring)) == 2 * (n - 1)
    np.testing.assert_array_equal(ring.dst[ring.done[:, 0]], np.arange(n))
    np.testing.assert_array_equal(ring.src[ring.done[:, 1]], np.arange(n))


@given(n=RANKS, size_bytes=st.integers(1, 10**6))
@settings(max_examples=40, deadline=None)
def test_a_tree_sums_at_the_root_before_it_hands_down(n: int, size_bytes: int) -> None:
    tree = tree_all_reduce(n, size_bytes)
    assert len(tree.src) == 2 * (n - 1)
    assert np.all(tree.size_bytes == size_bytes)
    up, down = slice(0, n - 1), slice(n - 1, None)
    assert sorted(tree.src[up]) == list(range(1, n))
    assert sorted(tree.dst[down]) == list(range(1, n))
    np.testing.assert_array_equal(tree.dst[up], tree.src[up] & (tree.src[up] - 1))
    # What has reached a rank when it sends up is its whole subtree; at the root it is everything.
    subtree = {rank: {rank} for rank in range(n)}
    for message in range(n - 1):
        src, dst = int(tree.src[message]), int(tree.dst[message])
        assert {int(tree.src[m]) for m in arrivals(tree, message)} == subtree[src] - {src} - {
            rank for rank in subtree[src] if rank & (rank - 1) != src
        }
        subtree[dst] |= subtree[src]
    assert subtree[0] == set(range(n))
    for message in range(n - 1, 2 * n - 2):
        assert set(range(n - 1)) <= before(tree)[message]
    # No chain is longer than up and down a binomial tree, its children served one after the other.
    assert max(len(path) for path in _chains(tree)) <= 2 * int(np.ceil(np.log2(n)))


def _chains(collective: Collective) -> list[list[int]]:
    longest: list[list[int]] = []
    for message, awaited in enumerate(collective.after):
        chains = [longest[m] for m in awaited if m != NOBODY]
        longest.append([*max(chains, key=len, default=[]), message])
    return longest


@given(n=RANKS, size_bytes=st.integers(1, 10**7))
@settings(max_examples=40, deadline=None)
def test_all_to_all_sends_every_rank_its_share(n: int, size_bytes: int) -> None:
    exchange = all_to_all(n, size_bytes)
    pairs = list(zip(exchange.src.tolist(), exchange.dst.tolist(), strict=True))
    assert sorted(pairs) == [(a, b) for a in range(n) for b in range(n) if a != b]
    np.testing.assert_allclose(sent(exchange, n), (n - 1) / n * size_bytes, atol=1)
    for message, awaited in enumerate(exchange.after):
        step = message // n
        if step == 0:
            assert np.all(awaited == NOBODY)
            continue
        one, other = awaited
        assert {one // n, other // n} == {step - 1}
        assert exchange.src[one] == exchange.src[message] == exchange.dst[other]
    for rank, (out, into) in enumerate(exchange.done):
        assert exchange.src[out] == exchange.dst[into] == rank


@pytest.mark.parametrize("collective", ["ring_all_reduce", "tree_all_reduce", "all_to_all"])
def test_iterations_follow_each_other_after_the_compute_gap(collective: str) -> None:
    workload = job(collective=collective, compute_s=2e-3, job_hosts=5)
    found = flows(workload, 8, horizon_s=0.05)
    one = {"ring_all_reduce": 2 * 5 * 4, "tree_all_reduce": 2 * 4, "all_to_all": 5 * 4}[collective]
    assert len(found.src) % one == 0
    assert np.all(np.bincount(found.group) == one)
    for flow, (awaited, delay_ns) in enumerate(zip(found.after, found.after_delay_ns, strict=True)):
        earlier = {int(found.group[m]) for m in awaited if m != NOBODY}
        if not earlier:
            assert (found.group[flow], found.start_ns[flow], delay_ns) == (0, 0, 0)
        elif earlier == {int(found.group[flow])}:
            assert (found.start_ns[flow], delay_ns) == (NEVER_NS, 0)
        else:
            # A rank computes from the end of its own part of the iteration before.
            assert earlier == {int(found.group[flow]) - 1}
            assert delay_ns == 2_000_000
            ends = [{int(found.src[m]), int(found.dst[m])} for m in awaited if m != NOBODY]
            assert all(int(found.src[flow]) in pair for pair in ends)


def test_there_are_enough_iterations_for_an_empty_network_and_no_more() -> None:
    # A ring of two sends 2 shares of 1 000 packets in a row: 2.4 ms, and computes for 0.6 ms.
    workload = job(job_hosts=2, size_bytes=2 * 1000 * 1460, compute_s=0.6e-3)
    for horizon_s, n_iterations in ((0.0, 0), (2.9e-3, 1), (3.1e-3, 2), (30.1e-3, 11)):
        assert flows(workload, 2, horizon_s).group.max(initial=-1) + 1 == n_iterations


def test_jobs_have_hosts_starts_and_jitter_of_their_own() -> None:
    workload = job(jobs=3, start_jitter_s=1e-3, compute_jitter_s=1e-4)
    found = flows(workload, 12)
    n_iterations = (found.group.max() + 1) // 3
    of_job = found.group // n_iterations
    for index in range(3):
        hosts = set(found.src[of_job == index].tolist()) | set(found.dst[of_job == index].tolist())
        assert hosts == set(range(4 * index, 4 * index + 4))
    first = found.start_ns != NEVER_NS
    assert len(set(found.start_ns[first].tolist())) == 3
    assert found.start_ns[first].max() <= 1_000_000
    gaps = found.after_delay_ns[found.after_delay_ns > 0]
    assert np.all((gaps >= 1_000_000) & (gaps <= 1_100_000))
    # All ranks of an iteration compute equally long.
    assert len(set(gaps.tolist())) <= 3 * n_iterations


def test_scattered_jobs_are_anywhere() -> None:
    drawn = {
        tuple(sorted(set(flows(job(placement="scattered"), 16, seed=seed).src.tolist())))
        for seed in range(20)
    }
    assert len(drawn) > 15


def test_messages_of_a_pair_keep_their_connection() -> None:
    found = flows(job(jobs=2, collective="all_to_all"), 8)
    ports: dict[tuple[int, int], set[int]] = {}
    for src, dst, port in zip(found.src.tolist(), found.dst.tolist(), found.src_port.tolist(), strict=True):
        ports.setdefault((src, dst), set()).add(port)
    assert all(len(known) == 1 for known in ports.values())
    assert len({(src, next(iter(known))) for (src, _), known in ports.items()}) == 2 * 4 * 3


def test_too_many_hosts_and_messages_are_refused() -> None:
    with pytest.raises(SysgymError, match="need more than the topology's 8"):
        flows(job(jobs=3), 8)
    with pytest.raises(SysgymError, match="messages are possible"):
        flows(job(size_bytes=4, compute_s=0.0), 4, horizon_s=7200.0)
