"""Programs, compared with brute force: sets of contributions, and bytes counted at every NIC."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.envs.placement.rings import NIC, OUTER_LATENCY, chain_time_s, ring_time_s

MakeEnv = Callable[..., Any]
# What a device holds: row -> whose contributions its copy includes.
Held = dict[int, frozenset[int]]
State = tuple[tuple[tuple[int, frozenset[int]], ...], ...]

COLLECTIVES = ("AR", "RS", "AG", "R", "B")
PATTERNS = ("all", "inside", "across", "masters")


def groups_of(pattern: str, outer: int, inner: int) -> list[list[int]]:
    """Return the groups of a pattern of two levels."""
    if pattern == "all":
        return [list(range(outer * inner))]
    if pattern == "inside":
        return [[u * inner + p for p in range(inner)] for u in range(outer)]
    places = range(inner) if pattern == "across" else [0]
    return [[u * inner + p for u in range(outer)] for p in places]


def run(devices: list[Held], group: list[int], collective: str) -> list[Held] | None:
    """Return what a group's members hold after a collective; None where it may not run."""
    held = [devices[member] for member in group]
    rows = set(held[0])
    union = {
        row: frozenset().union(*(one.get(row, frozenset()) for one in held)) for one in held for row in one
    }
    if collective == "AG":
        if not all(held) or len({len(one) for one in held}) > 1 or sum(map(len, held)) > len(union):
            return None
        return [union] * len(group)
    if collective == "B":
        if not rows or any(
            not part <= held[0].get(row, frozenset()) for one in held for row, part in one.items()
        ):
            return None
        return [held[0]] * len(group) if any(one != held[0] for one in held) else None
    if not rows or any(set(one) != rows for one in held):
        return None
    if any(sum(len(one[row]) for one in held) > len(union[row]) for row in rows):
        return None
    if collective == "AR":
        return [union] * len(group)
    if collective == "R":
        return [union, *({} for _ in group[1:])]
    if len(rows) % len(group):
        return None
    run_length = len(rows) // len(group)
    ordered = sorted(rows)
    return [
        {row: union[row] for row in ordered[at * run_length : (at + 1) * run_length]}
        for at in range(len(group))
    ]


