"""Study of stress: contenders under measurement noise, delayed decisions and a failed link.

Every contender runs the same episodes under every condition, so that the effect of a condition is compared
episode by episode. A classical law with the agent ``max`` reads no observation and makes no decisions: noise
and delay do not affect it, and it serves as a comparison. Privileged agents read the state without noise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from sysgym.bench.contenders import Contender, PluginFile
from sysgym.bench.results.row_format import Name
from sysgym.bench.results.versions import must_match, versions
from sysgym.bench.run.episodes import make_contender, play
from sysgym.bench.statistics import FloatArray, Interval, estimate, mean, paired_difference
from sysgym.bench.tables import Table, interval_text
from sysgym.envs.wrappers import DelayedAction, NoisyObservation
from sysgym.errors import SysgymError
from sysgym.scenarios import Scenario, scenario_from_resolved
from sysgym.scenarios.families import evaluation_of, get_family
from sysgym.scenarios.family import load_entry
from sysgym.scenarios.units import unit_of
from sysgym.studies.kept_rows import KeptRow, run_kept

FORMAT = 1
ROWS = "stress.jsonl"

FAILS_AT, WORKS_AT = 0.2, 0.6
"""Beginning and end of a link failure, as shares of the episode."""


@dataclass(frozen=True)
class Condition:
    """Condition of the study.

    Attributes:
        noise: Relative standard deviation of the noise in observations.
        delay: Number of decisions until an action takes effect.
        fail_link: Name of a link that is down between FAILS_AT and WORKS_AT of the episode; empty: none.
        kernel: Whether to run on the Linux kernel.
    """

    noise: float = 0.0
    delay: int = 0
    fail_link: str = ""
    kernel: bool = False

    @property
    def label(self) -> str:
        """Name of the condition in tables."""
        words = []
        if self.noise:
            words.append(f"noise {100.0 * self.noise:g} %")
        if self.delay:
            words.append(f"{self.delay} decision{'s' if self.delay > 1 else ''} late")
        if self.fail_link:
            words.append(f"{self.fail_link} fails")
        if self.kernel:
            words.append("Linux kernel")
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
        self.scenario(scenario)

    def scenario(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the link failure added to its own."""
        if not self.fail_link:
            return scenario
        with_failure = load_entry(get_family(scenario.family).disturbances.link_failure)
        failing: Scenario = with_failure(scenario, self.fail_link, FAILS_AT, WORKS_AT)
        return failing


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
        """Key by which a row is recognised as one of this episode."""
        condition = asdict(self.condition)
        parts = (self.scenario_sha256, self.split, self.contender.identity, condition, self.seed)
        return json.dumps([*parts, *must_match(versions())], sort_keys=True)

    def run(self, report: Callable[[Any], None]) -> dict[str, Any]:
        """Run the episode and return its row."""
        resolved = self.condition.scenario(scenario_from_resolved(self.scenario)).resolved()
        can = get_family(resolved["family"]).disturbances
        backend = can.kernel_backend if self.condition.kernel else None
        made, agent = make_contender(resolved, self.split, self.contender, backend=backend)
        env: Any = made
        try:
            if self.condition.delay:
                env = DelayedAction(env, self.condition.delay)
            if self.condition.noise:
                env = NoisyObservation(env, self.condition.noise, can.noise_keys)
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

    def jobs(self) -> list[StressJob]:
        """Return the episodes, seed by seed."""
        first, _ = self.scenario.splits[self.split].seeds
        resolved, digest = self.scenario.resolved(), self.scenario.sha256()
        return [
            StressJob(resolved, digest, self.split, contender, condition, seed)
            for seed in range(first, first + self.n_seeds)
            for contender in self.contenders
            for condition in self.conditions
        ]


def run_stress(
    stress: Stress,
    folder: Path,
    *,
    n_workers: int,
    plugins: Sequence[PluginFile] = (),
    tell: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run all episodes that are not in the folder yet.

    Args:
        stress: Settings of the study.
        folder: Folder of the rows.
        n_workers: Number of processes; episodes on the kernel run one at a time.
        plugins: The user's files.
        tell: Callback with the number of finished episodes and of all episodes.

    Returns:
        The rows, in the order of :meth:`Stress.jobs`.

    Raises:
        SysgymError: An episode failed; the rows of the others are kept.
    """
    if any(condition.kernel for condition in stress.conditions):
        n_workers = 1
    return run_kept(stress.jobs(), folder / ROWS, _RowFields, n_workers=n_workers, plugins=plugins, tell=tell)


class _RowFields(KeptRow):
    """Line of the file of rows."""

    total_reward: float = Field(alias="return")
    metrics: dict[Name, float]


def tables(stress: Stress, rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Return a table for each contender: a line for each condition, with intervals over seeds.

    Args:
        stress: Settings of the study.
        rows: Rows from :func:`run_stress`.
    """
    shape = (stress.n_seeds, len(stress.contenders), len(stress.conditions))
    returns = np.array([row["return"] for row in rows]).reshape(shape)
    metrics = [
        metric
        for metric in evaluation_of(stress.scenario.family).metrics
        if all(metric.name in row["metrics"] for row in rows)
    ]
    values = {
        metric.name: np.array([row["metrics"][metric.name] for row in rows]).reshape(shape)
        for metric in metrics
    }
    units = {name: unit_of(name, found.ravel().tolist()) for name, found in values.items()}
    heads = [f">{metric.label}{_in(units[metric.name].symbol)}" for metric in metrics]
    for number, contender in enumerate(stress.contenders):
        lines = []
        for place, condition in enumerate(stress.conditions):
            own, clean = returns[:, number, place], returns[:, number, 0]
            change = paired_difference(own[None], clean[None], statistic=mean)
            lines.append(
                (
                    condition.label,
                    interval_text(_mean(own), 4),
                    _change(change) if place else "",
                    *(
                        interval_text(
                            _mean(values[metric.name][:, number, place] / units[metric.name].size), 3
                        )
                        for metric in metrics
                    ),
                )
            )
        yield Table(contender.name, ("condition", ">return", ">change", *heads), tuple(lines))


def _mean(values: FloatArray) -> Interval:
    return estimate(values[None], statistic=mean)


def _in(symbol: str) -> str:
    return f", {symbol}" if symbol else ""


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
