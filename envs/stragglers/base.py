"""Base class of the straggler environments: a job observed at successive checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.counters import counter_names
from sysgym.emulator.cluster.execution import Execution
from sysgym.emulator.cluster.job import Job
from sysgym.emulator.cluster.source import JobSource, job_source
from sysgym.envs.episodes import draw_episode_seed, resolve_scenario
from sysgym.envs.lifecycle import Lifecycle, Phase, whole_numbers
from sysgym.envs.observations import OBSERVATION_ARGUMENT, Observer, get_observer, space_of
from sysgym.envs.rewards import Reward, reward_of, total
from sysgym.envs.stragglers.episode import Episode
from sysgym.envs.stragglers.metrics import Flags
from sysgym.envs.stragglers.observation import OBSERVERS, JobLayout, JobState
from sysgym.envs.stragglers.render import picture, text
from sysgym.envs.stragglers.rewards import MITIGATION, PREDICTION
from sysgym.scenarios import StragglerScenario

Action = NDArray[np.int8] | NDArray[np.int64]


class StragglerEnv(Lifecycle, gym.Env[Any, Any]):
    """Base class of both environments; see :class:`~sysgym.envs.stragglers.prediction.StragglerPrediction`.

    Attributes:
        scenario: The scenario.
        reward: The reward.
        observer: The observation.
        counter_names: Names of the C measured counters.
        counter_columns: Name of each column of the observation's ``counters``.
        job: The job of this episode, its future included; for oracles and pictures, not for agents.
        world: Execution of the job.
        threshold_s: Latency at and above which a task of this job is a straggler.
        first_decision_s: Time of the first decision, after the job's submission.
        episode_seed: Seed of this episode's job.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 4,
    }
    ARGUMENTS = OBSERVATION_ARGUMENT
    REWARDS: ClassVar[Mapping[str, Reward[Any]]]
    EPISODE: ClassVar[type[Episode]]

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | StragglerScenario,
        split: str,
        reward: str | Reward[Any] | None,
        observation: str | Observer[JobLayout, JobState],
        overrides: Mapping[str, Any] | None,
        source: JobSource | None,
        render_mode: str | None,
    ) -> None:
        """Create the environment.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split, reward or observation does not exist.
            ArgumentError: If the observation has no space.
        """
        self.scenario = resolve_scenario(scenario, overrides, StragglerScenario)
        self.split, self.render_mode = split, render_mode
        self._seeds = self.scenario.splits[split].seeds
        self.reward = reward_of(self.scenario.reward, reward, self.REWARDS, (PREDICTION, MITIGATION))
        self._source = job_source(self.scenario) if source is None else source
        jobs = self.scenario.jobs
        if source is None and jobs.kind == "generated":
            self.counter_names = counter_names(jobs.profile)
        else:
            self.counter_names = self._source.job(split, self._seeds[0]).counter_names
        layout = JobLayout(jobs.tasks_max, self.counter_names)
        self.counter_columns = layout.counter_columns
        self.observer = get_observer(observation, OBSERVERS)
        self.observation_space = space_of(self.observer, layout)
        self.action_space = self._make_action_space(jobs.tasks_max)
        self.episode_seed: int | None = None
        self._episode: Episode
        self.job: Job
        self.world: Execution
        self.threshold_s = self.first_decision_s = 0.0

    @property
    def flags(self) -> Flags:
        """Time at which each task was flagged, or first acted on."""
        return self._episode.flags

    @abstractmethod
    def _make_action_space(self, tasks_max: int) -> gym.Space[Any]:
        """Return the action space."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seeds the generator that draws episode seeds.
            options: ``{"episode_seed": int}`` sets the episode seed, which may lie outside the split.

        Raises:
            ClosedEnvironment: If the environment is closed.
            ValueError: If the job has more tasks than the scenario's ``jobs.tasks_max``.
        """
        self._check_may_reset()
        super().reset(seed=seed)
        self.episode_seed = draw_episode_seed(self.np_random, self._seeds, options)
        drawn = self.scenario.draw(self.split, self.episode_seed)
        self.job = self._source.job(self.split, self.episode_seed)
        if self.job.n_tasks > self.scenario.jobs.tasks_max:
            raise ValueError(
                f"job {self.job.name}: {self.job.n_tasks} tasks, more than tasks_max = "
                f"{self.scenario.jobs.tasks_max} of the scenario {self.scenario.name}"
            )
        self._episode = episode = self.EPISODE(self.job, drawn)
        self.world, self.threshold_s = episode.world, episode.threshold_s
        self.first_decision_s = episode.first_decision_s
        self._phase = Phase.RUNNING
        self._show()
        return self.observer.observe(episode.state()), {
            "reward_terms": self.reward.no_terms(),
            **self._info(),
        }

    def step(self, action: Action) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act on tasks and simulate one measuring window.

        Raises:
            NoEpisode: If no episode is in progress.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the action is outside the space.
        """
        self._check_may_step()
        episode = self._episode
        outcome = episode.step(whole_numbers(action, self.action_space)[: self.job.n_tasks])
        terms, over = self.reward.terms(outcome), self.world.done
        info = {"reward_terms": terms, **self._info()}
        if over:
            info["episode_metrics"] = episode.metrics()
            self._phase = Phase.OVER
        self._show()
        return self.observer.observe(episode.state()), total(terms), over, False, info

    def _info(self) -> dict[str, Any]:
        return {
            "metrics": self._episode.checkpoint_metrics(),
            "episode_seed": self.episode_seed,
            "time_s": self.world.now_s,
        }

    def _text(self) -> str:
        return text(self._episode.scene(self.scenario.name))

    def _picture(self) -> NDArray[np.uint8]:
        return picture(self._episode.scene(self.scenario.name))