class Brute:
    """All programs over ``outer`` nodes and ``inner`` GPUs of each, ``sharing`` groups a NIC."""

    def __init__(self, outer: int, inner: int, sharing: int, size: float) -> None:
        self.outer, self.inner, self.sharing, self.size = outer, inner, sharing, size
        self.k = outer * inner
        self.start: list[Held] = [{row: frozenset([one]) for row in range(self.k)} for one in range(self.k)]
        self.goal: list[Held] = [{row: frozenset(range(self.k)) for row in range(self.k)}] * self.k

    def step(self, devices: list[Held], pattern: str, collective: str) -> tuple[list[Held], float] | None:
        """Return the state after an instruction, and its time; None where it may not run."""
        after = list(devices)
        groups = groups_of(pattern, self.outer, self.inner)
        for group in groups:
            held = run(devices, group, collective)
            if held is None:
                return None
            for member, one in zip(group, held, strict=True):
                after[member] = one
        return after, self.time_s(devices, after, groups, collective)

    def time_s(
        self, before: list[Held], after: list[Held], groups: list[list[int]], collective: str
    ) -> float:
        first = groups[0][0]
        share = len((after if collective == "AG" else before)[first]) / self.k
        per_nic = [0] * self.outer
        for group in groups:
            nodes = {member // self.inner for member in group}
            if len(nodes) > 1:
                for node in nodes:
                    per_nic[node] += self.sharing
        if collective in ("R", "B"):
            return chain_time_s(groups[0], self.inner, share * self.size, max(per_nic))
        phases = 2 if collective == "AR" else 1
        return ring_time_s(groups[0], self.inner, phases, share * self.size, max(per_nic))

    def programs(self, most: int) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield every valid program of up to so many steps, and its time."""
        pending: list[tuple[list[Held], tuple[str, ...], float]] = [(self.start, (), 0.0)]
        while pending:
            devices, program, spent_s = pending.pop()
            if devices == self.goal:
                yield program, spent_s
                continue
            if len(program) == most:
                continue
            for pattern, collective in itertools.product(PATTERNS, COLLECTIVES):
                found = self.step(devices, pattern, collective)
                if found is not None:
                    after, time_s = found
                    pending.append((after, (*program, f"{pattern}:{collective}"), spent_s + time_s))


def make_program_env(
    make_env: MakeEnv, world: Any, outer: int, inner: int, sharing: int, size: float = 1e9, **arguments: Any
) -> Any:
    """Return an environment with one reduction over ``outer`` x ``inner`` devices."""
    overrides = {
        **world.nodes_of(outer, inner * sharing),
        "problem.axes": [outer * inner, sharing],
        **world.reductions(([0], size)),
        "problem.placement": "drawn",
        "problem.program_levels_min": 2,
        **arguments.pop("overrides", {}),
    }
    return make_env("program", overrides=overrides, **arguments)


def start(env: Any, outer: int, inner: int) -> Any:
    """Reset until the drawn placement is the wanted one."""
    for seed in range(50):
        result = env.reset(options={"episode_seed": seed})
        if [factor for _, factor in env.task.factors] == [outer, inner]:
            return result
    raise AssertionError("no such placement was drawn")


@pytest.mark.parametrize(
    ("outer", "inner", "sharing", "size", "most"),
    [(2, 2, 1, 1e9, 5), (2, 4, 1, 1e9, 4), (4, 2, 2, 1e6, 4), (2, 2, 4, 1e3, 5), (3, 5, 1, 1e8, 3)],
)
def test_the_optimum_is_that_of_a_brute_force(
    make_env: MakeEnv, world: Any, outer: int, inner: int, sharing: int, size: float, most: int
) -> None:
    expected = dict(Brute(outer, inner, sharing, size).programs(most))
    assert len(expected) == {5: 93, 4: 71, 3: 29}[most]
    env = make_program_env(
        make_env, world, outer, inner, sharing, size, overrides={"problem.program_steps": most}
    )
    start(env, outer, inner)
    best_s = min(expected.values())
    for program, time_s in expected.items():
        env.reset(options={"episode_seed": env.episode_seed})
        for word in program:
            assert env.outcome is None
            action = env.action_of(word)
            assert env.action_masks()[action]
            _, reward, _, _, info = env.step(action)
        metrics = info["episode_metrics"]
        assert metrics["time_s"] == pytest.approx(time_s, rel=1e-9)
        assert metrics["default_time_s"] == pytest.approx(expected["all:AR",], rel=1e-9)
        assert metrics["best_time_s"] == pytest.approx(best_s, rel=1e-9)
        assert metrics["program_steps"] == len(program)
        assert reward == pytest.approx(math.log(expected["all:AR",] / time_s), abs=2e-9)
        if math.isclose(time_s, best_s, rel_tol=1e-10):
            assert (metrics["regret"], metrics["optimal"]) == (0.0, 1.0)
            assert len(program) >= metrics["best_program_steps"]
        else:
            assert metrics["regret"] == pytest.approx(math.log(time_s / best_s), abs=2e-9)


@pytest.mark.parametrize("mask", ["live", "valid"])
@pytest.mark.parametrize("most", [3, 5])
def test_masks_are_exact(make_env: MakeEnv, world: Any, mask: str, most: int) -> None:
    """What is allowed is what the brute force finds to be possible, in every state on the way."""
    brute = Brute(2, 2, 1, 1e9)
    programs = [program for program, _ in brute.programs(most)]
    live = {program[:length] for program in programs for length in range(1, len(program) + 1)}
    env = make_program_env(make_env, world, 2, 2, 1, mask=mask, overrides={"problem.program_steps": most})
    start(env, 2, 2)
    seed = env.episode_seed
    pending: list[tuple[tuple[str, ...], list[Held]]] = [((), brute.start)]
    states = 0
    while pending:
        program, devices = pending.pop()
        env.reset(options={"episode_seed": seed})
        for word in program:
            env.step(env.action_of(word))
        states += 1
        if env.outcome is not None:
            # A dead end, which only the weaker mask leads to, or the goal.
            assert env.outcome.valid == (devices == brute.goal)
            assert mask == "valid" or env.outcome.valid
            continue
        allowed = np.flatnonzero(env.action_masks()).tolist()
        words = {
            f"{pattern}:{collective}": found[0]
            for pattern, collective in itertools.product(PATTERNS, COLLECTIVES)
            if (found := brute.step(devices, pattern, collective)) is not None
            and (mask == "valid" or (*program, f"{pattern}:{collective}") in live)
        }
        assert sorted(env.action_of(word) for word in words) == allowed
        pending += [((*program, word), after) for word, after in words.items()]
    assert states > len(programs)


@pytest.mark.parametrize("scenario", ["program-p2", "program-unseen"])
def test_what_the_mask_allows_always_leads_to_the_goal(make_env: MakeEnv, scenario: str) -> None:
    env = make_env("program", scenario=scenario, split="test")
    rng = np.random.default_rng(0)
    lengths = set()
    for seed in range(20_000, 20_030):
        env.reset(options={"episode_seed": seed})
        info: dict[str, Any] = {}
        while env.outcome is None:
            info = env.step(rng.choice(np.flatnonzero(env.action_masks())))[4]
        assert info["episode_metrics"]["valid"] == 1.0
        assert env.steps <= env.scenario.problem.program_steps
        lengths.add(env.steps)
    assert lengths >= {2, 3, 4}


def test_a_program_that_does_not_get_there_counts_as_the_all_reduce(make_env: MakeEnv, world: Any) -> None:
    # After the masters have the sum, nobody tells the others: the steps run out.
    env = make_program_env(make_env, world, 2, 2, 1, mask="valid", overrides={"problem.program_steps": 2})
    start(env, 2, 2)
    env.step(env.action_of("inside:R"))
    _, reward, terminated, _, info = env.step(env.action_of("masters:AR"))
    assert (reward, terminated) == (-1.0, True)
    metrics = info["episode_metrics"]
    assert (metrics["valid"], metrics["speedup"], metrics["program_steps"]) == (0.0, 1.0, 2.0)
    assert metrics["time_s"] == metrics["default_time_s"]


@pytest.mark.parametrize(
    ("outer", "inner", "sharing", "best_ms"),
    [(2, 16, 1, 127.14), (2, 4, 4, 482.62), (4, 16, 1, 186.72), (4, 4, 4, 720.77)],
)
def test_known_times(
    make_env: MakeEnv, world: Any, outer: int, inner: int, sharing: int, best_ms: float
) -> None:
    # With 1 GB a NIC is never idle in the single ring: it sends 2 (n - 1) pieces of each ring that shares it,
    # and its last piece then is on its way for 14 us. That makes 230.67, 833.35, 234.39 and 892.87 ms.
    n = outer * inner
    all_reduce_ms = (2 * (n - 1) / n * sharing * 1e9 / NIC + OUTER_LATENCY) * 1e3
    env = make_program_env(make_env, world, outer, inner, sharing)
    start(env, outer, inner)
    for word in ("inside:RS", "across:AR", "inside:AG"):
        info = env.step(env.action_of(word))[4]
    metrics = info["episode_metrics"]
    assert metrics["default_time_s"] * 1e3 == pytest.approx(all_reduce_ms, abs=0.01)
    assert metrics["time_s"] * 1e3 == pytest.approx(best_ms, abs=0.01)
    assert (metrics["regret"], metrics["best_program_steps"], metrics["n_levels"]) == (0.0, 3.0, 2.0)


def test_what_is_observed_by_hand(make_env: MakeEnv, world: Any) -> None:
    env = make_program_env(make_env, world, 2, 4, 2, size=1e9)
    observation, _ = start(env, 2, 4)
    log = np.log10
    levels = [
        [1, log(2), log(8.4), log(14), log(2), 0],
        [1, log(4), log(235), log(3), 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    assert observation["levels"] == pytest.approx(np.array(levels), abs=1e-6)
    assert observation["progress"] == pytest.approx(np.array([3.0, 5.0, 0.0]))
    holds = observation["holds"].reshape(8, 8, 8)
    expected = np.zeros((8, 8, 8))
    for device in range(4):
        expected[device, :4, device] = 1.0
    assert np.array_equal(holds, expected)
    # An all-reduce costs what it costs. A reduce-scatter keeps the NIC, which two rings of 8 share, busy for
    # half as long, and its last piece is on its way for as long.
    costs = observation["costs"]
    half_s = 7 / 8 * 2 * 1e9 / NIC
    assert costs[env.action_of("all:AR")] == pytest.approx(0.0, abs=1e-7)
    share = (half_s + OUTER_LATENCY) / (2 * half_s + OUTER_LATENCY)
    assert costs[env.action_of("all:RS")] == pytest.approx(np.log(share), abs=1e-6)
    assert costs[env.action_of("all:AG")] == 0.0
    assert not costs[20:].any()
    assert observation["action_mask"].sum() == 9.0  # 12 are valid, 3 of them dead ends
    observation, _, _, _, info = env.step(env.action_of("inside:RS"))
    holds = observation["holds"].reshape(8, 8, 8)
    assert holds[0].sum() == 4.0
    assert holds[0, :2, :2].all()
    assert holds[3, 2:4, 2:4].all()
    spent = info["metrics"]["time_s"] / info["metrics"]["default_time_s"]
    assert observation["progress"] == pytest.approx(np.array([3.0, 4.0, spent]))
    assert observation["progress"][2] == pytest.approx(np.exp(costs[env.action_of("inside:RS")]), rel=1e-5)


@pytest.mark.parametrize("n_levels", [1, 2, 3])
def test_what_is_observed_tells_states_apart(make_env: MakeEnv, n_levels: int) -> None:
    from sysgym.emulator.accelerators.programs import program_space
    from sysgym.envs.placement.observation import holds_table

    table = holds_table(program_space(n_levels))
    assert len(np.unique(table.reshape(len(table), -1), axis=0)) == len(table)


def test_instructions_have_names(make_env: MakeEnv, world: Any) -> None:
    env = make_program_env(make_env, world, 2, 2, 1)
    start(env, 2, 2)
    for index, word in enumerate(itertools.product(PATTERNS, COLLECTIVES)):
        assert env.action_of(":".join(word)) == index
        assert env.action_of(env.instruction_of(index)) == index
    with pytest.raises(IndexError):
        env.instruction_of(20)
    env.step(env.action_of("inside:RS"))
    assert env.program == (env.instruction_of(env.action_of("inside:RS")),)


def test_the_best_placement_may_be_given(make_env: MakeEnv, world: Any) -> None:
    """Four nodes of 16, an axis of 16: inside a node it is one level; with a second one it has to span."""
    overrides = {**world.nodes_of(4, 16), "problem.axes": [4, 16], **world.reductions(([1], 1e9))}
    env = make_env(
        "program", overrides={**overrides, "problem.placement": "best", "problem.program_levels_min": 1}
    )
    env.reset(seed=0)
    assert env.matrix == ((4, 1), (1, 16))
    assert env.task.space.n_levels == 1
