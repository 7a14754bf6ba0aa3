"""``sysgym/StragglerPrediction-v0``: which tasks of a running job will be stragglers."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.execution import RUNNING, UNLIMITED
from sysgym.emulator.cluster.job import BoolArray
from sysgym.emulator.cluster.source import JobSource
from sysgym.envs.stragglers.base import StragglerEnv
from sysgym.envs.stragglers.metrics import Flags, prediction_metrics
from sysgym.envs.stragglers.rewards import PREDICTION, Flagging
from sysgym.scenarios import StragglerScenario


class StragglerPrediction(StragglerEnv):
    """Flag the tasks of a running job that will be stragglers, as early as can be told.

    ## Description

    A job of hundreds of parallel tasks is done when its last task is. A few tasks take far longer than the
    rest, because of contention, a slow machine, a fault, or simply more data: stragglers. While the job runs,
    counters of every task (CPU, memory, disk, ...) are measured window by window. This is NURD's problem:
    tell from the tasks that have finished, none of them a straggler yet, and from the counters, which running
    tasks will be stragglers. A straggler is a task whose latency, from its start to its end, reaches the
    scenario's quantile of the job's latencies (0.9), or multiple of their median.

    An episode is one job. A checkpoint is at the end of each measuring window; one `step` raises flags there
    and lets a window pass. Flags latch, and change nothing in the job's execution: what a scheduler would gain
    from them is in the episode's metrics. Nothing observed at a checkpoint depends on what happens after it,
    but for the threshold, which NURD gives to every method (`straggler.threshold_known`).

    ## Action Space

    `MultiBinary(N)`: 1 flags a task, N being the scenario's `jobs.tasks_max`. Flags latch: 0 takes none back.
    Flags of tasks that do not run, are flagged already or do not exist have no effect; `mask` shows for which
    a flag counts.

    ## Observation Space

    `Dict` of `Box`es of float32. Times are in measuring windows of the job. Jobs with fewer than N tasks are
    padded with zeros; in padded rows of `tasks` the first three columns are all 0.
    `sysgym.envs.stragglers.view.JobView.of(observation)` cuts the padding off and names everything.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `tasks` | (N, 7) | status of every task, columns below |
    | `counters` | (N, 2C) | mean of the C counters over the complete windows of the attempt so far, then the last complete window; raw units, 0 before; `env.unwrapped.counter_columns` names them |
    | `job` | (9,) | the job as a whole, columns below |
    | `mask` | (N,) | 1 where a flag would count |

    | Column of `tasks` | Meaning | Unit |
    | --- | --- | --- |
    | `pending` | the task has not started | 0 or 1 |
    | `running` | an attempt of it runs | 0 or 1 |
    | `finished` | it has finished | 0 or 1 |
    | `elapsed` | how long its oldest running attempt has run | windows |
    | `latency` | of a finished task, from its start to its end | windows |
    | `flagged` | it was flagged, relaunched or copied before | 0 or 1 |
    | `attempts` | attempts started | count |

    | Column of `job` | Meaning | Unit |
    | --- | --- | --- |
    | `share_finished` | tasks that have finished | fraction of tasks |
    | `checkpoint` | decisions taken before | count |
    | `threshold` | latency from which on a task is a straggler; 0: not known | windows |
    | `latency_q25` | quantile 0.25 of finished tasks' latencies | windows |
    | `latency_q50` | quantile 0.5 of the same | windows |
    | `latency_q75` | quantile 0.75 of the same | windows |
    | `latency_q90` | quantile 0.9 of the same | windows |
    | `free_machines` | machines that nobody uses; -1: no limit | fraction of tasks |
    | `n_tasks` | tasks of the job | fraction of N |

    Everything is at least 0 (`free_machines`: -1) and at most 1e9; shares are at most 1. A finished task keeps
    the counters of its whole life.

    ## Rewards

    The sum of named terms, which `info["reward_terms"]` lists; the scenario may set their weights, 1 each.

    | Name | Terms |
    | --- | --- |
    | `default` | `true_flags`: (threshold - elapsed) / threshold of every straggler flagged in time, over the number of stragglers; `false_flags`: -1 for every flag of another task, over the number of other tasks that had not finished at the first decision; `missed`: on the last step, -1 for every straggler not flagged in time, over the number of stragglers |

    So a return is a mean earliness less a false positive rate less a miss rate, at most 1. A flag is late, and
    the straggler missed, if the task has run for the threshold already. Flagging nothing returns -1; flagging
    everything that runs never returns more than 0.

    ## Starting State

    The job of one episode seed at the first checkpoint at which the scenario's `control.warmup_fraction` of
    its tasks have finished. `reset(seed=...)` seeds the generator that draws the episode seed from the split's
    range; `reset(options={"episode_seed": 20001})` pins it.

    ## Episode End

    Termination: when all tasks have finished; or after `control.max_checkpoints` decisions, when what is left
    of the job runs to its end without further flags and belongs to that step.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `StragglerScenario` | `"google-2011"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | `"train"`, `"validation"` or `"test"`: where episode seeds come from |
    | `reward` | str or None | None | name of the reward; None: the scenario's, which is `"default"` unless it says otherwise |
    | `overrides` | dict or None | None | dotted keys of the scenario to replace, such as `{"jobs.informativeness": 0.5}` |
    | `source` | `JobSource` or None | None | where jobs come from instead of the scenario: an object with `job(split, episode_seed) -> Job` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms (`step` only). They tell the truth at once: agents learn
      from them, and must not decide by them.
    - `metrics`: dict of the checkpoint's metrics, see `sysgym.envs.stragglers.metrics.CHECKPOINT_METRICS`.
    - `episode_metrics`: on the last step, dict of the whole episode's, see `EPISODE_METRICS` there.
    - `episode_seed`, `time_s`: the seed of this episode's job, and time since its submission.

    ## Registered Configurations

    One id, `sysgym/StragglerPrediction-v0`; `scenario` chooses the world: `google-2011`,
    `google-2011-mitigation`, `google-2011-limited`, `alibaba-2018`, `alibaba-2018-hour`, or a file of your own.

    ## Baselines

    Agents `none`, `flag_all`, `random_rate`, rules such as `spark` and `late`, predictors such as `gbtr`,
    `nurd`, `pu_bagging` and `wrangler`, and `oracle` (privileged). `sysgym bench stragglers` plays them on
    held-out jobs and `sysgym report` prints scores with confidence intervals.

    ## References

    - Ding, Rao, Song, Willett, Hoffmann: NURD: Negative-Unlabeled Learning for Online Datacenter Straggler
      Prediction. MLSys 2022, arXiv 2203.08339. Problem, definition of stragglers, warm-up, relaunching.
    - Dean, Barroso: The Tail at Scale. CACM 56(2), 2013. Why stragglers matter.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    REWARDS = PREDICTION
    VERB = "flagged"

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | StragglerScenario = "google-2011",
        split: str = "train",
        reward: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        source: JobSource | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Build the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split or reward does not exist.
        """
        super().__init__(scenario, split, reward, overrides, source, render_mode)

    def _make_action_space(self, tasks_max: int) -> gym.Space[Any]:
        return gym.spaces.MultiBinary(tasks_max)

    def _spare_machines(self) -> int:
        return UNLIMITED  # Nobody uses any.

    def _warm_up(self) -> None:
        super()._warm_up()
        others = ~self.flags.stragglers & np.isnan(self._snapshot.latency_s)
        self._n_others = int(others.sum())

    def _mask(self) -> BoolArray:
        return np.asarray((self._snapshot.state == RUNNING) & ~self.flags.flagged)

    def _act(self, chosen: NDArray[np.int64]) -> None:
        self._raise_flags(np.flatnonzero((chosen == 1) & self._mask()))

    def _outcome(self, before: Flags, *, over: bool) -> Flagging:
        flags = self.flags
        stragglers = int(flags.stragglers.sum())
        new = flags.flagged & ~before.flagged
        return Flagging(
            earliness=float(flags.lead_s[new & flags.true].sum()) / self.threshold_s,
            false_flags=int((new & flags.false).sum()),
            missed=stragglers - int(flags.true.sum()) if over else 0,
            n_stragglers=stragglers,
            n_others=self._n_others,
        )

    def _episode_metrics(self) -> dict[str, float]:
        return prediction_metrics(self.flags, self.first_decision_s, self._drawn.mitigation.spare_machines)
