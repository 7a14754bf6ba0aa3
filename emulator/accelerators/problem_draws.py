"""Random placement problems of episodes.

Draws depend on the episode's seed alone, and each part has its own stream: settings of the axes do not affect
the system.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Sequence

import numpy as np

from sysgym.emulator.accelerators.cost.model import CostModel
from sysgym.emulator.accelerators.cost.validity import warn_outside
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.imports import read_astra_sim, read_taccl
from sysgym.emulator.accelerators.matrices import (
    Matrix,
    default_matrix,
    enumerate_matrices,
    prime_steps,
    reduction_factors,
)
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.placement import (
    MOST_PROGRAM_LEVELS,
    DrawnSystems,
    PlacementScenario,
    ProblemTable,
    System,
)

_MOST_ATTEMPTS = 64
_LEVEL_NAMES = ("gpu", "node", "rack", "pod")
"""Names of the levels of a drawn system, innermost first."""


def draw_problem(scenario: PlacementScenario, split: str, episode_seed: int) -> PlacementProblem:
    """Return the problem of an episode: the system, then the open parts of the scenario, drawn by the seed.

    Drawn axes are larger than 1 if the number of devices has enough prime factors. They are drawn again if
    only one placement would be possible and the system allows more. Drawn reductions are over different axes.
    The draws of system, axes and reductions do not depend on each other's settings.

    Args:
        scenario: Scenario before draws for the episode: variations of the split are applied here.
        split: ``train``, ``validation`` or ``test``.
        episode_seed: Seed of the episode.

    Raises:
        UnknownName: There is no such split.
        ScenarioError: The axes do not fit the system, or its file cannot be read.
    """
    drawn = scenario.draw(split, episode_seed)
    for attempt in range(_MOST_ATTEMPTS if drawn.system.is_drawn else 1):
        hierarchy = draw_hierarchy(drawn.system, episode_seed, attempt)
        warn_outside(hierarchy, drawn.problem.algorithm, own=drawn.system.is_own)
        problem = _draw_on(hierarchy, drawn.problem, episode_seed, attempt, choice=True)
        if has_choice(hierarchy.cardinalities, problem.axes):
            break
    return problem


def stated_problem(problem: PlacementProblem, log_sd: float, episode_seed: int) -> PlacementProblem:
    """Return a problem as agents are told it, with errors in the bandwidth and latency of every level.

    Args:
        problem: The true problem.
        log_sd: Standard deviation of the log of each stated value over the true one.
        episode_seed: Seed of the episode.
    """
    if log_sd == 0.0:
        return problem
    rng = _generator("stated", episode_seed, 0)
    levels = problem.hierarchy.levels
    factors = np.exp(log_sd * rng.standard_normal((len(levels), 2)))
    stated = tuple(
        dataclasses.replace(
            level,
            bandwidth_bytes_per_s=level.bandwidth_bytes_per_s * bandwidth,
            latency_s=level.latency_s * latency,
        )
        for level, (bandwidth, latency) in zip(levels, factors.tolist(), strict=True)
    )
    return dataclasses.replace(problem, hierarchy=dataclasses.replace(problem.hierarchy, levels=stated))


def has_choice(cardinalities: Sequence[int], axes: Sequence[int]) -> bool:
    """Return whether there is more than one placement: some prime is in two levels and in two axes.

    Args:
        cardinalities: Cardinality of each level.
        axes: Sizes of the axes; their product is the number of devices.
    """
    primes = {prime for _, prime in prime_steps(axes)}
    return any(
        all(sum(size % prime == 0 for size in sizes) > 1 for sizes in (cardinalities, axes))
        for prime in primes
    )


def draw_program_task(
    scenario: PlacementScenario, split: str, episode_seed: int
) -> tuple[PlacementProblem, Matrix]:
    """Return the problem of a program episode, with one reduction, and the placement it is built for.

    The reduction is the first of the problem and spans ``program_levels_min`` to ``MOST_PROGRAM_LEVELS``
    levels. Drawn parts are drawn again until it does.

    Args:
        scenario: Scenario before draws for the episode.
        split: ``train``, ``validation`` or ``test``.
        episode_seed: Seed of the episode.

    Raises:
        UnknownName: There is no such split.
        ScenarioError: No such reduction was found, the axes do not fit the system, or its file cannot be
            read.
    """
    drawn = scenario.draw(split, episode_seed)
    for attempt in range(_MOST_ATTEMPTS):
        hierarchy = draw_hierarchy(drawn.system, episode_seed, attempt)
        warn_outside(hierarchy, drawn.problem.algorithm, own=drawn.system.is_own)
        whole = _draw_on(hierarchy, drawn.problem, episode_seed, attempt, choice=False)
        problem = PlacementProblem(hierarchy, whole.axes, whole.reductions[:1])
        matrix = _placement(problem, drawn.problem, _generator("placement", episode_seed, attempt))
        if matrix is not None:
            return problem, matrix
    raise ScenarioError(
        f"<{scenario.name}>",
        "problem.program_levels_min",
        drawn.problem.program_levels_min,
        f"a reduction that spans so many levels, and at most {MOST_PROGRAM_LEVELS}, on {hierarchy.name}",
    )


def draw_matrix(
    problem: PlacementProblem,
    rng: np.random.Generator,
    *,
    fewest_levels: int = 0,
    most_levels: int = MOST_PROGRAM_LEVELS,
) -> Matrix | None:
    """Return a uniformly random placement in which every reduction spans a given number of levels.

    Args:
        problem: The problem.
        rng: Generator of the choice.
        fewest_levels: Fewest levels with a factor other than 1 that a reduction may span.
        most_levels: Most such levels.

    Returns:
        A matrix; None if there is no such placement.
    """
    fitting = [
        matrix
        for matrix in enumerate_matrices(problem.hierarchy.cardinalities, problem.axes)
        if all(
            fewest_levels <= len(reduction_factors(matrix, reduction.axes)) <= most_levels
            for reduction in problem.reductions
        )
    ]
    return fitting[int(rng.integers(len(fitting)))] if fitting else None


def draw_hierarchy(system: System, episode_seed: int, attempt: int = 0) -> Hierarchy:
    """Return the accelerators of an episode.

    Args:
        system: System of a drawn scenario.
        episode_seed: Seed of the episode; only drawn systems depend on it.
        attempt: Number of the draw; another number gives another drawn system.

    Raises:
        ScenarioError: A file cannot be read.
        MissingExtra: Reading the file needs an extra that is not installed.
    """
    if system.is_drawn:
        return _drawn_hierarchy(system.drawn, _generator("system", episode_seed, attempt))
    if system.source == "preset":
        assert system.preset is not None
        return get_preset(system.preset, system.nodes)
    if system.source == "astra-sim":
        return read_astra_sim(system.file)
    if system.source == "taccl":
        return read_taccl(system.file, system.nodes)
    return Hierarchy("levels", tuple(Level(**level.model_dump()) for level in system.levels))


def _draw_on(
    hierarchy: Hierarchy, table: ProblemTable, seed: int, attempt: int, *, choice: bool
) -> PlacementProblem:
    axes = table.axes or _drawn_axes(hierarchy, table, _generator("axes", seed, attempt), choice)
    reductions = tuple(Reduction(spec.axes, spec.size_bytes) for spec in table.reductions)
    if not reductions:
        reductions = _drawn_reductions(axes, table, _generator("reductions", seed, attempt))
    return PlacementProblem(hierarchy, axes, reductions)


def _placement(problem: PlacementProblem, table: ProblemTable, rng: np.random.Generator) -> Matrix | None:
    fewest = table.program_levels_min
    if table.placement == "drawn":
        return draw_matrix(problem, rng, fewest_levels=fewest)
    if table.placement == "best":
        model = CostModel(problem.hierarchy, table.algorithm)
        matrix, _ = model.best_placement(problem, table.programs, table.program_steps)
    else:
        matrix = default_matrix(problem.hierarchy.cardinalities, problem.axes)
    spanned = len(reduction_factors(matrix, problem.reductions[0].axes))
    return matrix if fewest <= spanned <= MOST_PROGRAM_LEVELS else None


def _drawn_hierarchy(table: DrawnSystems, rng: np.random.Generator) -> Hierarchy:
    n_levels = int(rng.integers(table.levels_min, table.levels_max + 1))
    sizes = [min(table.cardinalities)] * n_levels
    for _ in range(_MOST_ATTEMPTS):
        drawn = [int(size) for size in rng.choice(table.cardinalities, n_levels)]
        if math.prod(drawn) <= table.devices_max:
            sizes = drawn
            break
    bandwidth = _log_uniform(rng, table.bandwidth_min_bytes_per_s, table.bandwidth_max_bytes_per_s)
    latency = _log_uniform(rng, table.latency_min_s, table.latency_max_s)
    levels: list[Level] = []
    devices = 1
    for index, size in enumerate(sizes):
        if index:
            bandwidth *= _log_uniform(rng, table.bandwidth_ratio_min, 1.0)
            latency *= _log_uniform(rng, 1.0, table.latency_ratio_max)
        shared, ring = rng.random() < table.shared_fraction, rng.random() < table.ring_fraction
        divisors = [number for number in range(1, devices + 1) if devices % number == 0]
        uplinks = int(rng.choice(divisors))
        levels.append(
            Level(
                _LEVEL_NAMES[index],
                size,
                bandwidth,
                latency,
                uplinks=1 if shared else uplinks,
                network="ring" if ring and size > 2 else "switch",
            )
        )
        devices *= size
    return Hierarchy("drawn", tuple(reversed(levels)), ("drawn by the episode's seed",))


def _drawn_axes(
    hierarchy: Hierarchy, table: ProblemTable, rng: np.random.Generator, choice: bool
) -> tuple[int, ...]:
    primes = [prime for _, prime in prime_steps([hierarchy.n_devices])]
    for _ in range(_MOST_ATTEMPTS if choice else 1):
        n_axes = int(rng.integers(table.axes_min, table.axes_max + 1))
        axes = [1] * n_axes
        for index, prime in enumerate(rng.permutation(primes)):
            # Every axis gets a factor before any axis gets a second one.
            axes[index if index < n_axes else int(rng.integers(n_axes))] *= int(prime)
        rng.shuffle(axes)
        if has_choice(hierarchy.cardinalities, axes):
            break
    return tuple(axes)


def _drawn_reductions(
    axes: Sequence[int], table: ProblemTable, rng: np.random.Generator
) -> tuple[Reduction, ...]:
    larger = [axis for axis, size in enumerate(axes) if size > 1] or [0]
    left: list[tuple[int, ...]] = [(axis,) for axis in larger]
    pairs: list[tuple[int, ...]] = list(itertools.combinations(larger, 2)) if len(larger) > 2 else []
    reductions: list[Reduction] = []
    for _ in range(int(rng.integers(table.reductions_min, table.reductions_max + 1))):
        from_pairs = pairs and (rng.random() < table.two_axes_fraction or not left)
        source = pairs if from_pairs else left
        if not source:
            break
        chosen = source.pop(int(rng.integers(len(source))))
        reductions.append(Reduction(chosen, _log_uniform(rng, table.size_min_bytes, table.size_max_bytes)))
    return tuple(reductions)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _generator(part: str, seed: int, attempt: int) -> np.random.Generator:
    digest = hashlib.sha256(f"placement {part} {seed} {attempt}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))
