"""Base class of environments that tune a plan: local changes, whose true times are measured."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from sysgym.envs.decisions import BoolArray, DecisionEnv
from sysgym.envs.discrete import ScenarioT
from sysgym.envs.rewards import Reward, Weights
from sysgym.scenarios.errors import SysgymError

PlanT = TypeVar("PlanT")

STOP = 0
"""Action that ends the episode."""

MOST_DRAWS = 50
"""Most changes drawn until one is allowed; then all are listed."""

STEP_METRICS: dict[str, str] = {
    "steps": "decisions taken",
    "allowed": "actions that the mask allows",
    "time_s": "true time of a training step under the plan, s",
    "best_s": "least true time so far, s",
}
"""Metrics of a step that these environments share."""

EPISODE_METRICS: dict[str, str] = {
    "model_error": "difference of the time by the profile from the true one of the best plan, as a share",
    "time_s": "least true time of a training step, s",
    "tried": "plans whose true time was measured",
    "predicted": "plans whose time by the profile the agent asked for",
    "valid": "0 if an action was taken that the mask forbids, else 1",
}
"""Metrics of an episode that these environments share."""


class PlanOutcome(NamedTuple):
    """Outcome of an episode.

    Attributes:
        best_s: Least true time of a training step.
        valid: Whether every action was allowed.
    """

    best_s: float
    valid: bool = True


class ChangeOutcome(NamedTuple):
    """Outcome of a change.

    Attributes:
        faster: Decrease of the true time, over that at the beginning.
        best: Decrease of the least true time so far, likewise.
        valid: Whether the action was allowed.
    """

    faster: float
    best: float
    valid: bool


def best(outcome: ChangeOutcome, weights: Weights) -> dict[str, float]:
    """Return the decrease of the least time so far, and a penalty for an action that the mask forbids."""
    return {"time": weights["time"] * outcome.best, "invalid": _invalid(outcome, weights)}


def present(outcome: ChangeOutcome, weights: Weights) -> dict[str, float]:
    """Return the decrease of the time, which is negative for a change for the worse."""
    return {"time": weights["time"] * outcome.faster, "invalid": _invalid(outcome, weights)}


def _invalid(outcome: ChangeOutcome, weights: Weights) -> float:
    return 0.0 if outcome.valid else -weights["invalid"]


REWARDS: dict[str, Reward[ChangeOutcome]] = {
    "default": Reward(
        "default",
        best,
        {"time": 1.0, "invalid": 1.0},
        "decrease of the least true time so far, over that at the beginning; -1 for a forbidden action",
    ),
    "present": Reward(
        "present",
        present,
        {"time": 1.0, "invalid": 1.0},
        "decrease of the true time by the change, over that at the beginning; -1 for a forbidden action",
    ),
}
"""Rewards of these environments."""


class PlanTuningEnv(DecisionEnv[ScenarioT, PlanOutcome], Generic[ScenarioT, PlanT]):
    """Environment that tunes a plan, which has to be hashable.

    Attributes:
        plan: The present plan.
        measured_s: Its true time.
        best_plan: The plan with the least true time so far.
        best_s: That time.
        first_s: True time of the first plan.
        tried: Plans measured, without the first one.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 4,
    }
    REWARDS: ClassVar = REWARDS

    plan: PlanT
    measured_s: float
    best_plan: PlanT
    best_s: float
    first_s: float
    tried: int
    _before_s: float
    _best_before_s: float
    _predicted: dict[PlanT, float]

    def adopt(self, plan: PlanT) -> float:
        """Replace the plan, and return its true time in s; it counts as a change.

        What it gains is part of the next step's reward.

        Raises:
            NoEpisode: If no episode is in progress.
            ClosedEnvironment: If the environment is closed.
            SysgymError: If all changes are used, or the plan is not one of the job.
        """
        self._check_may_step()
        self._check_plan(plan)
        if self.tried >= self.most_measurements:
            raise SysgymError(f"all {self.tried} changes of the episode are used; stop it with action {STOP}")
        self._measure(plan)
        self._mask = self._allowed()
        return self.measured_s

    def predict(self, plan: PlanT) -> float:
        """Return the time of a plan by the profile, s; the metric `predicted` counts different plans."""
        if plan not in self._predicted:
            self._predicted[plan] = self.profile_time_s(plan)
        return self._predicted[plan]

    @property
    def predicted(self) -> int:
        """Number of plans passed to :meth:`predict` in this episode."""
        return len(self._predicted)

    @property
    def most_measurements(self) -> int:
        """Maximum number of plans measured in an episode."""
        most: int = self.scenario.control.episode_steps  # type: ignore[attr-defined]  # of both families
        return most

    def random_neighbour(self, plan: PlanT, rng: np.random.Generator) -> PlanT | None:
        """Return a plan that differs by one change, uniformly drawn, or None if there is none.

        Changes are drawn until one is allowed, because to list all of them may take longer than a replay.
        """
        for _ in range(MOST_DRAWS):
            other = self._draw_change(plan, rng)
            if other is not None:
                return other
        near = self.neighbours(plan)
        return near[rng.integers(len(near))] if near else None

    @abstractmethod
    def neighbours(self, plan: PlanT) -> list[PlanT]:
        """Return the plans that differ by one change."""

    @abstractmethod
    def starts(self) -> list[PlanT]:
        """Return the plans with which searches begin, which rules make from the profile."""

    @abstractmethod
    def profile_time_s(self, plan: PlanT) -> float:
        """Return the time of a plan by the profile."""

    @abstractmethod
    def true_time_s(self, plan: PlanT) -> float:
        """Return the true time of a plan without counting it: for metrics and privileged agents."""

    @abstractmethod
    def _draw_job(self, episode_seed: int) -> PlanT:
        """Draw the job of an episode, and return its first plan."""

    @abstractmethod
    def _check_plan(self, plan: PlanT) -> None:
        """Raise SysgymError if a plan is not one of the job."""

    @abstractmethod
    def _draw_change(self, plan: PlanT, rng: np.random.Generator) -> PlanT | None:
        """Return the plan after a random change, or None if the change is not allowed."""

    @abstractmethod
    def _changes(self) -> BoolArray:
        """Return the mask of the changes that the plan allows, bool [n actions]."""

    @abstractmethod
    def _after(self, action: int) -> PlanT:
        """Return the plan after an allowed change."""

    def _begin(self, episode_seed: int) -> None:
        self._predicted = {}
        self.best_s, self.tried = float("inf"), -1
        self._measure(self._draw_job(episode_seed))
        self.first_s = self._before_s = self._best_before_s = self.best_s

    def _measure(self, plan: PlanT) -> None:
        self.plan, self.measured_s = plan, self.true_time_s(plan)
        self.tried += 1
        if self.measured_s < self.best_s:
            self.best_plan, self.best_s = plan, self.measured_s

    def _allowed(self) -> BoolArray:
        used_up = self.tried >= self.most_measurements
        mask = np.zeros(self._n_actions, np.bool_) if used_up else self._changes()
        mask[STOP] = True
        return mask

    def _decide(self, action: int) -> None:
        if action != STOP:
            self._measure(self._after(action))
        if action == STOP or self.tried >= self.most_measurements:
            self.outcome = PlanOutcome(self.best_s)

    def _invalid(self) -> PlanOutcome:
        return PlanOutcome(self.best_s, valid=False)

    def _decision_outcome(self) -> ChangeOutcome:
        outcome = ChangeOutcome(
            (self._before_s - self.measured_s) / self.first_s,
            (self._best_before_s - self.best_s) / self.first_s,
            self.outcome is None or self.outcome.valid,
        )
        self._before_s, self._best_before_s = self.measured_s, self.best_s
        return outcome

    def _step_metrics(self) -> dict[str, float]:
        return {"time_s": self.measured_s, "best_s": self.best_s, **self._plan_metrics(self.plan)}

    def _episode_metrics(self) -> dict[str, float]:
        assert self.outcome is not None
        return {
            **self._job_metrics(),
            "model_error": abs(self.profile_time_s(self.best_plan) / self.best_s - 1.0),
            "time_s": self.best_s,
            **self._plan_metrics(self.best_plan),
            "tried": float(self.tried),
            "predicted": float(self.predicted),
            "valid": float(self.outcome.valid),
        }

    @abstractmethod
    def _plan_metrics(self, plan: PlanT) -> dict[str, float]:
        """Return the metrics of a plan itself."""

    @abstractmethod
    def _job_metrics(self) -> dict[str, float]:
        """Return the metrics of the best plan on this job."""
