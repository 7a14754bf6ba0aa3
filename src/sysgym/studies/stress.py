"""Study of stress: contenders under measurement noise, delayed decisions, and disturbances of their family.

Every contender runs the same episodes under every condition, so that the effect of a condition is compared
episode by episode. A classical law with the agent ``max`` reads no observation and makes no decisions: noise
and delay do not affect it, and it serves as a comparison. Privileged agents read the state without noise.
A family declares its own disturbances, such as missing counters or a system other than the one stated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from sysgym.bench.contenders import Contender
from sysgym.bench.results.row_format import Name
from sysgym.bench.results.versions import must_match, versions
from sysgym.bench.run.episodes import make_contender, play
from sysgym.bench.statistics import FloatArray, Interval, estimate, mean, paired_difference
from sysgym.bench.tables import Table, interval_text
from sysgym.envs.wrappers import DelayedAction, NoisyObservation
from sysgym.errors import SysgymError, UnknownName
from sysgym.scenarios import Scenario, scenario_from_resolved
from sysgym.scenarios.families import evaluation_of, get_family
from sysgym.scenarios.family import Disturbance, Metric, load_entry
from sysgym.scenarios.units import unit_of
from sysgym.studies.kept_rows import KeptRow

FORMAT = 1
ROWS = "stress.jsonl"

FAILS_AT, WORKS_AT = 0.2, 0.6
"""Beginning and end of a link failure, as shares of the episode."""

NOISES, DELAYS = (0.05, 0.2), (1, 4)
"""Default conditions: relative noise of observations, and delays of decisions."""


@dataclass(frozen=True)
class Condition:
    """Condition of the study.

    Attributes:
        noise: Relative standard deviation of the noise in observations.
        delay: Number of decisions until an action takes effect.
        fail_link: Name of a link that is down between FAILS_AT and WORKS_AT of the episode; empty: none.
        kernel: Whether to run on the Linux kernel.
        disturbance: Name of one of the family's own disturbances; empty: none.
        strength: Strength of this disturbance.
    """

    noise: float = 0.0
    delay: int = 0
    fail_link: str = ""
    kernel: bool = False
    disturbance: str = ""
    strength: float = 0.0

    @property
    def label(self) -> str:
        """Name of the condition; tables describe a family's own disturbance in words."""
        words = []
        if self.noise:
            words.append(f"noise {100.0 * self.noise:g} %")
        if self.delay:
            words.append(f"{self.delay} decision{'s' if self.delay > 1 else ''} late")
        if self.fail_link:
            words.append(f"{self.fail_link} fails")
        if self.kernel:
            words.append("Linux kernel")
        if self.disturbance:
            words.append(f"{self.disturbance} {self.strength:g}")
        return ", ".join(words) or "undisturbed"

    def check(self, scenario: Scenario) -> None:
        """Raise SysgymError unless the scenario supports the condition."""
        if not 0.0 <= self.noise < float("inf") or self.delay < 0:
            raise SysgymError(f"noise and delay cannot be negative: got {self.noise:g} and {self.delay}")
        family, can = scenario.family, get_family(scenario.family).disturbances
        if self.noise and not can.noise:
            raise SysgymError(
                f"{scenario.name}: observations of the family {family} are not measured and have no noise"
            )
        for name, wanted, possible in (
            ("late actions", self.delay, can.late_actions),
            ("failed links", self.fail_link, can.link_failure),
            ("kernel", self.kernel, can.kernel_backend),
        ):
            if wanted and not possible:
                raise SysgymError(f"{scenario.name}: {name} are not supported by the family {family}")
        if self.own(scenario) is not None and not math.isfinite(self.strength):
            raise SysgymError(f"--disturb {self.disturbance}: expected a finite strength")
        self.scenario(scenario)

    def own(self, scenario: Scenario) -> Disturbance | None:
        """Return the family's own disturbance; None if the condition has none.

        Raises:
            UnknownName: The scenario's environment has no such disturbance.
        """
        return own_disturbance(scenario, self.disturbance) if self.disturbance else None

    def scenario(self, scenario: Scenario) -> Scenario:
        """Return the scenario under the condition: with an added link failure, or with other values."""
        if self.fail_link:
            with_failure = load_entry(get_family(scenario.family).disturbances.link_failure)
            scenario = with_failure(scenario, self.fail_link, FAILS_AT, WORKS_AT)
        own = self.own(scenario)
        return scenario if own is None else own.applied(scenario, self.strength)

    def wrapped(self, env: Any, scenario: Scenario) -> Any:
        """Return the environment with the wrappers of the condition."""
        can, own = get_family(scenario.family).disturbances, self.own(scenario)
        if own is not None:
            env = own.wrapped(env, self.strength)
        if self.delay:
            env = DelayedAction(env, self.delay)
        return NoisyObservation(env, self.noise, can.noise_keys) if self.noise else env


def own_disturbance(scenario: Scenario, name: str) -> Disturbance:
    """Return one of the own disturbances of a scenario's family.

    Raises:
        UnknownName: The scenario's environment has no such disturbance.
    """
    known = get_family(scenario.family).disturbances.of(scenario.env_id)
    if name not in known:
        raise UnknownName(f"disturbance of {scenario.env_id}", name, known)
    return known[name]


