"""Benchmark suites: agents to train, tasks with contenders and seeds, and metrics."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, Tag

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.names import FILE_NAME, NAME
from sysgym.scenarios.schema.problems import BY_TYPE
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.splits import LARGEST_SEED
from sysgym.scenarios.schema.tables import FromList, Prose, ScalarMembers, ScalarValue, Table
from sysgym.scenarios.texts import LINE

MOST_SEEDS = 10_000

MOST_ENTRIES = 1_000
"""Largest number of tasks or trainings of a suite, each of which reads a scenario; the package has 14."""

MOST_GRID_VALUES, MOST_GRID_POINTS = 50, 500
"""Largest number of values of a constant in a contender's grid, and of their combinations."""

MOST_MATRIX_SCENARIOS, MOST_MATRIX_SEEDS = 32, 100
"""Largest number of scenarios or trainings of a matrix, in which every training plays every scenario."""

Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
ContenderName = Annotated[str, Field(pattern=NAME)]


class SeedRange(Table):
    """Consecutive seeds."""

    first: Seed = Field(description="first seed")
    count: Annotated[int, Field(ge=1, le=MOST_SEEDS)] = Field(description="number of seeds")

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the last seed is a seed."""
        if self.first + self.count - 1 > LARGEST_SEED:
            yield Problem("count", self.count, f"seeds up to {LARGEST_SEED}")


GridValues = Annotated[tuple[ScalarValue, ...], FromList, Field(min_length=1, max_length=MOST_GRID_VALUES)]


class ContenderSpec(Table):
    """Explicit contender: an agent and, in networks, a transport."""

    name: ContenderName = Field(description="name in the report")
    transport: str = Field(
        default="", description="congestion control law of the senders; omitted if there is no network"
    )
    agent: str = Field(min_length=1, description="agent that decides; max leaves a transport uncapped")
    parameters: dict[str, ScalarMembers] = Field(
        default_factory=dict,
        description=("constants of the transport and arguments of the agent that differ from the defaults"),
    )
    grid: dict[str, GridValues] = Field(
        default_factory=dict,
        description=(
            "constants chosen before the test, each with its candidate values; every combination plays the"
            " episodes of the task's `constants`, and the best one plays the test"
        ),
    )

    @property
    def points(self) -> tuple[dict[str, ScalarMembers], ...]:
        """Return every combination of the grid's values, with the parameters; one without a grid."""
        return tuple(
            {**self.parameters, **dict(zip(self.grid, values, strict=True))}
            for values in itertools.product(*self.grid.values())
        )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that no constant is both given and chosen, and that combinations are few enough."""
        for name in self.grid.keys() & self.parameters.keys():
            yield Problem(f"grid.{name}", list(self.grid[name]), "a constant that is not in parameters too")
        n_points = math.prod(len(values) for values in self.grid.values())
        if n_points > MOST_GRID_POINTS:
            yield Problem("grid", n_points, f"at most {MOST_GRID_POINTS} combinations")


Contender = Annotated[
    Annotated[ContenderName, Tag("a text in quotes")] | Annotated[ContenderSpec, Tag("a table")], BY_TYPE
]

HyperParameter = Annotated[
    ScalarMembers | Annotated[tuple[ScalarValue, ...], FromList, Tag("a list")],
    BY_TYPE,
]


def _repeated(values: Iterable[object]) -> list[str]:
    return [str(value) for value, count in Counter(values).items() if count > 1]


class TrainingSpec(Table):
    """Agent to train before the benchmark, on the train split of a scenario."""

    agent: str = Field(min_length=1, description="learning agent, such as ppo")
    scenario: str = Field(min_length=1, description="name of a scenario, or path relative to this file")
    total_steps: Annotated[int, Field(ge=1, le=10**12)] = Field(
        description="number of environment steps of the training"
    )
    seed: Seed = Field(
        default=0, description="seed of the training run; seeds = [1, 2, 3] stands for three entries"
    )
    n_envs: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="number of parallel environments"
    )
    action_scale: Literal["log", "linear"] = Field(
        default="log", description="mapping from the policy's output to a rate"
    )
    hyper_parameters: dict[str, HyperParameter] = Field(
        default_factory=dict, description="arguments of the learning algorithm"
    )

    def problems_with(self, scenario: Scenario) -> Iterator[Problem]:
        """Yield the conflicts with the scenario, of which a training has none."""
        yield from ()


class TuningSpec(Table):
    """Choice of the constants of contenders with a grid, on other episodes than the task's."""

    split: Literal["train", "validation"] = Field(
        default="validation", description="split of the episodes, which start at its first seed"
    )
    episodes: Annotated[int, Field(ge=1, le=MOST_SEEDS)] = Field(
        default=20, description="number of episodes that every combination plays"
    )
    score: str = Field(
        default="return",
        min_length=1,
        description="quantity whose mean decides: return, or a key in episode_metrics",
    )
    direction: Literal["higher", "lower"] = Field(default="higher", description="better direction")


