"""Checks of a suite's agents, transports and metrics, made before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sysgym.bench.contenders import Contender, contender_from, parse_contender
from sysgym.bench.plugins import Plugin
from sysgym.errors import ScenarioError, SysgymError, UnknownName
from sysgym.scenarios import ContenderSpec, Scenario, Suite, load_scenario
from sysgym.scenarios.errors import Problem, closest_names
from sysgym.scenarios.families import evaluation_of

RETURN = "return"
"""Score of a matrix or a tuning that is not a metric: the sum of rewards."""


def check_suite(suite: Suite, plugins: Sequence[Plugin] = ()) -> None:
    """Check that the contenders, metrics and matrix score of a suite exist.

    Args:
        suite: The suite.
        plugins: The user's loaded files.

    Raises:
        ScenarioError: If a name does not exist or a contender is invalid. The error lists all problems, with
            similar names.
    """
    scenarios = [load_scenario(task.scenario) for task in suite.tasks]
    problems = [*_contender_problems(suite, scenarios, plugins), *_metric_problems(suite, scenarios)]
    if problems:
        raise ScenarioError(f'suite "{suite.name}"', problems=problems)


def _contender_problems(
    suite: Suite, scenarios: Sequence[Scenario], plugins: Sequence[Plugin]
) -> Iterator[Problem]:
    for index, (task, scenario) in enumerate(zip(suite.tasks, scenarios, strict=True)):
        for place, item in enumerate(task.contenders):
            key = f"tasks[{index}].contenders[{place}]"
            try:
                if isinstance(item, str):
                    parse_contender(item, plugins, scenario.family, scenario.env_id)
                else:
                    yield from _explicit_problems(key, item, scenario, plugins)
            except UnknownName as error:
                yield Problem(key, error.name, f"a known {error.kind}", _did_you_mean(error.suggestions))
            except SysgymError as error:
                yield Problem(
                    key,
                    item if isinstance(item, str) else item.name,
                    f"a contender of {scenario.name}: {error}",
                )


def _explicit_problems(
    key: str, item: ContenderSpec, scenario: Scenario, plugins: Sequence[Plugin]
) -> Iterator[Problem]:
    """Yield the problems of a contender that the suite describes as a table.

    Raises:
        UnknownName: If a combination of values in the grid contains an unknown name.
        SysgymError: If a value is out of bounds.
    """

    def made(parameters: Mapping[str, Any]) -> Contender:
        names = (item.name, item.transport, item.agent)
        return contender_from(*names, plugins, scenario.family, parameters, scenario.env_id)

    if item.grid and made(item.parameters).learned:
        expected = f"none: {item.agent} is learned and chooses its constants in training"
        yield Problem(f"{key}.grid", ", ".join(item.grid), expected)
        return
    for point in item.points:
        made(point)


def _metric_problems(suite: Suite, scenarios: Sequence[Scenario]) -> Iterator[Problem]:
    known = sorted(
        {
            name
            for scenario in scenarios
            for name in evaluation_of(scenario.family, scenario.env_id).metric_meanings()
        }
    )
    asked = [(f"metrics[{index}].name", metric.name) for index, metric in enumerate(suite.metrics)]
    asked += [
        (f"tasks[{index}].constants.score", task.constants.score)
        for index, task in enumerate(suite.tasks)
        if task.constants is not None and task.constants.score != RETURN
    ]
    if suite.matrix is not None and suite.matrix.score != RETURN:
        asked.append(("matrix.score", suite.matrix.score))
    for key, name in asked:
        if name not in known:
            close = closest_names(name, known, 3)
            expected = "a metric of the suite's scenarios"
            yield Problem(key, name, expected, _did_you_mean(close) or f"the metrics are: {', '.join(known)}")


def _did_you_mean(names: Sequence[str]) -> str:
    quoted = " or ".join(f'"{name}"' for name in names)
    return f"did you mean {quoted}?" if quoted else ""
