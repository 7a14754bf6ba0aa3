"""Plan of a benchmark: trainings, and the episodes of every contender, derived from a suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sysgym.bench.contenders import Contender, contender_from, parse_contender
from sysgym.bench.matrix import Matrix, player_name
from sysgym.bench.plugins import Plugin
from sysgym.bench.run.milestones import Milestones
from sysgym.bench.run.training import Training
from sysgym.bench.run.tuning import Tuning
from sysgym.bench.suite_checks import check_suite
from sysgym.errors import SysgymError
from sysgym.scenarios import ContenderSpec, MatrixSpec, Scenario, Suite, TaskSpec, load_scenario


@dataclass(frozen=True)
class Cell:
    """Episode of a plan.

    The checkpoint of one of the suite's trainings is known only after the training has finished; until then,
    the cell names the training.

    Attributes:
        scenario: Scenario.
        split: Split of the seed.
        contender: Contender.
        seed: Episode seed.
        training: Name of the training that makes the checkpoint; None if none is needed.
        tuning: Name of the tuning that chooses the contender's constants; None if they are given.
    """

    scenario: Scenario
    split: str
    contender: Contender
    seed: int
    training: str | None = None
    tuning: str | None = None


@dataclass(frozen=True)
class Extras:
    """Additions to a suite from the command line.

    Attributes:
        scenarios: Names or paths of further scenarios for all contenders of the suite that need no training.
        contenders: Further contenders for every task, in the text form of
            :func:`sysgym.bench.contenders.parse_contender`.
        n_seeds: Number of consecutive seeds of every task, beginning with the task's first seed; None: the
            seeds of the suite.
        trust: Whether checkpoints may run code.
    """

    scenarios: Sequence[str] = ()
    contenders: Sequence[str] = ()
    n_seeds: int | None = None
    trust: bool = False


@dataclass(frozen=True)
class Plan:
    """Trainings and episodes of a benchmark.

    Attributes:
        suite: The suite.
        trainings: Trainings by name.
        cells: Episodes in the order of the suite.
        milestones: Trainings whose checkpoints are compared with heuristics on the validation split.
        matrix: Generalisation matrix; None if the suite has no ``[matrix]``.
        tunings: Tunings of constants by name.
    """

    suite: Suite
    trainings: dict[str, Training]
    cells: list[Cell] = field(default_factory=list)
    milestones: list[Milestones] = field(default_factory=list)
    matrix: Matrix | None = None
    tunings: dict[str, Tuning] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Return the data about the suite that the report needs, as JSON data."""
        return {
            "name": self.suite.name,
            "title": self.suite.title,
            "description": self.suite.description.strip(),
            "metrics": [metric.model_dump() for metric in self.suite.metrics],
            "contenders": list(dict.fromkeys(cell.contender.name for cell in self.cells)),
            "scenarios": {
                cell.scenario.name: {
                    "title": cell.scenario.title,
                    "description": cell.scenario.description.strip(),
                }
                for cell in self.cells
            },
            **({} if self.matrix is None else {"matrix": self.matrix.to_json()}),
        }


def make_plan(
    suite: Suite, folder: Path, extras: Extras | None = None, plugins: Iterable[Plugin] = ()
) -> Plan:
    """Return the plan of a suite.

    Args:
        suite: The suite.
        folder: Results folder, in which trainings are stored too.
        extras: Additions from the command line.
        plugins: The user's loaded files.

    Raises:
        UnknownName: If an added contender or scenario does not exist.
        ScenarioError: If a scenario is invalid, or the suite names contenders or metrics that do not exist.
        SysgymError: If a learned contender has neither training nor checkpoint, or seeds are outside their
            split.
    """
    extras, plugins = extras or Extras(), tuple(plugins)
    check_suite(suite, plugins)
    trainings = {
        training.name: training
        for training in (
            Training.from_spec(spec, load_scenario(spec.scenario), folder, plugins) for spec in suite.training
        )
    }
    worlds = [load_scenario(name) for name in suite.matrix.scenarios] if suite.matrix else []
    plan = Plan(suite, trainings, matrix=Matrix.of(suite.matrix, worlds) if suite.matrix else None)
    for task in suite.tasks:
        scenario = load_scenario(task.scenario)
        contenders = _contenders(task, scenario, extras, plugins, folder)
        seeds = _seeds(scenario, task.split, task.seed_values, extras.n_seeds)
        trained_on = load_scenario(task.trained_on) if task.trained_on else scenario
        tunings = _tunings(task, scenario, task.split, contenders, folder)
        _add(plan, scenario, task.split, contenders, seeds, trained_on, tunings)
    if suite.matrix is not None:
        _add_matrix(plan, suite.matrix, worlds, extras, plugins)
    for name in extras.scenarios:
        _add_scenario(plan, load_scenario(name), extras, plugins, folder)
    if suite.validation_episodes:
        _add_milestones(plan, suite.validation_episodes)
    return plan