class TaskSpec(Table):
    """Task of a benchmark: a scenario with its contenders and seeds."""

    scenario: str = Field(min_length=1, description="name of a scenario, or path relative to this file")
    split: Literal["train", "validation", "test"] = Field(default="test", description="split of the seeds")
    contenders: Annotated[tuple[Contender, ...], FromList, Field(min_length=1, max_length=MOST_ENTRIES)] = (
        Field(description="names, or tables of name, transport and agent")
    )
    seeds: Annotated[
        Annotated[SeedRange, Tag("a table")]
        | Annotated[tuple[Seed, ...], FromList, Field(min_length=1, max_length=MOST_SEEDS), Tag("a list")],
        BY_TYPE,
    ] = Field(description="episode seeds: a list, or { first, count }")
    trained_on: str | None = Field(
        default=None,
        description="scenario on which the learned contenders were trained; absent: the scenario of the task",
    )
    constants: TuningSpec | None = Field(
        default=None, description="choice of the constants of contenders with a grid, before the test"
    )

    @property
    def seed_values(self) -> tuple[int, ...]:
        """Return all seeds, in order."""
        if isinstance(self.seeds, SeedRange):
            return tuple(range(self.seeds.first, self.seeds.first + self.seeds.count))
        return self.seeds

    @property
    def contender_names(self) -> tuple[str, ...]:
        """Return the names of the contenders, in order."""
        return tuple(item if isinstance(item, str) else item.name for item in self.contenders)

    def cross_checks(self) -> Iterator[Problem]:
        """Check that no name occurs twice."""
        named: tuple[tuple[str, tuple[object, ...]], ...] = (
            ("contenders", self.contender_names),
            ("seeds", self.seed_values),
        )
        for key, values in named:
            if twice := _repeated(values):
                yield Problem(key, list(values), f"each one once; more than once: {', '.join(twice)}")
        tuned = [item.name for item in self.contenders if isinstance(item, ContenderSpec) and item.grid]
        if tuned and self.constants is None:
            yield Problem(
                "constants", None, f"a table that defines how {', '.join(tuned)} choose their constants"
            )
        if self.constants is not None and not tuned:
            yield Problem(
                "contenders", list(self.contender_names), "one with a grid, as the task chooses constants"
            )
        if self.constants is not None and self.constants.split == self.split:
            yield Problem("constants.split", self.split, "a split other than that of the task")

    def problems_with(self, scenario: Scenario) -> Iterator[Problem]:
        """Yield the conflicts with the scenario: seeds outside the split."""
        if self.constants is not None:
            known = scenario.splits[self.constants.split]
            n_seeds = known.seeds[1] - known.first_seed + 1
            if self.constants.episodes > n_seeds:
                expected = f"at most {n_seeds} episodes, as the split {self.constants.split} has"
                yield Problem("constants", f"episodes = {self.constants.episodes}", expected)
        split = scenario.splits[self.split]
        outside = [seed for seed in self.seed_values if seed not in split]
        if outside:
            yield Problem(
                "seeds", outside, f"seeds of the split {self.split} of {scenario.name}: {list(split.seeds)}"
            )


