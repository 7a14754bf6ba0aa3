"""``sysgym/FailSlow-v0``: response to slow workers and links of a synchronous training job."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.failslow.run import Action, FailSlowRun
from sysgym.envs.discrete import DiscreteEnv
from sysgym.envs.failslow.metrics import episode_metrics, job_time_s
from sysgym.envs.failslow.observation import (
    COLUMNS,
    MEMORIES,
    OBSERVERS,
    FailSlowState,
    Tracked,
    now_measured,
    state_of,
)
from sysgym.envs.failslow.render import run_picture, run_text
from sysgym.envs.failslow.rewards import REWARDS, WindowOutcome
from sysgym.envs.observations import Observer
from sysgym.envs.rewards import Reward
from sysgym.scenarios.schema.failslow import FailSlowScenario

HIGH = np.log([1.1, 1.1, 1.2])
"""Logarithms of the factors of workers, stages and the exchange that count as slow."""


class FailSlow(DiscreteEnv[FailSlowScenario]):
    """Decide when and how to respond to slow workers and links of a synchronous training job.

    ## Description

    In synchronous training all workers wait for the slowest one. Workers and links do not always fail: some
    become slow for minutes or hours, and most recover by themselves. Waiting costs time as long as the fault
    lasts; moving microbatches, moving traffic, replacing a worker or restarting costs time at once, and how
    long the fault would have lasted is unknown.

    A job has replicas, each of which is a pipeline with one worker per stage. The time of a step is replayed:
    each replica gathers its parameters and runs its microbatches in 1F1B order; all replicas wait for the
    slowest one, and then for the exchange of gradients over the slowest link. Layers and microbatches are
    those of a transformer, or with `job.trace` those of recorded steps. A fault slows a worker, a stage in
    all replicas, or a link. A step of the environment is a window of length `control.interval_s`, 60 s by
    default. The slowdown factors of all workers and of the exchange, and the time of a step, are measured in
    every window, with an error.

    ## Action Space

    `Discrete(7)`. An action during the pause of another one does nothing.

    | Action | Effect | Cost |
    | --- | --- | --- |
    | 0 | nothing | |
    | 1 | distributes the microbatches among the replicas by the measured factors (those within the measurement error count as 1); the distribution stays until the next such action | `actions.rebalance_s` |
    | 2 | likewise divides the layers among the stages of all replicas by the measured factors; no effect on recorded stages | `actions.move_layers_s` |
    | 3 | moves traffic away from the links that are slow now, which removes the share `actions.reroute_relief` of their excess | `actions.reroute_s` |
    | 4 | replaces the worker whose measured factor is largest; a slow stage stays slow | `actions.replace_s` |
    | 5 | writes a checkpoint | `actions.checkpoint_s` |
    | 6 | restarts on other nodes with the first plan: all present faults are gone | `actions.restart_s`, and the work since the last checkpoint |

    ## Observation Space

    `Box`, float32, shape (28,).

    | Column of the observation | Meaning | Unit |
    | --- | --- | --- |
    | `worst` | measured factor of the slowest worker | ln of the factor |
    | `worst_fast` | short moving mean of the same | ln of the factor |
    | `worst_slow` | long moving mean of the same | ln of the factor |
    | `second` | measured factor of the slowest worker of the other replicas | ln of the factor |
    | `stage` | measured factor of the slowest stage, the median of its workers' | ln of the factor |
    | `stage_fast` | short moving mean of the same | ln of the factor |
    | `stage_slow` | long moving mean of the same | ln of the factor |
    | `link` | measured factor of the exchange | ln of the factor |
    | `link_fast` | short moving mean of the same | ln of the factor |
    | `link_slow` | long moving mean of the same | ln of the factor |
    | `step` | measured time of a step, over a healthy one's | ln of the factor |
    | `step_rebalanced` | the same after microbatches were moved, as expected by the closed form | ln of the factor |
    | `step_moved` | the same after layers were moved, likewise | ln of the factor |
    | `worst_for` | time since the long moving mean of the slowest worker was below 1.1 | h |
    | `stage_for` | time since the long moving mean of the slowest stage was below 1.1 | h |
    | `link_for` | time since the long moving mean of the exchange was below 1.2 | h |
    | `imbalance` | slowest pace assumed when distributing microbatches, over the fastest, less 1 | ratio |
    | `moved` | stages whose last layer is not the initial one | share |
    | `since_action` | time since the last action; 20 before the first | h |
    | `since_checkpoint` | work that a restart would lose | h |
    | `left` | work that is left, exact | h |
    | `rebalance_cost` | pause to move microbatches | h |
    | `move_layers_cost` | pause to move layers | h |
    | `reroute_cost` | pause to move traffic away from slow links | h |
    | `replace_cost` | pause to replace the slowest worker | h |
    | `checkpoint_cost` | pause to write a checkpoint | h |
    | `restart_cost` | pause to restart | h |
    | `paused` | an action is under way | 0 or 1 |

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their weights.

    | Name | Terms |
    | --- | --- |
    | `default` | `lost`: minus the share of the window in which no healthy work was done; a restart also loses the work since the last checkpoint, so the term can be below -1; `action`: minus the weight (by default 0) for an action |

    ## Starting State

    Nothing is slow yet, unless a fault begins at once. `reset(seed=...)` seeds the generator that draws the
    episode seed from the split's range; `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: when the job is done. Truncation: after `control.episode_steps` windows.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `FailSlowScenario` | `"failslow-hybrid"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"job.stages": 8}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the state's metrics, see `sysgym.envs.failslow.metrics.STEP_METRICS`.
    - `episode_metrics`: on the last step, see `EPISODE_METRICS` there.
    - `episode_seed`: the seed of this episode.
    - `time_s`: wall time of the job.

    ## Registered Configurations

    One id, `sysgym/FailSlow-v0`; `scenario` selects the configuration: `failslow-hybrid`, `failslow-unseen`, or a file of your own.

    ## Baselines

    The agents `failslow/never`, `always_restart`, `threshold`, `cusum`, `ski_rental`, `payback`,
    `failslow/random`, `clairvoyant` (privileged) and learned ones.
    `sysgym bench failslow` evaluates them and `sysgym report` prints delays with confidence intervals.

    ## References

    - Wu et al.: Greyhound: Hunting Fail-Slows in Hybrid-Parallel Training at Scale. USENIX ATC 2025; as Falcon, arXiv 2410.12588. Durations, the
      four levels of actions, and when to go to the next one.
    - Lin et al.: Understanding Stragglers in Large Model Training Using What-if Analysis. OSDI 2025, arXiv 2505.05713.

    ## Version History

    - v0: first version. Until 25 November 2026 step times had a closed form, and there were no slow stages,
      moves of layers or checkpoints.
    """  # noqa: E501, a table's row is one line

    SCENARIO = FailSlowScenario
    REWARDS = REWARDS
    OBSERVERS = OBSERVERS

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | FailSlowScenario = "failslow-hybrid",
        split: str = "train",
        reward: str | Reward[WindowOutcome] | None = None,
        observation: str | Observer[FailSlowScenario, FailSlowState] = "default",
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Create the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split, reward or observation does not exist.
            ArgumentError: If the observation has no space.
        """
        super().__init__(scenario, split, reward, observation, overrides, render_mode)
        self.run: FailSlowRun
        self._tracked: Tracked

    @property
    def _n_actions(self) -> int:
        return len(Action)

    def _names(self) -> list[str]:
        return list(COLUMNS)

    def _begin(self, episode_seed: int) -> None:
        self.run = FailSlowRun(self.drawn, episode_seed)
        self._tracked = Tracked(np.zeros((len(MEMORIES), 3)), np.zeros(3), np.inf)
        self._track(0.0)

    def _track(self, passed_s: float) -> None:
        """Add the last measurement to the memory."""
        run, before = self.run, self._tracked
        now = now_measured(run.measured, run.measured_link)
        keeps = np.array(MEMORIES)[:, None]
        means = keeps * before.means + (1.0 - keeps) * now
        since_s = np.where(means[-1] > HIGH, before.since_s + passed_s, 0.0)
        acted = bool(run.windows) and run.windows[-1].action is not Action.NONE
        self._tracked = Tracked(means, since_s, 0.0 if acted else before.action_s + passed_s)

    def _act(self, action: int) -> tuple[WindowOutcome, bool]:
        before_s = self.run.time_s
        window = self.run.step(Action(action))
        passed_s = self.run.time_s - before_s
        self._track(passed_s)
        lost = (passed_s - window.progress_s) / self.drawn.control.interval_s
        return WindowOutcome(lost, window.action is not Action.NONE), self.run.finished

    def _truncated(self) -> bool:
        return len(self.run.windows) >= self.drawn.control.episode_steps

    def _state(self) -> FailSlowState:
        return state_of(self.run, self._tracked)

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "time_s": self.run.time_s}

    def _step_metrics(self) -> dict[str, float]:
        run = self.run
        active = run.active(run.time_s)
        return {
            "slowdown": run.slowdown(active),
            "progress": run.progress_s / run.work_s,
            "faults": float(active.sum()),
        }

    def _episode_metrics(self) -> dict[str, float]:
        never = FailSlowRun(self.drawn, self.episode_seed or 0)
        while not never.finished and len(never.windows) < self.drawn.control.episode_steps:
            never.step(Action.NONE)
        return episode_metrics(self.run, job_time_s(never))

    def _text(self) -> str:
        return run_text(self.scenario.name, self.run)

    def _picture(self) -> NDArray[np.uint8]:
        return run_picture(self.scenario.name, self.run)
