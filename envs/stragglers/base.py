"""Base of the straggler environments: a job that is watched from checkpoint to checkpoint."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.counters import counter_names
from sysgym.emulator.cluster.execution import Execution, Snapshot
from sysgym.emulator.cluster.job import BoolArray, FloatArray, Job
from sysgym.emulator.cluster.source import JobSource, job_source
from sysgym.envs.episodes import draw_episode_seed, resolve_scenario
from sysgym.envs.lifecycle import Lifecycle, Phase, of_space
from sysgym.envs.stragglers.metrics import Flags, checkpoint_metrics
from sysgym.envs.stragglers.observation import Observation, ObservationBuilder
from sysgym.envs.stragglers.render import Scene, picture, text
from sysgym.envs.stragglers.rewards import Reward, get_reward
from sysgym.scenarios import StragglerScenario

Action = NDArray[np.int8] | NDArray[np.int64]


class StragglerEnv(Lifecycle, gym.Env[Observation, Any]):
    """Base of the two environments; see :class:`~sysgym.envs.stragglers.prediction.StragglerPrediction`.

    Attributes:
        scenario: The world.
        counter_names: What is measured, C names.
        job: The job of this episode, its future included: for oracles and pictures, not for agents.
        world: The job's execution.
        threshold_s: Latency from which on a task of this job is a straggler.
        flags: When each task was flagged, or acted on first.
        first_decision_s: When the first decision was due, after the job's submission.
        episode_seed: Seed of this episode's job.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 4,
    }
    REWARDS: ClassVar[Mapping[str, Reward[Any]]]
    VERB: ClassVar[str]

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | StragglerScenario,
        split: str,
        reward: str | None,
        overrides: Mapping[str, Any] | None,
        source: JobSource | None,
        render_mode: str | None,
    ) -> None:
        """Build the environment.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split or reward does not exist.
        """
        self.scenario = resolve_scenario(scenario, overrides, StragglerScenario)
        self.split = split
        self.render_mode = render_mode
        self._seeds = self.scenario.splits[split].seeds
        weights = self.scenario.reward.weights if reward in (None, self.scenario.reward.name) else {}
        self.reward = get_reward(self.REWARDS, reward or self.scenario.reward.name).with_weights(weights)
        self._source = job_source(self.scenario) if source is None else source
        jobs = self.scenario.jobs
        if source is None and jobs.kind == "generated":
            self.counter_names = counter_names(jobs.profile)
        else:
            self.counter_names = self._source.job(split, self._seeds[0]).counter_names
        self._observations = ObservationBuilder(jobs.tasks_max, self.counter_names)
        self.observation_space = self._observations.space()
        self.action_space = self._make_action_space(jobs.tasks_max)
        self.episode_seed: int | None = None
        self.job: Job
        self.world: Execution
        self.threshold_s = 0.0
        self.flags: Flags
        self.first_decision_s = 0.0
        self._checkpoint = 0
        self._snapshot: Snapshot
        self._drawn = self.scenario

    @property
    def counter_columns(self) -> tuple[str, ...]:
        """What stands in each column of the observation's ``counters``."""
        return self._observations.counter_columns

    @property
    def max_checkpoints(self) -> int:
        """Most decisions in an episode."""
        return self.scenario.control.max_checkpoints

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seeds the generator that draws episode seeds.
            options: ``{"episode_seed": int}`` pins the episode seed; it may lie outside the split.

        Raises:
            ClosedEnvironment: If the environment is closed.
        """
        self._check_may_reset()
        super().reset(seed=seed)
        self.episode_seed = draw_episode_seed(self.np_random, self._seeds, options)
        self._drawn = self.scenario.draw(self.split, self.episode_seed)
        self.job = self._source.job(self.split, self.episode_seed)
        if self.job.n_tasks > self._observations.tasks_max:
            raise ValueError(
                f"job {self.job.name}: {self.job.n_tasks} tasks, more than tasks_max = "
                f"{self._observations.tasks_max} of the scenario {self.scenario.name}"
            )
        rule = self._drawn.straggler
        self.threshold_s = self.job.threshold_s(rule.definition, rule.value)
        self.world = Execution(self.job, self._spare_machines())
        self.flags = Flags(self.job, self.threshold_s, np.full(self.job.n_tasks, np.inf))
        self._checkpoint = 0
        self._warm_up()
        self._phase = Phase.RUNNING
        self._show()
        return self._observe(), self._info()

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Act on tasks and let one measuring window pass.

        Raises:
            NoEpisode: If no episode is under way.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the action is no element of its space.
        """
        self._check_may_step()
        chosen = self._checked(action)
        before = self.flags
        self._act(chosen)
        self._checkpoint += 1
        if self._checkpoint >= self.max_checkpoints:
            # Nobody acts any more; what is left of the job belongs to this step.
            self.world.run_to_end()
        elif not self.world.done:
            self.world.advance(self.job.window_s)
        self._snapshot = self.world.snapshot()
        over = self.world.done
        terms = self.reward.terms(self._outcome(before, over=over))
        info = {"reward_terms": terms, **self._info()}
        if over:
            info["episode_metrics"] = self._episode_metrics()
            self._phase = Phase.OVER
        self._show()
        return self._observe(), float(sum(terms.values())), over, False, info

    def _text(self) -> str:
        return text(self._scene())

    def _picture(self) -> NDArray[np.uint8]:
        return picture(self._scene())

    @abstractmethod
    def _make_action_space(self, tasks_max: int) -> gym.Space[Any]:
        """The space of actions."""

    @abstractmethod
    def _spare_machines(self) -> int:
        """Machines of the world beside one for each task."""

    @abstractmethod
    def _act(self, chosen: NDArray[np.int64]) -> None:
        """Carry an action out; ``chosen`` is it for the job's real tasks."""

    @abstractmethod
    def _mask(self) -> BoolArray:
        """Tasks that may be acted on."""

    @abstractmethod
    def _outcome(self, before: Flags, *, over: bool) -> Any:
        """What the reward is computed from."""

    @abstractmethod
    def _episode_metrics(self) -> dict[str, float]:
        """Metrics of the whole episode."""

    def _checkpoint_metrics(self) -> dict[str, float]:
        return checkpoint_metrics(self._snapshot, self.flags)

    def _scene(self) -> Scene:
        return Scene(self.scenario.name, self.flags, self.world, self._checkpoint, self.VERB)

    def _warm_up(self) -> None:
        """Let windows pass until enough tasks have finished for the first decision."""
        share = self._drawn.control.warmup_fraction
        while self.world.share_finished < share:
            self.world.advance(self.job.window_s)
        self.first_decision_s = self.world.now_s
        self._snapshot = self.world.snapshot()

    def _raise_flags(self, tasks: NDArray[np.int64]) -> None:
        """Note when tasks were flagged; only the first time counts."""
        raised_s: FloatArray = self.flags.raised_s.copy()
        raised_s[tasks] = np.minimum(raised_s[tasks], self.world.now_s)
        self.flags = Flags(self.job, self.threshold_s, raised_s)

    def _checked(self, action: Any) -> NDArray[np.int64]:
        try:
            given = np.asarray(action)
            whole = given.dtype.kind in "biu" or (
                given.dtype.kind == "f" and np.array_equal(given, np.rint(given))
            )
            if not whole or not self.action_space.contains(given.astype(self.action_space.dtype, copy=False)):
                raise ValueError
        except (TypeError, ValueError):
            raise of_space(action, self.action_space) from None
        return given[: self.job.n_tasks].astype(np.int64)

    def _observe(self) -> Observation:
        return self._observations.build(
            self._snapshot,
            window_s=self.job.window_s,
            checkpoint=self._checkpoint,
            threshold_s=self.threshold_s if self._drawn.straggler.threshold_known else None,
            flagged=self.flags.flagged,
            mask=self._mask(),
        )

    def _info(self) -> dict[str, Any]:
        return {
            "metrics": self._checkpoint_metrics(),
            "episode_seed": self.episode_seed,
            "time_s": self.world.now_s,
        }
