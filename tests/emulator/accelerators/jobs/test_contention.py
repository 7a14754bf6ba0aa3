"""Several jobs: their draws, their times alone, and how much they slow each other down."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sysgym.emulator.accelerators.flows.collective import link_graph
from sysgym.emulator.accelerators.flows.simulation import Flows, simulate
from sysgym.emulator.accelerators.flows.tables import Paths
from sysgym.emulator.accelerators.flows.transfers import lower_collective
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.jobs.assignments import (
    all_assignments,
    neighbour,
    packed,
    shapes,
    spread,
)
from sysgym.emulator.accelerators.jobs.contention import JobSystem
from sysgym.emulator.accelerators.jobs.jobs import Job, devices_of, draw_jobs
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.programs import Collective
from sysgym.scenarios.errors import ScenarioError, SysgymError
from sysgym.scenarios.schema.placement_tables import Jobs

NODES = get_preset("p2-v100", 3)
NIC = 8.4e9
SMALL = Jobs(jobs_min=2, jobs_max=3, block_devices=(2, 4), blocks=(1, 2, 4))


def job(blocks: int = 2, devices: int = 4, **more: float) -> Job:
    described = {"compute_s": 0.1, "overlap": 0.0, "data_bytes": 8.4e8, "tensor_bytes": 1.0} | more
    return Job(blocks, devices, **described)


def test_a_job_alone_by_hand() -> None:
    one = JobSystem(NODES, [job(tensor_bytes=1e8)], 3, 0)
    across = np.array([[1, 1, 0]])
    (placed,) = one.placed(across)
    # Four pairs share a NIC; each sends the vector once. 0.84 GB x 4 at 8.4 GB/s, and two hops.
    assert placed.data_s == pytest.approx(0.4 + 2 * NODES.levels[0].latency_s, rel=1e-6)
    assert placed.alone_s == pytest.approx(0.1 + placed.tensor_s + placed.data_s)
    (packed_one,) = one.placed(np.array([[2, 0, 0]]))
    assert one.reference_s[0] == packed_one.alone_s < placed.alone_s
    assert one.slowdowns(np.array([[2, 0, 0]])) == pytest.approx(1.0)
    assert one.slowdowns(across) == pytest.approx(placed.alone_s / packed_one.alone_s)
    # The estimate has no latencies of hops.
    assert one.estimates(across) == pytest.approx(placed.alone_s / packed_one.alone_s, rel=1e-3)


def test_overlap_hides_a_reduction() -> None:
    hidden = JobSystem(NODES, [job(overlap=1.0, compute_s=0.5)], 3, 0)
    (placed,) = hidden.placed(np.array([[1, 1, 0]]))
    assert placed.alone_s == pytest.approx(0.5 + placed.tensor_s)


def test_two_jobs_on_one_nic_by_hand() -> None:
    """Two jobs that only communicate share their NICs all the time, others do not."""
    talkers = [job(compute_s=1e-9, tensor_bytes=0.0), job(compute_s=1e-9, tensor_bytes=0.0)]
    system = JobSystem(get_preset("p2-a100", 4), talkers, 20, 0)
    apart = system.slowdowns(np.array([[1, 1, 0, 0], [0, 0, 1, 1]]))
    shared = system.slowdowns(np.array([[1, 1, 0, 0], [1, 1, 0, 0]]))
    assert shared / apart == pytest.approx(2.0, rel=0.03)
    # On one of two NICs: the ring waits for it.
    one = system.slowdowns(np.array([[1, 1, 0, 0], [0, 1, 1, 0]]))
    assert one / apart == pytest.approx(2.0, rel=0.03)
    estimate = system.estimates(np.array([[1, 1, 0, 0], [1, 1, 0, 0]]))
    assert estimate / apart == pytest.approx(2.0, rel=0.03)


def test_contending_reductions_take_as_long_as_all_of_their_transfers() -> None:
    """One reduction of each of two jobs at a time, as groups and transfer by transfer."""
    jobs = [job(2, 4, data_bytes=4e9), job(4, 2, data_bytes=2e9)]
    counts = np.array([[1, 1, 0], [1, 2, 1]])
    system = JobSystem(NODES, jobs, 1, 0)
    graph = link_graph(NODES)
    groups = [
        lower_collective(graph, blocks.T, Collective.ALL_REDUCE, one.data_bytes).flows
        for one, blocks in zip(jobs, devices_of(NODES, jobs, counts), strict=True)
    ]
    exact = simulate(joined(groups), graph.bandwidth_bytes_per_s)
    ends = [float(part.max()) for part in np.split(exact.finish_s, [groups[0].n_flows])]
    placed = system.placed(counts)
    paths = [one.data for one in placed]
    flows = simulate(
        joined(
            [
                Flows(
                    one.size_bytes,
                    one.latency_s,
                    np.arange(len(one.size_bytes), dtype=np.int32),
                    one.paths,
                    np.zeros(len(one.size_bytes) + 1, np.int64),
                    np.zeros(0, np.int32),
                    np.full(len(one.size_bytes), -1, np.int32),
                )
                for one in paths
            ]
        ),
        graph.bandwidth_bytes_per_s,
    )
    found = [float(part.max()) for part in np.split(flows.finish_s, [len(paths[0].size_bytes)])]
    assert found == pytest.approx(ends, rel=0.05)


def joined(parts: list[Flows]) -> Flows:
    """Return flows of several simulations in one, so that they share links."""
    first, second = parts
    return Flows(
        np.concatenate([first.size_bytes, second.size_bytes]),
        np.concatenate([first.latency_s, second.latency_s]),
        np.concatenate([first.path, second.path + first.paths.n_paths]).astype(np.int32),
        Paths(
            np.concatenate([first.paths.first, first.paths.first[-1] + second.paths.first[1:]]),
            np.concatenate([first.paths.link, second.paths.link]),
            np.concatenate([first.paths.share, second.paths.share]),
        ),
        np.concatenate([first.wait_first, first.wait_first[-1] + second.wait_first[1:]]),
        np.concatenate([first.wait_on, second.wait_on + first.n_flows]).astype(np.int32),
        np.concatenate(
            [first.follows, np.where(second.follows < 0, -1, second.follows + first.n_flows)]
        ).astype(np.int32),
    )


def test_the_closed_form_ranks_assignments_as_the_flows_do() -> None:
    ranks, errors = [], []
    for seed in range(12):
        system = JobSystem(NODES, draw_jobs(SMALL, NODES, seed), 4, seed)
        everything = all_assignments(NODES, system.jobs, 2000)[:12]
        exact = np.array([system.slowdowns(counts).mean() for counts in everything])
        estimate = np.array([system.estimates(counts).mean() for counts in everything])
        errors.append(np.abs(np.log(estimate / exact)).mean())
        if len(everything) > 3 and np.ptp(exact) > 0.01:
            ranks.append(np.corrcoef(np.argsort(np.argsort(exact)), np.argsort(np.argsort(estimate)))[0, 1])
    assert np.mean(errors) < 0.1
    assert np.mean(ranks) > 0.8


def test_draws_fit_and_follow_from_the_seed() -> None:
    table = Jobs(jobs_min=2, jobs_max=8, block_devices=(1, 2, 4, 8), blocks=(2, 4, 8))
    system = get_preset("dgx-a100", 4)
    for seed in range(200):
        jobs = draw_jobs(table, system, seed)
        assert jobs == draw_jobs(table, system, seed)
        assert 2 <= len(jobs) <= 8
        assert sum(one.devices for one in jobs) <= 32
        assert [one.block_devices for one in jobs] == sorted(
            (one.block_devices for one in jobs), reverse=True
        )
        for rule in (packed, spread):
            counts = rule(system, jobs)
            assert counts.sum(axis=1).tolist() == [one.blocks for one in jobs]
            assert np.all(np.array([one.block_devices for one in jobs]) @ counts <= 8)
    with pytest.raises(ScenarioError, match="room for jobs_min"):
        draw_jobs(Jobs(block_devices=(8,), blocks=(8,)), system, 0)
    with pytest.raises(ScenarioError, match="nodes of devices"):
        draw_jobs(table, get_preset("single"), 0)
    with pytest.raises(ScenarioError, match="at most 16"):
        draw_jobs(table, get_preset("dgx-a100", 17), 0)


def test_all_assignments_by_brute_force() -> None:
    """Three levels: nodes below one switch are alike, and so are the switches."""
    pods = Hierarchy(
        "pods", (Level("pod", 2, 1e9, 1e-6), Level("node", 2, 1e9, 1e-6), Level("gpu", 4, 1e9, 1e-6))
    )
    jobs = [job(2, 2), job(3, 1)]
    keys = set()
    for rows in itertools.product(itertools.product(range(4), repeat=4), repeat=2):
        counts = np.array(rows)
        if counts.sum(axis=1).tolist() == [2, 3] and np.all(np.array([2, 1]) @ counts <= 4):
            columns = [tuple(column) for column in counts.T.tolist()]
            keys.add(tuple(sorted((tuple(sorted(columns[:2])), tuple(sorted(columns[2:]))))))
    assert len(all_assignments(pods, jobs, 10_000)) == len(keys)
    with pytest.raises(SysgymError, match="exhaustive search is for"):
        all_assignments(pods, jobs, 10)


def test_neighbours_and_shapes_are_assignments() -> None:
    rng = np.random.default_rng(0)
    system = get_preset("dgx-a100", 4)
    jobs = draw_jobs(Jobs(jobs_min=4, block_devices=(1, 2, 4), blocks=(2, 4)), system, 1)
    sizes = np.array([one.block_devices for one in jobs])
    counts, seen = packed(system, jobs), set()
    for _ in range(500):
        counts = neighbour(system, jobs, counts, rng)
        assert counts.sum(axis=1).tolist() == [one.blocks for one in jobs]
        assert counts.min() >= 0
        assert np.all(sizes @ counts <= 8)
        seen.add(counts.tobytes())
    assert len(seen) > 100
    found = list(shapes(system, jobs[0], np.full(4, 8)))
    assert len(found) == len({row.tobytes() for row in found}) >= 2
    assert all(row.sum() == jobs[0].blocks for row in found)
