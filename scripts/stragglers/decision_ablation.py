"""Rules that decide about second attempts, compared on validation jobs, as a Markdown table.

    python scripts/stragglers/decision_ablation.py google-2011-mitigation

All decisions have the same features, training jobs, limits that are chosen on the same quarter of them,
and validation jobs; no test job is played. A second attempt does not affect the other tasks' durations, so
one run of each job scores all decisions. The score is the return, in which waste has the scenario's price.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from sysgym.agents.learned.stragglers import boosting, transfer
from sysgym.agents.learned.stragglers.examples import Examples, collect, halves
from sysgym.bench.statistics import estimate
from sysgym.scenarios import StragglerScenario, load_scenario

Array = NDArray[np.float64]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario")
    parser.add_argument("--steps", type=int, default=3000, help="checkpoints of training jobs")
    parser.add_argument("--trainings", type=int, default=3, help="trainings of each decision")
    parser.add_argument("--validation-steps", type=int, default=2000, help="checkpoints of validation jobs")
    given = parser.parse_args()
    scenario = load_scenario(given.scenario, expect=StragglerScenario)
    price = scenario.mitigation.waste_price
    others = _in_order(collect(scenario, given.validation_steps, 0, split="validation"))
    judges = []
    for seed in range(1, given.trainings + 1):
        fitted_on, chosen_on = halves(collect(scenario, given.steps, seed), transfer.SHARE_HELD_OUT)
        judges.append(Judge(_in_order(fitted_on), _in_order(chosen_on), others, price, seed))
    print_decisions(judges, others, price)


def print_decisions(judges: Sequence[Judge], others: Examples, price: float) -> None:
    """Print the mean return of every decision over trainings and validation jobs, with its interval."""
    print(f"| return on {len(np.unique(others.job))} validation jobs, nothing is -1 | copy | relaunch |")
    print("| --- | ---: | ---: |")
    for label, decide in (
        ("transfer: probability that it shortens the job, fitted limit", Judge.by_shortening),
        ("probability that it ends sooner, fitted limit", Judge.by_ending_sooner),
        ("that probability times that of a straggler, fitted limit", Judge.by_product),
        ("expected saving exceeds the price of the expected waste", Judge.by_expectation),
        ("the same with a calibrated probability of a saving", Judge.by_calibrated_expectation),
        ("expected saving less waste, fitted limit", Judge.by_fitted_expectation),
        ("every task at the first chance", Judge.always),
    ):
        cells = []
        for action in ("copy", "relaunch"):
            found = [
                transfer.returns_of_jobs(others, decide(judge, action), action, price) for judge in judges
            ]
            value, low, high = estimate(np.array(found))
            cells.append(f"{value:.3f} [{low:.3f}, {high:.3f}]")
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


def _in_order(examples: Examples) -> Examples:
    return examples.where(np.lexsort((examples.checkpoint, examples.task_key)))


class Judge:
    """Models of one training, and decisions about the tasks of validation jobs.

    Args:
        fitted_on: Examples of training jobs to fit to.
        chosen_on: Examples of other training jobs to choose limits on.
        others: Examples of validation jobs.
        price: Price of wasted machine time.
        seed: Seed of the fits.
    """

    def __init__(
        self, fitted_on: Examples, chosen_on: Examples, others: Examples, price: float, seed: int
    ) -> None:
        self.fitted_on, self.parts = fitted_on, (chosen_on, others)
        self.price, self.seed = price, seed
        self._known: dict[str, list[Array]] = {}

    def predicted(
        self, name: str, target: NDArray[np.generic], rows: NDArray[np.bool_] | None = None
    ) -> list[Array]:
        """Return predictions for both parts; each model is fitted once.

        Args:
            name: Name of the target.
            target: Its values for the examples to fit to; true or false are classified.
            rows: Which of these examples are used; None: all.
        """
        if name not in self._known:
            chosen = np.ones(len(target), dtype=np.bool_) if rows is None else rows
            objective = "binary" if target.dtype == np.bool_ else "regression"
            model = boosting.fit(
                self.fitted_on.features[chosen], target[chosen], objective, self.seed, "transfer"
            )
            self._known[name] = [boosting.predict(model, part.features) for part in self.parts]
        return self._known[name]

    def _limited(self, scores: list[Array], action: str) -> NDArray[np.bool_]:
        """Return where a score reaches the limit with the best return on held-out training jobs."""
        known, scored = scores
        limits = np.quantile(known, 1.0 - np.geomspace(1e-4, 0.5, 40))
        returns = [
            transfer.mean_return(self.parts[0], known >= limit, action, self.price) for limit in limits
        ]
        best = int(np.argmax(returns))
        return np.asarray(scored >= (limits[best] if returns[best] > -1.0 else np.inf))

    def _shortens(self) -> list[Array]:
        return self.predicted("shortens", self.fitted_on.shortens)

    def _sooner(self) -> list[Array]:
        return self.predicted("sooner", self.fitted_on.again < self.fitted_on.remaining)

    def _wasted(self, action: str) -> list[Array]:
        return self.predicted(f"waste of a {action}", waste(self.fitted_on, action))

    def _gains(self, action: str) -> list[Array]:
        """Return the expected saving less the price of the expected waste, by two regressions."""
        saved = self.predicted("saving", saving(self.fitted_on))
        return [s - self.price * w for s, w in zip(saved, self._wasted(action), strict=True)]

    def by_shortening(self, action: str) -> NDArray[np.bool_]:
        """Act where a second attempt probably shortens the job."""
        return self._limited(self._shortens(), action)

    def by_ending_sooner(self, action: str) -> NDArray[np.bool_]:
        """Act where a second attempt probably ends first."""
        return self._limited(self._sooner(), action)

    def by_product(self, action: str) -> NDArray[np.bool_]:
        """Act where it probably ends first and the task is probably a straggler."""
        straggles = self.predicted("straggles", self.fitted_on.straggler)
        return self._limited([a * b for a, b in zip(self._sooner(), straggles, strict=True)], action)

    def by_expectation(self, action: str) -> NDArray[np.bool_]:
        """Act where the expected saving exceeds the price of the expected waste."""
        return np.asarray(self._gains(action)[1] > 0.0)

    def by_fitted_expectation(self, action: str) -> NDArray[np.bool_]:
        """Act where the expected saving less the price of waste reaches a limit."""
        return self._limited(self._gains(action), action)

    def by_calibrated_expectation(self, action: str) -> NDArray[np.bool_]:
        """Act by the calibrated probability of a saving times its expected size, less the price of waste."""
        known, scored = self._shortens()
        calibration = IsotonicRegression(out_of_bounds="clip").fit(known, self.parts[0].shortens)
        size = self.predicted("size", saving(self.fitted_on), self.fitted_on.shortens)[1]
        return np.asarray(calibration.predict(scored) * size > self.price * self._wasted(action)[1])

    def always(self, action: str) -> NDArray[np.bool_]:
        """Act on every task."""
        return np.ones(len(self.parts[1].now), dtype=np.bool_)


def saving(examples: Examples) -> Array:
    """Return by how much a second attempt shortens the job, as a share of its completion time."""
    sooner = examples.remaining - np.maximum(examples.again, examples.others_end)
    return np.where(examples.shortens, sooner, 0.0) / examples.completion


def waste(examples: Examples, action: str) -> Array:
    """Return the machine time that it throws away, as the return counts it."""
    wasted = examples.elapsed
    if action == "copy":
        ends_first = examples.again < examples.remaining
        wasted = np.where(ends_first, examples.elapsed + examples.again, examples.remaining)
    return np.asarray(wasted / examples.n_tasks / examples.completion)


if __name__ == "__main__":
    main()
