"""``sysgym/StragglerPrediction-v0``: online prediction of the stragglers of a running job."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.execution import RUNNING, UNLIMITED
from sysgym.emulator.cluster.job import BoolArray, Job
from sysgym.emulator.cluster.source import JobSource
from sysgym.envs.observations import Observer
from sysgym.envs.rewards import Reward
from sysgym.envs.stragglers.base import StragglerEnv
from sysgym.envs.stragglers.episode import Episode
from sysgym.envs.stragglers.metrics import Flags, prediction_metrics
from sysgym.envs.stragglers.observation import JobLayout, JobState
from sysgym.envs.stragglers.rewards import PREDICTION, PredictionOutcome
from sysgym.scenarios import StragglerScenario


class PredictionEpisode(Episode):
    """Episode in which tasks are flagged, which does not affect their execution."""

    VERB = "flagged"
    spare_machines = UNLIMITED

    def __init__(self, job: Job, scenario: StragglerScenario) -> None:
        """Begin the episode."""
        super().__init__(job, scenario)
        others = ~self.flags.stragglers & np.isnan(self.snapshot.latency_s)
        self._n_others = int(others.sum())

    def can_act(self) -> BoolArray:
        """Return the mask of tasks that can be flagged."""
        return np.asarray((self.snapshot.state == RUNNING) & ~self.flags.flagged)

    def act(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tasks that are flagged."""
        return np.flatnonzero((chosen == 1) & self.can_act())

    def outcome(self, before: Flags) -> PredictionOutcome:
        """Return the correctness of the new flags."""
        flags = self.flags
        stragglers = int(flags.stragglers.sum())
        new = flags.flagged & ~before.flagged
        return PredictionOutcome(
            earliness=float(flags.lead_s[new & flags.true].sum()) / self.threshold_s,
            false_flags=int((new & flags.false).sum()),
            missed=stragglers - int(flags.true.sum()) if self.world.done else 0,
            n_stragglers=stragglers,
            n_others=self._n_others,
        )

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the whole episode."""
        return prediction_metrics(self.flags, self.first_decision_s, self.scenario.mitigation.spare_machines)


class StragglerPrediction(StragglerEnv):
    """Flag the tasks of a running job that will be stragglers, as early as possible.

    ## Description

    A job of hundreds of parallel tasks completes when its last task does. Stragglers are the few tasks that
    take far longer than the rest, because of contention, a slow machine, a fault, or more data. While the job
    runs, counters of every task (CPU, memory, disk, ...) are measured window by window. This is the problem
    of NURD: predict which running tasks will be stragglers from their counters and from the finished tasks,
    none of which is a straggler yet. A straggler is a task whose latency, from its start to its end, reaches
    a quantile of the job's latencies (0.9), or a multiple of their median, as the scenario defines.

    An episode is one job. A checkpoint is at the end of each measuring window; one `step` raises flags there
    and simulates one window. Flags are permanent and do not affect the job's execution; the metrics of the
    episode include the gain of a scheduler that uses them. Observations at a checkpoint do not depend on
    later events, except for the threshold, which NURD discloses to every method
    (`straggler.threshold_known`).

    ## Action Space

    `MultiBinary(N)`, where N is the scenario's `jobs.tasks_max`: 1 flags a task. Flags are permanent; 0 does
    not remove one. Flags on tasks that are not running, do not exist or are already flagged have no effect;
    `mask` is 1 for the tasks that can be flagged.

    ## Observation Space

    `Dict` of float32 `Box`es. Times are in measuring windows of the job. Jobs with fewer than N tasks are
    padded with zeros; in padded rows of `tasks` the first three columns are all 0.
    `sysgym.envs.stragglers.view.JobView.of(observation)` removes the padding and names all parts.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `tasks` | (N, 7) | status of every task, columns below |
    | `counters` | (N, 2C) | mean of the C counters over the complete windows of the attempt so far, then the last complete window; raw units, 0 before; `env.unwrapped.counter_columns` names them |
    | `job` | (9,) | the job as a whole, columns below |
    | `mask` | (N,) | 1 where a flag would count |

    Some traces have one mean of a counter for each task. It is withheld until the task has finished (scenarios
    such as `alibaba-2018-hour`). Then the mean is right, and the last window has the use of the whole life over
    the length of that window: do not use it.

    | Column of `tasks` | Meaning | Unit |
    | --- | --- | --- |
    | `pending` | the task has not started | 0 or 1 |
    | `running` | an attempt of it runs | 0 or 1 |
    | `finished` | it has finished | 0 or 1 |
    | `elapsed` | run time of its oldest running attempt | windows |
    | `latency` | time of a finished task from its start to its end | windows |
    | `flagged` | it was flagged, relaunched or copied before | 0 or 1 |
    | `attempts` | attempts started | count |

    | Column of `job` | Meaning | Unit |
    | --- | --- | --- |
    | `share_finished` | tasks that have finished | fraction of tasks |
    | `checkpoint` | number of previous decisions | count |
    | `threshold` | least latency of a straggler; 0: not known | windows |
    | `latency_q25` | quantile 0.25 of finished tasks' latencies | windows |
    | `latency_q50` | quantile 0.5 of the same | windows |
    | `latency_q75` | quantile 0.75 of the same | windows |
    | `latency_q90` | quantile 0.9 of the same | windows |
    | `free_machines` | unused machines; -1: no limit | fraction of tasks |
    | `n_tasks` | tasks of the job | fraction of N |

    All values are at least 0 (`free_machines`: -1) and at most 1e9; shares are at most 1. A finished task
    keeps the counters of its whole execution.

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their
    weights, by default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | `true_flags`: (threshold - elapsed) / threshold of every straggler flagged in time, over the number of stragglers; `false_flags`: -1 for every flag of another task, over the number of other tasks that had not finished at the first decision; `missed`: on the last step, -1 for every straggler not flagged in time, over the number of stragglers |

    The return is therefore the mean earliness minus the false positive rate minus the miss rate, at most 1. A
    flag is late, and the straggler missed, if the task has already run for the threshold. Flagging nothing
    returns -1. Flagging every running task returns less than 0, unless the other tasks have all finished before
    the first decision or run for less than a window between two decisions.

    ## Starting State

    The job of one episode seed at the first checkpoint at which the scenario's `control.warmup_fraction` of
    its tasks have finished. `reset(seed=...)` seeds the generator that draws the episode seed from the
    split's range; `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: when all tasks have finished; or after `control.max_checkpoints` decisions, when the job runs
    to its end without further flags as part of that step.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `StragglerScenario` | `"google-2011"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"jobs.informativeness": 0.5}` |
    | `source` | `JobSource` or None | None | source of jobs other than the scenario: an object with `job(split, episode_seed) -> Job` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`. They reveal the true stragglers, so
      agents may learn from them but must not use them for decisions.
    - `metrics`: dict of the checkpoint's metrics, see `sysgym.envs.stragglers.metrics.CHECKPOINT_METRICS`.
      `true_flags`, `false_flags` and `late_flags` reveal the true stragglers, too.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`, `time_s`: the seed of this episode's job, and time since its submission.

    ## Registered Configurations

    One id, `sysgym/StragglerPrediction-v0`; `scenario` selects the configuration: `google-2011`,
    `google-2011-mitigation`, `google-2011-limited`, `google-2011-near`, `google-2011-near-mitigation`,
    `alibaba-2018`, `alibaba-2018-mitigation`, `alibaba-2018-hour`, `alibaba-2018-hour-leaking`,
    `google-2011-trace`, `google-2011-trace-users` and `pai-2020-trace` (your copy of a trace), or a file of your
    own.

    ## Baselines

    The agents `none`, `flag_all`, `random_rate`, rules such as `spark` and `late`, predictors such as `gbtr`,
    `nurd`, `pu_bagging` and `wrangler`, and `stragglers/oracle` (privileged). `sysgym bench stragglers` evaluates them
    on held-out jobs and `sysgym report` prints scores with confidence intervals.

    ## References

    - Ding, Rao, Song, Willett, Hoffmann: NURD: Negative-Unlabeled Learning for Online Datacenter Straggler
      Prediction. MLSys 2022, arXiv 2203.08339. Problem, definition of stragglers, warm-up, relaunching.
    - Dean, Barroso: The Tail at Scale. CACM 56(2), 2013. Why stragglers matter.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    REWARDS = PREDICTION
    EPISODE = PredictionEpisode

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | StragglerScenario = "google-2011",
        split: str = "train",
        reward: str | Reward[PredictionOutcome] | None = None,
        observation: str | Observer[JobLayout, JobState] = "default",
        overrides: Mapping[str, Any] | None = None,
        source: JobSource | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Create the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split, reward or observation does not exist.
            ArgumentError: If the observation has no space.
        """
        super().__init__(scenario, split, reward, observation, overrides, source, render_mode)

    def _make_action_space(self, tasks_max: int) -> gym.Space[Any]:
        return gym.spaces.MultiBinary(tasks_max)
