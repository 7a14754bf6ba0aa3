"""``sysgym/StragglerMitigation-v0``: relaunching and copying of a running job's tasks."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.job import BoolArray, Job
from sysgym.emulator.cluster.source import JobSource
from sysgym.envs.observations import Observer
from sysgym.envs.rewards import Reward
from sysgym.envs.stragglers.base import StragglerEnv
from sysgym.envs.stragglers.episode import Episode
from sysgym.envs.stragglers.metrics import Flags, mitigation_metrics, world_metrics
from sysgym.envs.stragglers.observation import JobLayout, JobState
from sysgym.envs.stragglers.rewards import MITIGATION, MitigationOutcome
from sysgym.scenarios import StragglerScenario

NOTHING, RELAUNCH, COPY = 0, 1, 2


class MitigationEpisode(Episode):
    """Episode in which tasks are relaunched and copied."""

    VERB = "acted on"

    def __init__(self, job: Job, scenario: StragglerScenario) -> None:
        """Begin the episode; events before the first decision have no price."""
        super().__init__(job, scenario)
        self._paid_s = 0.0
        self._paid_waste_s = 0.0

    @property
    def spare_machines(self) -> int:
        """Number of machines in addition to one per task."""
        return self.scenario.mitigation.spare_machines

    def can_act(self) -> BoolArray:
        """Return the mask of tasks that would accept a relaunch or copy."""
        return self.snapshot.can_act

    def act(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Relaunch and copy tasks; return those that accepted it."""
        tasks = np.flatnonzero((chosen != NOTHING) & self.can_act())
        limit = self.scenario.mitigation.actions_per_checkpoint
        if limit:
            tasks = tasks[:limit]
        accepted = (
            self.world.relaunch(tasks[chosen[tasks] == RELAUNCH]),
            self.world.copy(tasks[chosen[tasks] == COPY]),
        )
        return np.concatenate(accepted)

    def outcome(self, before: Flags) -> MitigationOutcome:
        """Return the time passed and the work wasted since the last step."""
        now_s = min(self.world.now_s, self.world.completion_s)
        outcome = MitigationOutcome(
            time_s=now_s - self._paid_s,
            wasted_s=self.world.wasted_s - self._paid_waste_s,
            n_tasks=self.job.n_tasks,
            unaided_s=self.job.completion_s,
            waste_price=self.scenario.mitigation.waste_price,
        )
        self._paid_s, self._paid_waste_s = now_s, self.world.wasted_s
        return outcome

    def checkpoint_metrics(self) -> dict[str, float]:
        """Return the metrics of the current checkpoint, those of machines included."""
        return super().checkpoint_metrics() | world_metrics(self.snapshot, self.world)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the whole episode."""
        return mitigation_metrics(self.flags, self.world, self.first_decision_s)


class StragglerMitigation(StragglerEnv):
    """Relaunch or copy slow tasks of a running job, so that the job completes sooner.

    ## Description

    The jobs are those of `sysgym/StragglerPrediction-v0`, and the agent can act on stragglers. A relaunch
    kills a task and restarts it on another machine. A copy starts a second attempt beside the first; the task
    finishes with whichever attempt finishes first. Both draw a new machine and its conditions, but the work
    of the task stays the same: they remedy contention and faults, not data skew, so a perfect prediction of
    stragglers is not yet a good policy. The machine time of killed and unsuccessful attempts is wasted.

    The duration of every attempt of every task is drawn before the episode begins, so all policies face the
    same randomness. For jobs replayed from a trace, the durations of further attempts are unknown and are
    drawn from a model of the job.

    The first attempt of each task has its own machine. Relaunches and copies share
    `mitigation.spare_machines` additional ones, without a limit if it is -1. With a limit, a relaunch or copy
    waits for the next free machine while the task continues to run. Machines of finished tasks become free;
    machines abandoned by a relaunch are suspect and are not used again.

    ## Action Space

    `MultiDiscrete([3] * N)`, where N is the scenario's `jobs.tasks_max`: for every task, 0: no action, 1:
    relaunch (all its running attempts are killed), 2: copy. Actions on tasks that `mask` excludes have no
    effect: tasks that are not running or do not exist, that already wait for a machine, or that have used all
    `mitigation.attempts`. `mitigation.actions_per_checkpoint` limits the number of actions; those with the
    lowest index are carried out. Relaunches are served before copies, each in the order of the index.

    ## Observation Space

    `Dict` of float32 `Box`es. Times are in measuring windows of the job. Jobs with fewer than N tasks are
    padded with zeros; in padded rows of `tasks` the first three columns are all 0.
    `sysgym.envs.stragglers.view.JobView.of(observation)` removes the padding and names all parts.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `tasks` | (N, 7) | status of every task, columns below |
    | `counters` | (N, 2C) | mean of the C counters over the complete windows of the attempt so far, then the last complete window; raw units, 0 before; `env.unwrapped.counter_columns` names them |
    | `job` | (9,) | the job as a whole, columns below |
    | `mask` | (N,) | 1 where a relaunch or copy would be accepted |

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

    All values are at least 0 (`free_machines`: -1) and at most 1e9; shares are at most 1. The counters of a
    task are those of its oldest running attempt, or of the one that finished. The threshold is that of the
    job without action.

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their
    weights, by default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | `time`: negative time of the job since the last step; `waste`: -`mitigation.waste_price` times the machine-seconds of attempts killed or lost since then, divided by the number of tasks; both divided by the completion time without action |

    The return is therefore -(completion time + price * wasted machine time per task) / (completion time
    without action); doing nothing returns exactly -1. The first step includes the time before the first
    decision.

    ## Starting State

    The job of one episode seed at the first checkpoint at which the scenario's `control.warmup_fraction` of
    its tasks have finished. `reset(seed=...)` seeds the generator that draws the episode seed from the
    split's range; `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: when all tasks have finished; or after `control.max_checkpoints` decisions, when the job runs
    to its end without further action as part of that step.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `StragglerScenario` | `"google-2011"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"mitigation.spare_machines": 10}` |
    | `source` | `JobSource` or None | None | source of jobs other than the scenario: an object with `job(split, episode_seed) -> Job` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the checkpoint's metrics, see `sysgym.envs.stragglers.metrics.CHECKPOINT_METRICS`.
      `true_flags`, `false_flags` and `late_flags` reveal the true stragglers, so agents must not use them for
      decisions.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`, `time_s`: the seed of this episode's job, and time since its submission.

    ## Registered Configurations

    One id, `sysgym/StragglerMitigation-v0`; `scenario` selects the configuration: `google-2011`,
    `google-2011-mitigation`, `google-2011-limited`, `google-2011-near`, `google-2011-near-mitigation`,
    `alibaba-2018`, `alibaba-2018-mitigation`, `alibaba-2018-hour`, `alibaba-2018-hour-leaking`,
    `google-2011-trace`, `google-2011-trace-users` and `pai-2020-trace` (your copy of a trace), or a file of your
    own.

    ## Baselines

    The agents `none`, rules such as `spark`, `late`, `mantri` and `dolly`, predictors such as `nurd`, whose
    flags become relaunches, and `stragglers/oracle` (privileged). `sysgym bench stragglers` evaluates them on held-out
    jobs and `sysgym report` prints scores with confidence intervals.

    ## References

    - Ding, Rao, Song, Willett, Hoffmann: NURD: Negative-Unlabeled Learning for Online Datacenter Straggler
      Prediction. MLSys 2022, arXiv 2203.08339. Relaunching with and without a limit on machines.
    - Zaharia, Konwinski, Joseph, Katz, Stoica: Improving MapReduce Performance in Heterogeneous Environments.
      OSDI 2008. Copies, and their benefit.
    - Ananthanarayanan et al.: Reining in the Outliers in Map-Reduce Clusters using Mantri. OSDI 2010. Causes,
      and relaunching or copying depending on them.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    REWARDS = MITIGATION
    EPISODE = MitigationEpisode

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | StragglerScenario = "google-2011",
        split: str = "train",
        reward: str | Reward[MitigationOutcome] | None = None,
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
        return gym.spaces.MultiDiscrete([3] * tasks_max)