class MatrixSpec(Table):
    """Matrix of an agent trained on each of some scenarios, where each policy is tested on all of them."""

    agent: str = Field(min_length=1, description="learning agent, such as ppo or neural")
    scenarios: Annotated[tuple[str, ...], FromList, Field(min_length=2, max_length=MOST_MATRIX_SCENARIOS)] = (
        Field(description="scenarios for training and testing: names, or paths relative to this file")
    )
    total_steps: Annotated[int, Field(ge=1, le=10**12)] = Field(
        description="number of environment steps of a training"
    )
    seeds: Annotated[tuple[Seed, ...], FromList, Field(min_length=1, max_length=MOST_MATRIX_SEEDS)] = Field(
        default=(1,), description="seeds of the trainings, one run each"
    )
    n_envs: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="number of parallel environments"
    )
    action_scale: Literal["log", "linear"] = Field(
        default="log", description="mapping from the policy's output to a rate"
    )
    hyper_parameters: dict[str, HyperParameter] = Field(
        default_factory=dict, description="arguments of the learning algorithm"
    )
    split: Literal["train", "validation", "test"] = Field(default="test", description="split of the tests")
    episodes: Annotated[int, Field(ge=1, le=MOST_SEEDS)] = Field(
        default=10, description="number of episodes of every test, from the first seed of the split on"
    )
    floor: ContenderName = Field(default="dctcp", description="contender whose score is 0")
    bound: ContenderName = Field(default="oracle", description="contender whose score is 1")
    rules: Annotated[tuple[Contender, ...], FromList, Field(max_length=MOST_ENTRIES)] = Field(
        default=(), description="other contenders, tested on all scenarios, in rows below the agent"
    )
    score: str = Field(
        default="return", min_length=1, description="quantity to compare: return, or a key in episode_metrics"
    )

    @property
    def rule_names(self) -> tuple[str, ...]:
        """Return the names of the rules, in order."""
        return tuple(item if isinstance(item, str) else item.name for item in self.rules)

    def cross_checks(self) -> Iterator[Problem]:
        """Check that no name occurs twice."""
        contenders = (self.floor, self.bound, *self.rule_names)
        if self.floor != self.bound and (twice := _repeated(contenders)):
            yield Problem("rules", list(self.rule_names), f"other names than {', '.join(twice)}, once each")
        for key, values in (("scenarios", self.scenarios), ("seeds", self.seeds)):
            if twice := _repeated(values):
                yield Problem(key, list(values), f"each one once; more than once: {', '.join(twice)}")
        if self.floor == self.bound:
            yield Problem("bound", self.bound, "another contender than floor")


class MetricSpec(Table):
    """Column of the report."""

    name: str = Field(min_length=1, description="key in episode_metrics; omitted for scenarios without it")
    direction: Literal["higher", "lower"] = Field(description="better direction")
    label: str = Field(min_length=1, pattern=LINE, description="name in the report")


