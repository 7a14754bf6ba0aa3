"""Agents of the collectives family: right schedules, known optima, what each is better at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysgym
from sysgym.agents import list_agents, make_agent, play_episode
from sysgym.agents.collectives.logical import tour
from sysgym.agents.collectives.matching import Rule, match, random_keys
from sysgym.agents.collectives.milp import epochs_of, optimal_plan
from sysgym.agents.collectives.search import RULES, annealing, restarts
from sysgym.emulator.collectives.checking import check_schedule
from sysgym.emulator.collectives.collective import Kind, Phase
from sysgym.emulator.collectives.schedule import Schedule
from sysgym.emulator.collectives.spread import Spread
from sysgym.scenarios.errors import SysgymError
from tests.emulator.collectives.conftest import SYSTEMS, task

REGISTERED = sysgym.__version__
SYNTHESIZERS = ("ring", "tree", "doubling", "direct", "tacos", "restarts", "annealing")
KINDS = [kind.value for kind in Kind]


def agent(name: str, **parameters: Any) -> Any:
    return make_agent(name, family="collectives", **parameters)


def schedule_of(name: str, one: Any, **parameters: Any) -> Schedule:
    found: Schedule = agent(name, **parameters).synthesize(one)
    check_schedule(found)
    return found


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(("ring", "tree", "doubling", "direct", "tacos", "restarts")),
    topology=st.sampled_from(SYSTEMS),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**16),
    share=st.floats(0.4, 1.0),
)
def test_every_agent_performs_every_collective(
    name: str, topology: str, kind: str, seed: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    n = task(topology, kind).n_devices
    members = tuple(sorted(rng.permutation(n)[: max(2, round(share * n))].tolist()))
    faults = {"failed_cables": 1, "slow_cables": 2}
    one = task(topology, kind, members=members, faults=faults, seed=seed, latency_s=1e-3)
    parameters = {"runs": 2} if name in ("tacos", "restarts") else {}
    schedule_of(name, one, **parameters)


@pytest.mark.parametrize(
    ("name", "topology", "kind", "pieces", "time_s"),
    [
        ("ring", "ring-6", "all_gather", 1, 0.5),
        ("ring", "ring-7", "reduce_scatter", 1, 3 / 7),
        ("ring", "ring-8", "all_gather", 2, 7 / 16),
        ("ring", "nodes-1x8", "all_reduce", 1, 14 / 8),
        ("direct", "fully-connected-5", "all_to_all", 1, 0.2),
        ("direct", "nodes-1x6", "all_gather", 1, 5 / 6),
        ("direct", "nodes-1x6", "all_to_all", 1, 5 / 6),
        ("doubling", "hypercube-8", "broadcast", 1, 3.0),
        ("tree", "fully-connected-7", "broadcast", 1, 2.0),
        ("tacos", "hypercube-8", "all_gather", 2, 0.3125),
        ("tacos", "fully-connected-5", "all_reduce", 1, 0.4),
    ],
)
def test_algorithms_in_closed_form(name: str, topology: str, kind: str, pieces: int, time_s: float) -> None:
    one = task(topology, kind, pieces=pieces)
    assert schedule_of(name, one).time_s == pytest.approx(time_s)


def test_a_tour_visits_the_devices_of_a_node_one_after_another() -> None:
    one = task("nodes-3x4", "all_gather", uplink_bandwidth_bytes_per_s=1e8)
    nodes = [device // 4 for device in tour(one)]
    assert sum(here != following for here, following in zip(nodes, nodes[1:] + nodes[:1], strict=True)) == 3
    grid = task("mesh-2x5", "all_gather")
    order = tour(grid)
    times_s = grid.distances_s[order, np.roll(order, -1)]
    assert times_s.max() == pytest.approx(0.1), "a grid of even size has a tour of neighbours"


def test_patience_leaves_slow_links_alone() -> None:
    one = task("fully-connected-4", "all_gather", faults={"slow_cables": 1, "slow_ratio": 0.1})
    hasty, patient = (match_time(one, Rule(patience)) for patience in (0.0, 1.0))
    assert hasty == pytest.approx(2.5), "the slow link takes a chunk at once"
    assert patient == pytest.approx(0.5), "the chunk comes over two fast ones"


def match_time(one: Any, rule: Rule, seed: int | None = None) -> float:
    spread = Spread(one, Phase.COPY)
    keys = None if seed is None else random_keys(one, np.random.default_rng(seed))
    plan = match(spread, rule, keys)
    schedule = Schedule.of_plans(one, [plan])
    check_schedule(schedule)
    assert schedule.time_s <= spread.time_s * (1 + 1e-9)
    return schedule.time_s


def test_a_search_is_as_good_as_its_parts() -> None:
    for seed in range(3):
        one = task("torus-3x3", "all_gather", faults={"slow_cables": 3}, seed=seed)
        start = Spread(one, Phase.COPY)
        rng = np.random.default_rng(seed)
        several = restarts(start, (Rule(1.0, 1.0), Rule()), 8, rng)
        rules = [match_time(one, rule) for rule in (Rule(1.0, 1.0), Rule())]
        assert Schedule.of_plans(one, [several]).time_s <= min(rules) * (1 + 1e-9)
        annealed = Schedule.of_plans(one, [annealing(start, 30, rng)])
        check_schedule(annealed)
        assert start.n_missing == 72, "the beginning is not changed"


@pytest.mark.parametrize("topology", ["rails-4x4", "leaf-spine-4x6x3"])
def test_a_reduction_is_judged_by_its_reversed_plan(topology: str) -> None:
    """Over switches a reversed plan can take longer, by another share for every plan."""
    one = task(topology, "reduce_scatter", faults={"slow_cables": 4, "failed_cables": 1}, latency_s=1e-3)
    start = Spread(one, Phase.REDUCE)
    rules, runs = (Rule(1.0, 1.0), Rule(0.5, 1.0), Rule()), 8
    planned_s, reversed_s, rng = [], [], np.random.default_rng(1)
    for run in range(runs):
        spread = start.fork()
        plan = match(spread, rules[run % 3], None if run < 3 else random_keys(one, rng))
        planned_s.append(spread.time_s)
        reversed_s.append(Schedule.of_plans(one, [plan]).time_s)
    assert np.ptp(np.divide(reversed_s, planned_s)) > 0.01
    best = Schedule.of_plans(one, [restarts(start, rules, runs, np.random.default_rng(1))])
    check_schedule(best)
    assert best.time_s == min(reversed_s)
    first_s = [Schedule.of_plans(one, [match(start.fork(), rule)]).time_s for rule in RULES]
    annealed = Schedule.of_plans(one, [annealing(start, len(RULES) + 3, np.random.default_rng(1))])
    assert annealed.time_s <= min(first_s)


@pytest.mark.parametrize(
    ("topology", "kind", "pieces", "time_s"),
    [
        ("ring-4", "all_gather", 1, 0.5),  # two steps: the farthest is two hops away
        (
            "fully-connected-4",
            "broadcast",
            2,
            1.0,
        ),  # both halves to two others, who exchange and pass them on
        ("mesh-2x2", "all_to_all", 1, 0.5),
        ("ring-3", "broadcast", 3, 2 / 3),
    ],
)
def test_the_integer_program_finds_known_optima(topology: str, kind: str, pieces: int, time_s: float) -> None:
    one = task(topology, kind, pieces=pieces)
    assert schedule_of("milp", one).time_s == pytest.approx(time_s)


def test_the_integer_program_is_not_beaten_by_any_order() -> None:
    for seed in range(3):
        faults = {"slow_cables": 2, "slow_ratio": 0.5}
        one = task("ring-4", "all_gather", faults=faults, seed=seed)
        assert epochs_of(Spread(one, Phase.COPY)).exact
        best_s = schedule_of("milp", one).time_s
        for name in ("ring", "tree", "doubling", "direct", "tacos", "restarts", "annealing"):
            assert schedule_of(name, one).time_s >= best_s * (1 - 1e-9)
        worst = match(Spread(one, Phase.COPY), Rule())
        plan, proven = optimal_plan(Spread(one, Phase.COPY), worst, Schedule.of_plans(one, [worst]).time_s)
        assert proven
        assert Schedule.of_plans(one, [plan]).time_s == pytest.approx(best_s)


def test_a_task_that_is_too_large_for_an_integer_program_is_an_error() -> None:
    one = task("torus-4x4", "all_to_all")
    with pytest.raises(SysgymError, match="binary variables, expected at most"):
        schedule_of("milp", one)


def test_epochs_that_do_not_fit_are_rounded_up() -> None:
    one = task("ring-4", "all_gather", latency_s=0.0123)
    epochs = epochs_of(Spread(one, Phase.COPY))
    assert not epochs.exact
    assert (epochs.durations.tolist(), epochs.occupancies.tolist()) == ([2] * 8, [[1]] * 8)
    half = epochs_of(Spread(task("ring-4", "all_gather", latency_s=0.125), Phase.COPY))
    assert half.exact
    assert (half.durations.tolist(), half.occupancies.tolist()) == ([3] * 8, [[2]] * 8)


@pytest.mark.parametrize("name", [*SYNTHESIZERS, "random", "earliest", "milp"])
def test_agents_play_the_environment_alike_in_every_run(name: str) -> None:
    env = gym.make("sysgym/CollectiveSynthesis-v0", split="test")
    first, again = (play_episode(env, agent(name), options={"episode_seed": 20_003}) for _ in range(2))
    assert first[0] == again[0]
    assert first[1]["episode_metrics"] == again[1]["episode_metrics"]
    check_schedule(env.unwrapped.schedule)  # type: ignore[attr-defined]


def test_all_are_listed_and_refuse_other_families() -> None:
    listed = list_agents("collectives")
    assert set(listed) > {*SYNTHESIZERS, "random", "earliest", "milp", "maskable_ppo_set"}
    env = gym.make("sysgym/CollectivePlacement-v0")
    for name in ("ring", "random", "earliest"):
        with pytest.raises(SysgymError, match="plays CollectiveSynthesis, not CollectivePlacement"):
            agent(name).begin(env)
    for runs, expected in ((0, "at least 1"), (1.5, "a whole number")):
        with pytest.raises(SysgymError, match=f"restarts: runs: expected {expected}, got {runs}"):
            agent("restarts", runs=runs)


def test_members_only_take_part_where_others_are_told_not_to() -> None:
    one = task("fully-connected-5", "all_gather", members=(0, 2, 4))
    schedule = schedule_of("ring", one)
    used = set(one.hops.sources[schedule.hops].tolist())
    assert used == {0, 2, 4}
    assert replace(one.collective, members=(0, 2)).n_members == 2
