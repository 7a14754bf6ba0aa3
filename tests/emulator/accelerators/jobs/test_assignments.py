"""All assignments of jobs to nodes: the best of those that remain is the best of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level, Network
from sysgym.emulator.accelerators.jobs.assignments import all_assignments
from sysgym.emulator.accelerators.jobs.contention import JobSystem
from sysgym.emulator.accelerators.jobs.jobs import IntArray, Job, n_nodes

PAIR = (Job(2, 2, 0.01, 0.0, 4e8, 1e6), Job(2, 2, 0.012, 0.0, 5e8, 1e6))
UNLIKE = (Job(2, 2, 0.03, 0.3, 4e8, 1e6), Job(3, 1, 0.02, 0.6, 9e8, 1e6))


def system(cardinalities: Sequence[int], networks: Sequence[tuple[Network, int]]) -> Hierarchy:
    """Return levels of networks and uplinks, each four times as fast as the one around it."""
    return Hierarchy(
        "small",
        tuple(
            Level(f"level {index}", cardinality, 2e9 * 4**index, 1e-6, uplinks, network)
            for index, (cardinality, (network, uplinks)) in enumerate(
                zip(cardinalities, networks, strict=True)
            )
        ),
    )


def brute_force(hierarchy: Hierarchy, jobs: Sequence[Job]) -> Iterator[IntArray]:
    """Yield all assignments, [n_jobs, n_nodes] each."""

    def rows(blocks: int, room: Sequence[int]) -> Iterator[list[int]]:
        if not room:
            if not blocks:
                yield []
            return
        for here in range(min(blocks, room[0]) + 1):
            for rest in rows(blocks - here, room[1:]):
                yield [here, *rest]

    def assigned(left: Sequence[Job], free: IntArray) -> Iterator[list[list[int]]]:
        if not left:
            yield []
            return
        for row in rows(left[0].blocks, (free // left[0].block_devices).tolist()):
            for rest in assigned(left[1:], free - left[0].block_devices * np.array(row)):
                yield [row, *rest]

    free = np.full(n_nodes(hierarchy), hierarchy.cardinalities[-1])
    return (np.array(found) for found in assigned(jobs, free))


@pytest.mark.parametrize(
    ("cardinalities", "networks", "kept"),
    [
        pytest.param((4, 2), (("switch", 1), ("switch", 1)), {1, 9}, id="a switch"),
        pytest.param((4, 2), (("ring", 1), ("switch", 1)), {2, 12}, id="a ring"),
        pytest.param((5, 2), (("ring", 2), ("ring", 1)), None, id="a ring of rings"),
        pytest.param((2, 2, 2), (("switch", 1), ("switch", 2), ("switch", 1)), None, id="racks"),
        pytest.param((2, 3, 2), (("switch", 2), ("switch", 1), ("switch", 1)), None, id="straddled uplinks"),
        pytest.param((2, 2, 2), (("ring", 4), ("switch", 1), ("switch", 1)), None, id="racks in a ring"),
        pytest.param((1, 4, 2), (("switch", 1), ("ring", 1), ("switch", 1)), None, id="one rack, a ring"),
        pytest.param((2, 3, 2), (("switch", 1), ("ring", 2), ("switch", 1)), None, id="rings in racks"),
    ],
)
@pytest.mark.parametrize("jobs", [PAIR, UNLIKE])
def test_the_best_assignment_is_that_of_brute_force(
    cardinalities: tuple[int, ...],
    networks: tuple[tuple[Network, int], ...],
    kept: set[int] | None,
    jobs: tuple[Job, ...],
) -> None:
    hierarchy = system(cardinalities, networks)
    running = JobSystem(hierarchy, jobs, 3, 1)
    found = all_assignments(hierarchy, jobs, 2000)
    every = list(brute_force(hierarchy, jobs))
    means = {round(float(running.slowdowns(counts).mean()), 9) for counts in found}
    # Not only the best one remains, but each time that some assignment has.
    assert means == {round(float(running.slowdowns(counts).mean()), 9) for counts in every}
    assert len(found) < len(every)
    assert kept is None or len(found) in kept


def test_in_a_ring_two_jobs_lie_beside_each_other() -> None:
    """Pairs of opposite nodes use all links of the ring, pairs of neighbours only their own."""
    hierarchy = Hierarchy(
        "ring", (Level("node", 4, 10e9, 1e-6, network="ring"), Level("gpu", 2, 100e9, 1e-6))
    )
    running = JobSystem(hierarchy, PAIR, 6, 1)
    means = [running.slowdowns(counts).mean() for counts in all_assignments(hierarchy, PAIR, 10)]
    assert min(means) == pytest.approx(0.947, abs=5e-4)
    assert max(means) == pytest.approx(1.0)
