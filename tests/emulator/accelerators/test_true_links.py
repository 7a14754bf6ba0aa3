"""Hidden links: what is drawn, and times of candidates on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sysgym.emulator.accelerators.candidates import best_candidates
from sysgym.emulator.accelerators.flows.collective import link_graph, program_time_s
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.true_links import LEAST_FREE, FlowTimes, draw_links
from sysgym.scenarios.schema.placement_tables import Joint

SYSTEM = get_preset("dgx-a100", 4)


def joint(**keys: Any) -> Joint:
    return Joint(truth="flows", **keys)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_without_faults_times_are_those_of_all_transfers() -> None:
    problem = PlacementProblem(SYSTEM, (4, 8), (Reduction((0,), 4e9), Reduction((1,), 1e9)))
    candidates = best_candidates(problem, 12, "ring", 5)
    times = FlowTimes(problem, "ring", draw_links(SYSTEM, joint(), rng()))
    chosen = [candidates[index] for index in range(len(candidates))]
    states_s = times.times_s(chosen)
    assert states_s.shape == (len(candidates), 4)
    for candidate, states in zip(chosen, states_s, strict=True):
        exact_s = sum(
            program_time_s(SYSTEM, candidate.matrix, reduction, program)
            for reduction, program in zip(problem.reductions, candidate.programs, strict=True)
        )
        assert states == pytest.approx(exact_s, rel=0.05)


def test_a_slow_node_and_a_slow_link_are_where_they_are_said_to_be() -> None:
    graph = link_graph(SYSTEM)
    nominal = graph.bandwidth_bytes_per_s
    node = draw_links(SYSTEM, joint(slow_node_probability=1.0, slow_node_share=0.5), rng())
    assert node.slow_node is not None
    assert node.slow_link is None
    slow = np.flatnonzero(node.bandwidth_bytes_per_s[0] < nominal)
    assert node.bandwidth_bytes_per_s[0][slow] == pytest.approx(0.5 * nominal[slow])
    words = f"node {node.slow_node}"
    assert {graph.link_name(link).split(",")[0] for link in slow.tolist()} == {words}
    assert len(slow) == sum(words == graph.link_name(link).split(",")[0] for link in range(graph.n_links))
    link = draw_links(SYSTEM, joint(slow_link_probability=1.0, slow_link_share=0.25), rng())
    assert link.slow_link is not None
    assert np.flatnonzero(link.bandwidth_bytes_per_s[0] < nominal).tolist() == [
        link.slow_link,
        link.slow_link + 1,
    ]


def test_others_leave_something_and_differ_from_state_to_state() -> None:
    busy = joint(background_flows=200, background_flow_share=0.9, background_states=3)
    states = draw_links(SYSTEM, busy, rng()).bandwidth_bytes_per_s
    nominal = link_graph(SYSTEM).bandwidth_bytes_per_s
    assert states.shape == (3, len(nominal))
    assert np.all(states >= LEAST_FREE * nominal * (1 - 1e-12))
    assert np.all(states <= nominal)
    assert states.mean() < 0.5 * nominal.mean()
    assert len(np.unique(states, axis=0)) == 3


def test_levels_reach_a_share_and_draws_follow_from_the_seed() -> None:
    shares = []
    for seed in range(200):
        links = draw_links(SYSTEM, joint(level_share_min=0.5), rng(seed))
        ratio = links.bandwidth_bytes_per_s[0] / links.graph.bandwidth_bytes_per_s
        shares.append([ratio[links.graph.first_link[level]] for level in range(2)])
        assert len(np.unique(ratio.round(9))) == 2
    assert np.min(shares) >= 0.5
    assert np.max(shares) <= 1.0
    assert np.mean(shares) == pytest.approx(0.75, abs=0.03)
    assert np.corrcoef(np.transpose(shares))[0, 1] < 0.2
    again = draw_links(SYSTEM, joint(level_share_min=0.5), rng(199))
    assert np.array_equal(again.bandwidth_bytes_per_s, links.bandwidth_bytes_per_s)