def default_conditions(scenario: Scenario) -> list[Condition]:
    """Return the default conditions of a scenario."""
    can = get_family(scenario.family).disturbances
    found = [Condition(noise=level) for level in NOISES if can.noise]
    found += [Condition(delay=level) for level in DELAYS if can.late_actions]
    for one in can.of(scenario.env_id).values():
        found += [Condition(disturbance=one.name, strength=level) for level in one.levels]
    return found


@dataclass(frozen=True)
class StressJob:
    """Job of one episode.

    Attributes:
        scenario: Resolved scenario, without the condition.
        scenario_sha256: Digest of the scenario.
        split: Split of the seed.
        contender: Contender.
        condition: Condition.
        seed: Episode seed.
    """

    scenario: Mapping[str, Any]
    scenario_sha256: str
    split: str
    contender: Contender
    condition: Condition
    seed: int

    @property
    def label(self) -> str:
        """Name of the episode in messages."""
        return f"{self.contender.name}, {self.condition.label}, seed {self.seed}"

    @property
    def key(self) -> str:
        """Key that identifies the row of this episode."""
        condition = asdict(self.condition)
        parts = (self.scenario_sha256, self.split, self.contender.identity, condition, self.seed)
        return json.dumps([*parts, *must_match(versions())], sort_keys=True)

    def run(self, report: Callable[[Any], None]) -> dict[str, Any]:
        """Run the episode and return its row."""
        scenario = scenario_from_resolved(self.scenario)
        disturbed = self.condition.scenario(scenario).resolved()
        can = get_family(scenario.family).disturbances
        backend = can.kernel_backend if self.condition.kernel else None
        env, agent = make_contender(disturbed, self.split, self.contender, backend=backend)
        try:
            env = self.condition.wrapped(env, scenario)
            played = play(env, agent, self.seed)
        finally:
            env.close()
        return {
            "format": FORMAT,
            "scenario": self.scenario["name"],
            "scenario_sha256": self.scenario_sha256,
            "split": self.split,
            "contender": self.contender.to_json(),
            "condition": asdict(self.condition),
            "seed": self.seed,
            "return": played.total_reward,
            "metrics": {name: float(value) for name, value in played.info["episode_metrics"].items()},
            "versions": versions(learned=self.contender.learned),
        }


class _RowFields(KeptRow):
    """Line of the file of rows."""

    total_reward: float = Field(alias="return")
    metrics: dict[Name, float]


@dataclass(frozen=True)
class Stress:
    """Settings of the study.

    Attributes:
        scenario: The scenario.
        split: Split of the episodes.
        n_seeds: Number of episodes for each contender and condition, beginning with the split's first seed.
        contenders: Contenders.
        conditions: Conditions, the undisturbed one first.
    """

    rows_file: ClassVar[str] = ROWS
    row_fields: ClassVar[type[KeptRow]] = _RowFields

    scenario: Scenario
    split: str
    n_seeds: int
    contenders: Sequence[Contender]
    conditions: Sequence[Condition]

    def __post_init__(self) -> None:
        """Raise SysgymError unless all episodes can be run."""
        first, last = self.scenario.splits[self.split].seeds
        if not 1 <= self.n_seeds <= last - first + 1:
            raise SysgymError(
                f"--seeds: got {self.n_seeds}, but the split {self.split} has only {last - first + 1} seeds"
            )
        for condition in self.conditions:
            condition.check(self.scenario)

    @property
    def one_at_a_time(self) -> bool:
        """Whether there are episodes on the kernel, which run in wall time."""
        return any(condition.kernel for condition in self.conditions)

    def jobs(self) -> list[StressJob]:
        """Return the jobs of all episodes, seed by seed."""
        first, _ = self.scenario.splits[self.split].seeds
        resolved, digest = self.scenario.resolved(), self.scenario.sha256()
        return [
            StressJob(resolved, digest, self.split, contender, condition, seed)
            for seed in range(first, first + self.n_seeds)
            for contender in self.contenders
            for condition in self.conditions
        ]


RETURN = Metric("return", "Return", True)


class Sweep(NamedTuple):
    """Strengths of one kind of disturbance.

    Attributes:
        name: Name for messages.
        axis: Meaning of the strengths, with their unit.
        strengths: Strengths in ascending order, including the one without effect.
        places: Index of the condition of each strength.
    """

    name: str
    axis: str
    strengths: tuple[float, ...]
    places: tuple[int, ...]


