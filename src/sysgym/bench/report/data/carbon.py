"""Energy and carbon in the report: cost of episodes and trainings, and results per gram of CO2e."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sysgym.bench.energy import ASSUMPTIONS, alike_words, measured_alike, total_g
from sysgym.bench.report.data.benchmark import BenchmarkResult, ScenarioResult
from sysgym.bench.results.records import FinishedFields, StartedFields, read_record
from sysgym.bench.run.milestones import Reached, reached
from sysgym.bench.run.training import FINISHED, STARTED, TRAINING_FOLDER
from sysgym.errors import SysgymError
from sysgym.scenarios.family import Metric
from sysgym.scenarios.units import significant

_MASSES = ((1e3, "kg"), (1.0, "g"), (1e-3, "mg"), (1e-6, "µg"))
_ENERGIES = ((1e3, "MWh"), (1.0, "kWh"), (1e-3, "Wh"), (1e-6, "mWh"), (1e-9, "µWh"))


@dataclass(frozen=True)
class Cost:
    """Cost of a training.

    Attributes:
        name: Name of the training.
        steps: Number of environment steps.
        account: Energy record, as in rows; None if energy was not measured, or was measured in different
            ways.
        reached: Effort to reach the best heuristic; None if it was not evaluated.
    """

    name: str
    steps: int
    account: Mapping[str, Any] | None
    reached: Reached | None

    def cells(self, *, measured: bool) -> tuple[str, ...]:
        """Return the row of the table: name, steps, energy, emissions, energy to reach the best heuristic."""
        energy = mass = "–"
        if measured and self.account is not None:
            energy = energy_text(self.account["energy_kwh"])
            mass = mass_text(total_g(self.account))
        return (self.name, f"{self.steps:,}".replace(",", " "), energy, mass, self._to_heuristic(measured))

    def _to_heuristic(self, measured: bool) -> str:
        if self.reached is None:
            return "not evaluated"
        if self.reached.steps is None:
            return f"not reached ({self.reached.heuristic})"
        steps = f"{self.reached.steps:,}".replace(",", " ")
        where = f"{steps} steps ({self.reached.heuristic})"
        if measured and self.reached.energy_kwh is not None:
            return f"{energy_text(self.reached.energy_kwh)}, {where}"
        return where


COST_COLUMNS = ("training", "steps", "energy", "CO2e", "training energy to reach the heuristic baseline")


def costs(folder: Path) -> list[Cost]:
    """Return the costs of the finished trainings in a results folder, sorted by name."""
    found = []
    for path in sorted((folder / TRAINING_FOLDER).glob(f"*/{FINISHED}")):
        if path.parent.name.startswith("aside-"):
            continue
        try:
            done = read_record(FinishedFields, path)
            started = read_record(StartedFields, path.parent / STARTED)
        except SysgymError:
            continue
        found.append(Cost(path.parent.name, started["total_steps"], done.get("energy"), reached(path.parent)))
    return found


def is_measured(benchmark: BenchmarkResult, trainings: list[Cost]) -> bool:
    """Return whether there are energy records and all were measured in the same way."""
    return len(_ways(benchmark, trainings)) == 1


def _ways(benchmark: BenchmarkResult, trainings: list[Cost]) -> dict[tuple[Any, ...], str]:
    accounts = [row.energy for row in benchmark.rows] + [training.account for training in trainings]
    return {measured_alike(one): alike_words(one) for one in accounts if one is not None}


def refusal(benchmark: BenchmarkResult, trainings: list[Cost]) -> str | None:
    """Return the reason for not comparing energy; None if energy is compared or was not measured."""
    ways = _ways(benchmark, trainings)
    if len(ways) < 2:
        return None
    return (
        f"Energy was measured in {len(ways)} ways ({'; '.join(sorted(ways.values()))}), which are not "
        "comparable, so the report shows none. Run the whole benchmark with the same --energy, --grid, --pue "
        "and --watts-per-core."
    )


@dataclass(frozen=True)
class Worth:
    """Result per gram of CO2e, a column of one scenario's table.

    Attributes:
        label: Quantity: the return, or the first suitable metric if not all mean returns are positive.
        values: Contender -> (amount per gram, grams per episode); contenders without energy are omitted.
    """

    label: str
    values: Mapping[str, tuple[float | None, float]]

    def cell(self, player: str) -> tuple[str, str]:
        """Return the amount per gram and the emissions per episode as texts."""
        if player not in self.values:
            return "–", ""
        worth, grams = self.values[player]
        return "–" if worth is None else _with_prefix(worth), f"{mass_text(grams)} per episode"


def worth_of(result: ScenarioResult) -> Worth | None:
    """Return the column of a result; None if no row has energy."""
    grams = {}
    for player in result.players:
        accounts = result.accounts(player.name)
        if accounts:
            # The median, because a process's first episode includes loading the compiled simulator.
            grams[player.name] = float(np.median([total_g(account) for account in accounts]))
    if not grams:
        return None
    returns = {name: result.mean_return(name) for name in grams}
    label, amounts = "return", returns
    if min(returns.values()) <= 0.0:
        metric = _positive_metric(result, list(grams))
        if metric is None:
            return Worth("return", {name: (None, mass) for name, mass in grams.items()})
        label = f"{metric.label}, {result.unit(metric.name).symbol}".rstrip(", ")
        unit = result.unit(metric.name)
        amounts = {name: unit.shown(result.scores[name, metric.name].estimate.value) for name in grams}
    return Worth(
        label, {name: (amounts[name] / mass if mass else None, mass) for name, mass in grams.items()}
    )


def _positive_metric(result: ScenarioResult, names: list[str]) -> Metric | None:
    """Return the first metric in which higher is better and all are positive, as a ratio requires."""
    for metric in result.metrics:
        scores = [result.scores.get((name, metric.name)) for name in names]
        if metric.higher_is_better and all(one is not None and one.estimate.value > 0.0 for one in scores):
            return metric
    return None


def guide(benchmark: BenchmarkResult, trainings: list[Cost]) -> list[str]:
    """Return instructions for reading energy and carbon, as paragraphs; empty without energy."""
    if not is_measured(benchmark, trainings):
        return []
    (words,) = _ways(benchmark, trainings).values()
    return [
        '"per g CO2e" is the mean over episodes divided by the emissions of the median episode, electricity '
        f"and embodied share together. Measured as: {words}. {ASSUMPTIONS} Energy is not part of the "
        "results: it depends on the machine and is not replayed."
    ]


def _with_prefix(value: float) -> str:
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:
            return f"{significant(value / size)} {prefix}"
    return significant(value)


def mass_text(grams: float) -> str:
    """Return a mass as text in suitable units."""
    return _text(grams, _MASSES)


def energy_text(energy_kwh: float) -> str:
    """Return an energy as text in suitable units."""
    return _text(energy_kwh, _ENERGIES)


def _text(value: float, units: tuple[tuple[float, str], ...]) -> str:
    size, symbol = next((unit for unit in units if value >= 0.9995 * unit[0]), units[-1])
    return f"{significant(value / size)} {symbol}"