def _add_scenario(
    plan: Plan, scenario: Scenario, extras: Extras, plugins: Sequence[Plugin], folder: Path
) -> None:
    """Add a scenario from the command line for the contenders of its family that need no training."""
    tasks = [task for task in plan.suite.tasks if load_scenario(task.scenario).family == scenario.family]
    contenders: dict[str, Contender] = {}
    tunings: dict[str, Tuning] = {}
    for task in tasks:
        found = [
            one.with_shipped(scenario.name) for one in _contenders(task, scenario, extras, plugins, folder)
        ]
        new = {one.name: one for one in found if one.name not in contenders}
        contenders |= {
            name: one for name, one in new.items() if not one.learned or one.checkpoint is not None
        }
        tuned = _tunings(task, scenario, tasks[0].split, found, folder)
        tunings |= {name: tuning for name, tuning in tuned.items() if name in new}
    if not contenders:
        raise SysgymError(
            f'{scenario.name}: the suite "{plan.suite.name}" has no contender for it; expected a scenario of'
            f" {', '.join(_families(plan.suite))}"
        )
    split = tasks[0].split
    count = extras.n_seeds or len(tasks[0].seed_values)
    seeds = _seeds(scenario, split, [scenario.splits[split].first_seed], count)
    _add(plan, scenario, split, list(contenders.values()), seeds, scenario, tunings)


def _families(suite: Suite) -> list[str]:
    return sorted({load_scenario(task.scenario).family for task in suite.tasks})


def _add_matrix(
    plan: Plan, spec: MatrixSpec, worlds: Sequence[Scenario], extras: Extras, plugins: Sequence[Plugin]
) -> None:
    """Add the episodes of every trained policy on every scenario that it can play."""
    assert plan.matrix is not None
    for scenario in worlds:
        seeds = _seeds(
            scenario, spec.split, [scenario.splits[spec.split].first_seed], extras.n_seeds or spec.episodes
        )
        learned = parse_contender(spec.agent, plugins, scenario.family, scenario.env_id)
        for trained_on in worlds:
            if (trained_on.name, scenario.name) in plan.matrix.fits:
                who = replace(learned, name=player_name(spec.agent, trained_on.name))
                plan.cells.extend(
                    Cell(scenario, spec.split, who, seed, training)
                    for training in _trainings_of(plan, trained_on, who)
                    for seed in seeds
                )


def _add_milestones(plan: Plan, count: int) -> None:
    """Add the episodes that show when a training reached the best heuristic of its scenario."""
    for name, training in plan.trainings.items():
        cells = [cell for cell in plan.cells if cell.scenario.sha256() == training.scenario_sha256]
        contenders = {cell.contender.name: cell.contender for cell in cells}
        heuristics = [one for one in contenders.values() if not one.learned and not one.privileged]
        learned = next((cell.contender for cell in plan.cells if cell.training == name), None)
        if heuristics and learned is not None:
            tunings = {cell.contender.name: cell.tuning for cell in cells if cell.tuning is not None}
            scenario = cells[0].scenario
            first = scenario.splits["validation"].first_seed
            seeds = tuple(_seeds(scenario, "validation", [first], count))
            plan.milestones.append(
                Milestones(training, scenario.resolved(), tuple(heuristics), learned, seeds, tunings)
            )