def sweeps(stress: Stress) -> Iterator[Sweep]:
    """Yield the strengths of every kind of disturbance in a study; combined conditions are not included."""
    kinds: dict[str, list[tuple[float, int]]] = {}
    axes: dict[str, tuple[str, float]] = {}
    for place, condition in enumerate(stress.conditions):
        if condition == Condition(noise=condition.noise):
            name, strength, axis = "noise", condition.noise, ("noise of observations (relative)", 0.0)
        elif condition == Condition(delay=condition.delay):
            name, strength, axis = "delay", float(condition.delay), ("delay of actions (decisions)", 0.0)
        elif condition == Condition(disturbance=condition.disturbance, strength=condition.strength):
            own = condition.own(stress.scenario)
            assert own is not None
            name, strength = own.name, condition.strength
            axis = own.strength, own.undisturbed(stress.scenario)
        else:
            continue
        if condition != Condition():
            kinds.setdefault(name, []).append((strength, place))
            axes[name] = axis
    for name, found in kinds.items():
        axis_label, none = axes[name]
        clean = [(none, 0)] if none not in (strength for strength, _ in found) else []
        strengths, places = zip(*sorted([*clean, *found]), strict=True)
        yield Sweep(name, axis_label, strengths, places)


class Values:
    """Returns and metrics of a study, with intervals over seeds.

    Args:
        stress: Settings of the study.
        rows: Rows from :func:`~sysgym.studies.kept_rows.run_kept`.

    Attributes:
        metrics: Metrics of the environment that all rows have.
        headline: Metric that is compared over strengths: the environment's headline, or the return.
    """

    def __init__(self, stress: Stress, rows: Sequence[Mapping[str, Any]]) -> None:
        """Collect the values."""
        shape = (stress.n_seeds, len(stress.contenders), len(stress.conditions))
        scenario = stress.scenario
        evaluation = evaluation_of(scenario.family, scenario.env_id)
        self.metrics = [
            metric for metric in evaluation.metrics if all(metric.name in row["metrics"] for row in rows)
        ]
        self.headline = next((one for one in self.metrics if one == evaluation.headline), RETURN)
        self._values = {
            RETURN.name: np.array([row["return"] for row in rows]).reshape(shape),
            **{
                metric.name: np.array([row["metrics"][metric.name] for row in rows]).reshape(shape)
                for metric in self.metrics
            },
        }
        self._units = {name: unit_of(name, found.ravel().tolist()) for name, found in self._values.items()}

    def heading(self, metric: Metric) -> str:
        """Return a metric's label with its unit."""
        symbol = self._units[metric.name].symbol
        return f"{metric.label}, {symbol}" if symbol else metric.label

    def of_episodes(self, metric: Metric, contender: int, condition: int) -> FloatArray:
        """Return the values of a contender's episodes under a condition, in the unit of :meth:`heading`."""
        found: FloatArray = self._values[metric.name][:, contender, condition]
        return found / self._units[metric.name].size

    def mean(self, metric: Metric, contender: int, condition: int) -> Interval:
        """Return the mean of a contender's episodes under a condition, with its interval."""
        return estimate(self.of_episodes(metric, contender, condition)[None], statistic=mean)

    def change(self, metric: Metric, contender: int, condition: int) -> Interval:
        """Return the mean minus the undisturbed mean, paired by episode."""
        own, clean = (self.of_episodes(metric, contender, place)[None] for place in (condition, 0))
        return paired_difference(own, clean, statistic=mean)


def tables(stress: Stress, rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield the tables of a study, with intervals over seeds.

    The first tables, one for each kind of disturbance, have a line for each contender and a column for each
    strength. The other tables, one for each contender, have a line for each condition.

    Args:
        stress: Settings of the study.
        rows: Rows from :func:`~sysgym.studies.kept_rows.run_kept`.
    """
    values = Values(stress, rows)
    for sweep in sweeps(stress):
        lines = []
        for number, contender in enumerate(stress.contenders):
            means = (values.mean(values.headline, number, place) for place in sweep.places)
            lines.append((contender.name, *(interval_text(one, 3) for one in means)))
        strengths = zip(sweep.strengths, sweep.places, strict=True)
        heads = [f">{strength:g}" if place else ">undisturbed" for strength, place in strengths]
        title = f"{values.heading(values.headline)} by {sweep.axis}"
        yield Table(title, ("contender", *heads), tuple(lines))
    heads = [f">{values.heading(metric)}" for metric in values.metrics]
    for number, contender in enumerate(stress.contenders):
        lines = []
        for place, condition in enumerate(stress.conditions):
            own = condition.own(stress.scenario)
            lines.append(
                (
                    condition.label if own is None else own.label(condition.strength),
                    interval_text(values.mean(RETURN, number, place), 4),
                    _change(values.change(RETURN, number, place)) if place else "",
                    *(interval_text(values.mean(metric, number, place), 3) for metric in values.metrics),
                )
            )
        yield Table(contender.name, ("condition", ">return", ">change", *heads), tuple(lines))


def _change(change: Interval) -> str:
    return "0" if change.low == change.high == 0.0 else interval_text(change, 2)


def markdown(stress: Stress, found: Sequence[Table]) -> str:
    """Return the report as Markdown."""
    parts = [f"# {stress.scenario.title}: contenders under stress"]
    parts.append(
        f"Scenario `{stress.scenario.name}`, split {stress.split}, {stress.n_seeds} episodes each, the same"
        " for all. Intervals: 95 %, bootstrap over episodes; the change is paired by episode."
    )
    parts += [one.markdown() for one in found]
    return "\n\n".join(parts) + "\n"