class Suite(Table):
    """Benchmark suite."""

    schema_version: Annotated[int, Field(ge=1, le=1)] = Field(
        alias="schema", description="version of this file format: 1"
    )
    name: str = Field(pattern=FILE_NAME, description="name of the suite: the file's name without .toml")
    title: str = Field(
        min_length=1, max_length=100, pattern=LINE, description="one line for lists and the report"
    )
    description: Prose = Field(min_length=1, description="purpose of the suite, in a few sentences")
    training: Annotated[tuple[TrainingSpec, ...], FromList, Field(max_length=MOST_ENTRIES)] = Field(
        default=(), description="agents to train first, [[training]]"
    )
    survey: str | None = Field(
        default=None,
        description="tables about the problem itself, written in addition to the results, such as p2",
    )
    validation_episodes: Annotated[int, Field(ge=0, le=MOST_SEEDS)] = Field(
        default=0,
        description=(
            "number of validation episodes that every checkpoint of a training and the heuristics of its"
            " scenario play, to determine the energy needed to reach the best heuristic; 0: none"
        ),
    )
    tasks: Annotated[tuple[TaskSpec, ...], FromList, Field(min_length=1, max_length=MOST_ENTRIES)] = Field(
        description="tasks of the benchmark, [[tasks]]"
    )
    matrix: MatrixSpec | None = Field(
        default=None, description="agent that is trained on each scenario and tested on all, [matrix]"
    )
    metrics: Annotated[tuple[MetricSpec, ...], FromList, Field(max_length=MOST_ENTRIES)] = Field(
        default=(),
        description=(
            "columns of the report, [[metrics]], the most important one first; absent: the metrics of each"
            " task's family"
        ),
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that nothing occurs twice."""
        keyed: tuple[tuple[str, list[tuple[object, ...]]], ...] = (
            ("training", [(entry.agent, entry.scenario, entry.seed) for entry in self.training]),
            ("tasks", [(task.scenario, task.split) for task in self.tasks]),
            ("metrics", [(metric.name,) for metric in self.metrics]),
        )
        for key, identities in keyed:
            earlier: set[tuple[object, ...]] = set()
            for index, identity in enumerate(identities):
                if identity in earlier:
                    yield Problem(
                        f"{key}[{index}]", " ".join(map(str, identity)), "an entry that stands there once"
                    )
                earlier.add(identity)


def with_entry_for_each_seed(data: dict[str, Any]) -> None:
    """Replace a ``[[training]]`` with ``seeds`` by one entry with ``seed`` for each of them.

    Malformed entries are left unchanged; the schema reports their problems.

    Args:
        data: Tables of the suite; changed in place.
    """
    entries = data.get("training")
    if not isinstance(entries, list):
        return
    spelled_out: list[Any] = []
    for entry in entries:
        seeds = entry.get("seeds") if isinstance(entry, dict) and "seed" not in entry else None
        if not isinstance(seeds, list) or not 0 < len(seeds) <= MOST_ENTRIES:
            spelled_out.append(entry)
            continue
        rest = {key: value for key, value in entry.items() if key != "seeds"}
        spelled_out += [{**rest, "seed": seed} for seed in seeds]
    data["training"] = spelled_out


def with_matrix_entries(data: dict[str, Any], first_seed: Callable[[str, str], int | None]) -> None:
    """Expand a suite's ``[matrix]`` into entries of its ``training`` and ``tasks``.

    Malformed entries are left unchanged; the schema reports their problems.

    Args:
        data: Tables of the suite; changed in place.
        first_seed: Function from scenario and split to the first seed; None if there is no such scenario.
    """
    matrix = data.get("matrix")
    if not isinstance(matrix, dict) or not isinstance(matrix.get("scenarios"), list):
        return
    defaults = {name: field.default for name, field in MatrixSpec.model_fields.items()}
    given = defaults | matrix
    seeds = given["seeds"] if isinstance(given["seeds"], list | tuple) else []
    shared = ("agent", "total_steps", "n_envs", "action_scale", "hyper_parameters")
    trainings, tasks = data.setdefault("training", []), data.setdefault("tasks", [])
    if not isinstance(trainings, list) or not isinstance(tasks, list):
        return
    rules = given["rules"] if isinstance(given["rules"], list | tuple) else []
    if len(given["scenarios"]) > MOST_MATRIX_SCENARIOS or len(seeds) > MOST_MATRIX_SEEDS:
        return
    for scenario in given["scenarios"]:
        first = first_seed(scenario, given["split"]) if isinstance(scenario, str) else None
        trainings += [
            {"scenario": scenario, "seed": seed, **{key: matrix[key] for key in shared if key in matrix}}
            for seed in seeds
        ]
        tasks.append(
            {
                "scenario": scenario,
                "split": given["split"],
                "contenders": [given["floor"], given["bound"], *rules],
                "seeds": {"first": first or 0, "count": given["episodes"]},
            }
        )