def _contenders(
    task: TaskSpec, scenario: Scenario, extras: Extras, plugins: Sequence[Plugin], folder: Path
) -> list[Contender]:
    family, env_id = scenario.family, scenario.env_id
    named = [
        parse_contender(item, plugins, family, env_id, folder)
        if isinstance(item, str)
        else contender_from(item.name, item.transport, item.agent, plugins, family, item.parameters, env_id)
        for item in task.contenders
    ]
    added = (parse_contender(text, plugins, family, env_id, folder) for text in extras.contenders)
    return [replace(contender, trusted=extras.trust) for contender in (*named, *added)]


def _tunings(
    task: TaskSpec, scenario: Scenario, split: str, contenders: Sequence[Contender], folder: Path
) -> dict[str, Tuning]:
    """Return the tuning of every contender with a grid, by the contender's name.

    Raises:
        SysgymError: If constants would be chosen on the split that is played.
    """
    playing = {contender.name: contender for contender in contenders}
    if task.constants is not None and task.constants.split == split:
        raise SysgymError(
            f"{scenario.name}: constants would be chosen on the split {split}, which is played;"
            " play another split"
        )
    return {
        item.name: Tuning.from_spec(task.constants, item, playing[item.name], scenario, split, folder)
        for item in task.contenders
        if isinstance(item, ContenderSpec) and item.grid and task.constants is not None
    }


def _seeds(scenario: Scenario, split: str, seeds: Sequence[int], count: int | None) -> Sequence[int]:
    if count is not None:
        seeds = range(seeds[0], seeds[0] + count)
    outside = [seed for seed in seeds if seed not in scenario.splits[split]]
    if outside:
        raise SysgymError(
            f"{scenario.name}: seed {outside[0]} is outside the split {split}, "
            f"{list(scenario.splits[split].seeds)}"
        )
    return seeds


def _add(
    plan: Plan,
    scenario: Scenario,
    split: str,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    trained_on: Scenario,
    tunings: Mapping[str, Tuning] | None = None,
) -> None:
    names = [contender.name for contender in contenders]
    for name in names:
        if names.count(name) > 1:
            raise SysgymError(
                f'{scenario.name}: two contenders are named "{name}"; -c NEW_NAME=WHO renames one'
            )
    if any(cell.scenario.name == scenario.name and cell.split == split for cell in plan.cells):
        raise SysgymError(f'{scenario.name}: the scenario is in the suite "{plan.suite.name}" already')
    plan.tunings.update({tuning.name: tuning for tuning in (tunings or {}).values()})
    for contender in contenders:
        trainings = _trainings_of(plan, trained_on, contender)
        ready = contender if trainings else contender.with_shipped(trained_on.name)
        tuning = (tunings or {}).get(contender.name)
        plan.cells.extend(
            Cell(scenario, split, ready, seed, training, tuning.name if tuning else None)
            for training in _or_checkpoint(plan, trained_on, ready, trainings)
            for seed in seeds
        )


def _trainings_of(plan: Plan, scenario: Scenario, contender: Contender) -> list[str]:
    """Return the names of the trainings of the contender's checkpoints, one for each training seed."""
    if not contender.learned or contender.checkpoint is not None:
        return []
    return [
        name
        for name, training in plan.trainings.items()
        if training.agent == contender.agent and training.scenario_sha256 == scenario.sha256()
    ]


def _or_checkpoint(
    plan: Plan, scenario: Scenario, contender: Contender, trainings: Sequence[str]
) -> Sequence[str | None]:
    """Return the trainings, or [None] if none is needed.

    Raises:
        SysgymError: If the contender is learned and has neither a training nor a checkpoint.
    """
    if contender.learned and contender.checkpoint is None and not trainings:
        raise SysgymError(
            f'{scenario.name}: "{contender.name}" is learned, and the suite "{plan.suite.name}" trains no '
            f"{contender.agent} on this scenario; add a [[training]] to it, or write "
            f"{contender.name}@CHECKPOINT"
        )
    return trainings or [None]
