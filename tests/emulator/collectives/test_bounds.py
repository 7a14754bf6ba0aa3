"""Lower bounds where latencies differ: links that are too late carry nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.collectives.bounds import crossing_time_s, lower_bound_s
from sysgym.emulator.collectives.checking import check_schedule
from sysgym.emulator.collectives.collective import Collective, Kind
from sysgym.emulator.collectives.hops import hops_of
from sysgym.emulator.collectives.network import Link, Network
from sysgym.emulator.collectives.task import SynthesisTask
from tests.emulator.collectives.conftest import earliest, task

links = st.lists(
    st.tuples(st.floats(1e6, 1e11), st.sampled_from([0.0, 1e-6, 1e-5, 1e-3]) | st.floats(0.0, 1.0)),
    min_size=1,
    max_size=8,
)


def test_links_that_are_too_late_carry_nothing_by_hand() -> None:
    bandwidths, latencies_s = np.array([2.0, 1.0, 0.0]), np.array([3.0, 1.0, 0.0])
    assert crossing_time_s(bandwidths, latencies_s, 0.0) == 0.0
    assert crossing_time_s(bandwidths, latencies_s, 1.0) == pytest.approx(2.0), "over the second link alone"
    assert crossing_time_s(bandwidths, latencies_s, 2.0) == pytest.approx(3.0)
    assert crossing_time_s(bandwidths, latencies_s, 5.0) == pytest.approx(4.0), "2 over the first, 3 over it"


@given(links, st.floats(1e-3, 1e12))
def test_the_time_of_crossing_is_that_of_bisection(
    some: list[tuple[float, float]], size_bytes: float
) -> None:
    bandwidths, latencies_s = np.array(some).T
    least_s, most_s = 0.0, latencies_s.max() + size_bytes / bandwidths.min()
    for _ in range(200):
        middle_s = (least_s + most_s) / 2.0
        enough = bandwidths @ np.maximum(middle_s - latencies_s, 0.0) >= size_bytes
        least_s, most_s = (least_s, middle_s) if enough else (middle_s, most_s)
    assert crossing_time_s(bandwidths, latencies_s, size_bytes) == pytest.approx(most_s, rel=1e-9)


def random_task(rng: np.random.Generator) -> SynthesisTask:
    """Return a task on a ring of devices and switches with further links; bandwidths and latencies differ."""
    n_devices, n_switches = int(rng.integers(2, 6)), int(rng.integers(0, 4))
    n = n_devices + n_switches
    ends = {(vertex, (vertex + 1) % n) for vertex in range(n)}
    ends |= {(a, b) for a in range(n) for b in range(n) if a != b and rng.random() < 0.3}
    drawn = [
        Link(a, b, 1e9 * float(rng.choice([0.25, 1.0, 4.0])), float(rng.choice([0.0, 1e-6, 1e-3])))
        for a, b in sorted(ends)
    ]
    network = Network("random", tuple(map(str, range(n))), n_devices, tuple(drawn))
    members = tuple(sorted(rng.permutation(n_devices)[: rng.integers(2, n_devices + 1)].tolist()))
    kind = list(Kind)[rng.integers(len(Kind))]
    size_bytes = float(rng.choice([1e3, 1e6, 1e8]))
    collective = Collective(kind, members, n_devices, size_bytes, int(rng.integers(1, 4)))
    return SynthesisTask(hops_of(network), collective)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**31))
def test_no_schedule_on_a_random_graph_beats_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one = random_task(rng)
    bound_s = lower_bound_s(one)
    for schedule in (earliest(one), *(earliest(one, rng) for _ in range(4))):
        check_schedule(schedule)
        assert bound_s <= schedule.time_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("kind", "size_bytes", "uplink_latency_s"),
    [
        ("broadcast", 1e3, 1e-5),
        ("all_gather", 1e5, 1e-4),
        ("all_reduce", 1e6, 1e-4),
        ("all_to_all", 1e5, 1e-4),
    ],
)
def test_a_group_inside_a_node_does_not_wait_for_the_uplinks(
    kind: str, size_bytes: float, uplink_latency_s: float
) -> None:
    """The uplinks leave the members' node, but no data has to cross them."""
    keys = {"bandwidth_bytes_per_s": 25e9, "latency_s": 0.7e-6, "uplink_latency_s": uplink_latency_s}
    one = task("rails-2x4", kind, size_bytes, members=(0, 1), **keys)
    bound_s = lower_bound_s(one)
    assert bound_s <= earliest(one).time_s * (1 + 1e-9)
    if kind != "all_reduce":
        assert bound_s == pytest.approx(earliest(one).time_s), "one transfer over one hop"
