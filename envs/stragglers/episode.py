"""Episode of a straggler environment: a job's execution, the flags raised, and the decisions taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.execution import Execution
from sysgym.emulator.cluster.job import BoolArray, FloatArray, Job
from sysgym.envs.stragglers.metrics import Flags, checkpoint_metrics
from sysgym.envs.stragglers.observation import JobState
from sysgym.envs.stragglers.render import Scene
from sysgym.scenarios import StragglerScenario


class Episode(ABC):
    """One job from the first decision on.

    Args:
        job: The job.
        scenario: The scenario as drawn for this episode.

    Attributes:
        threshold_s: Latency at and above which a task of the job is a straggler.
        world: Execution of the job.
        flags: Time at which each task was flagged, or first acted on.
        first_decision_s: Time of the first decision, after the job's submission.
        checkpoint: Number of decisions taken.
        snapshot: Observable state at the current checkpoint.
    """

    VERB: ClassVar[str]
    """Verb for an action on a task, for pictures."""

    def __init__(self, job: Job, scenario: StragglerScenario) -> None:
        """Simulate windows until enough tasks have finished for the first decision."""
        self.job, self.scenario = job, scenario
        self.threshold_s = job.threshold_s(scenario.straggler.definition, scenario.straggler.value)
        self.world = Execution(job, self.spare_machines)
        self.flags = Flags(job, self.threshold_s, np.full(job.n_tasks, np.inf))
        self.checkpoint = 0
        while self.world.share_finished < scenario.control.warmup_fraction:
            self.world.advance(job.window_s)
        self.first_decision_s = self.world.now_s
        self.snapshot = self.world.snapshot()

    @property
    @abstractmethod
    def spare_machines(self) -> int:
        """Number of machines in addition to one per task."""

    @abstractmethod
    def can_act(self) -> BoolArray:
        """Return the mask of tasks that may be flagged or acted on."""

    @abstractmethod
    def act(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Apply the actions of the job's tasks; return the tasks whose action took effect."""

    @abstractmethod
    def outcome(self, before: Flags) -> Any:
        """Return the outcome of a step, from which the reward is computed.

        Args:
            before: The flags before the step.
        """

    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """Return the metrics of the whole episode."""

    def step(self, chosen: NDArray[np.int64]) -> Any:
        """Act on tasks and simulate one measuring window; return the outcome."""
        before = self.flags
        acted = self.act(chosen)
        raised_s: FloatArray = before.raised_s.copy()
        # Only the first time counts.
        raised_s[acted] = np.minimum(raised_s[acted], self.world.now_s)
        self.flags = Flags(self.job, self.threshold_s, raised_s)
        self.checkpoint += 1
        if self.checkpoint >= self.scenario.control.max_checkpoints:
            # No further actions are possible; the rest of the job is part of this step.
            self.world.run_to_end()
        elif not self.world.done:
            self.world.advance(self.job.window_s)
        self.snapshot = self.world.snapshot()
        return self.outcome(before)

    def state(self) -> JobState:
        """Return what an agent may know."""
        return JobState(
            tasks_max=self.scenario.jobs.tasks_max,
            snapshot=self.snapshot,
            window_s=self.job.window_s,
            checkpoint=self.checkpoint,
            threshold_s=self.threshold_s if self.scenario.straggler.threshold_known else None,
            flagged=self.flags.flagged,
            can_act=self.can_act(),
        )

    def checkpoint_metrics(self) -> dict[str, float]:
        """Return the metrics of the current checkpoint."""
        return checkpoint_metrics(self.snapshot, self.flags)

    def scene(self, title: str) -> Scene:
        """Return what pictures show."""
        return Scene(title, self.flags, self.world, self.checkpoint, self.VERB)
