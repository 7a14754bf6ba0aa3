"""``sysgym/TrainingTuning-v0``: gradient buckets of a data-parallel step, one change at a time."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.tuning.job import Profile, Truth, as_thought, draw_job
from sysgym.emulator.tuning.plans import KINDS, allowed, by_need, changed, fused, in_order, pytorch_default
from sysgym.emulator.tuning.timing import Plan, step_of
from sysgym.envs.decisions import BoolArray
from sysgym.envs.observations import Observer
from sysgym.envs.plan_tuning import ChangeOutcome, PlanTuningEnv
from sysgym.envs.rewards import Reward
from sysgym.envs.tuning.observation import OBSERVERS, TuningState, n_rows
from sysgym.envs.tuning.render import TuningScene, tuning_picture, tuning_text
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.tuning import TuningScenario


class TrainingTuning(PlanTuningEnv[TuningScenario, Plan]):
    """Change the gradient buckets of a data-parallel training step, and measure the step time.

    ## Description

    Workers sum their gradients with ring all-reduces during the backward pass. Few large buckets leave a long
    transfer at the end; many small buckets each add a latency. The next forward pass needs the first layers
    first, whose gradients are ready last, so the order of the transfers matters too.

    An episode is one job. A step makes one local change to the plan and measures the true time of a training
    step. The agent also sees the prediction of its profile: a replay without the slowdown of computing during
    transfers, without jitter, without the traffic of others, and without the launch time of each bucket. The
    best measured plan counts.

    ## Action Space

    `Discrete(3 R)` for R rows, one more than the scenario's `control.most_buckets`: action h R + r makes
    change h to the bucket in row r: 0 merges it with the next one, 1 splits it into two halves, 2 moves it
    one place earlier in the order of transfers. Action 0 ends the episode. `action_mask` marks the allowed
    actions. An action that the mask forbids ends the episode.

    ## Observation Space

    `Dict` of float32 `Box`es, padded with zeros to R rows. Times are those of the profile.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `buckets` | (R, 11) | the buckets, columns below |
    | `job` | (9,) | the job as a whole, columns below |
    | `action_mask` | (3 R,) | 1 where an action is allowed |

    | Column of `buckets` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | there is a choice in this row | 0 or 1 |
    | `stop` | the row ends the episode; the others are buckets | 0 or 1 |
    | `size` | gradients of the bucket | log10 of MB |
    | `layers` | layers of the bucket | share of all |
    | `place` | place in the order in which buckets are sent | share of all |
    | `transfer` | time of its transfer, by the profile | share of all computing |
    | `ready` | time from which it may be sent, by the profile | share of all computing |
    | `wait` | from then until its first byte is sent | share of all computing |
    | `arrival` | time at which it has arrived | share of all computing |
    | `slack` | from its arrival until its first layer could compute | share of all computing |
    | `stall` | time that computing waits for it | share of all computing |

    | Column of `job` | Meaning | Unit |
    | --- | --- | --- |
    | `workers` | workers | log10 |
    | `compute` | time of all computing | log10 of ms |
    | `transfer` | time of one bucket with all gradients | share of all computing |
    | `latency` | part of each transfer that does not depend on its size | share of all computing |
    | `predicted` | time of the step by the profile, less 1 | share of all computing |
    | `measured` | true time of the step, less 1 | share of all computing |
    | `best` | least true time so far, less 1 | share of all computing |
    | `first` | true time at the beginning, less 1 | share of all computing |
    | `left` | changes left | share |

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their
    weights, by default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | `time`: decrease of the least true time so far, over that at the beginning; `invalid`: -1 for an action that the mask forbids |
    | `present` | `time`: decrease of the true time by the change, over that at the beginning; `invalid`: -1 for an action that the mask forbids |

    ## Starting State

    The plan of `job.start`, by default the buckets of PyTorch's DistributedDataParallel: each is closed
    once it has 25 MiB, the first once it has 1 MiB.
    `reset(seed=...)` seeds the generator that draws the episode seed from the split's range;
    `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: after `control.episode_steps` changes, by action 0, or after an action that the mask forbids.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `TuningScenario` | `"tuning-buckets"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"job.workers": 64}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the state's metrics, see `sysgym.envs.tuning.metrics.STEP_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`: the seed of this episode.
    - `action_mask`: the mask as int8, for `action_space.sample(mask)`.

    `env.unwrapped.action_masks()` returns the mask for sb3-contrib, and `env.unwrapped.profile` is the job.
    `env.unwrapped.adopt(plan)` measures a plan made elsewhere; it counts as a change.

    ## Registered Configurations

    One id, `sysgym/TrainingTuning-v0`; `scenario` selects the configuration: `tuning-buckets`, `tuning-unseen`, or a file of your own.

    ## Baselines

    The agents `25_mb`, `best_cap`, `fusion`, `fusion_by_need`, `critical_path`, `tuning/annealing`,
    `local_search`, `tuning/random`, `tuning/oracle` (privileged) and learned ones. `sysgym bench tuning`
    evaluates them on unseen jobs and `sysgym report` prints speed-ups with confidence intervals.

    ## References

    - Hu et al.: dPRO: A Generic Performance Diagnosis and Optimization Toolkit for Expediting Distributed DNN Training. MLSys 2022.
      Replay of a step, and search among local changes.
    - Peng et al.: A Generic Communication Scheduler for Distributed DNN Training Acceleration (ByteScheduler). SOSP
      2019. Order of transfers.
    - Li et al.: PyTorch Distributed: Experiences on Accelerating Data Parallel Training. VLDB 2020. Buckets of 25 MiB.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    SCENARIO = TuningScenario
    OBSERVERS = OBSERVERS

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | TuningScenario = "tuning-buckets",
        split: str = "train",
        reward: str | Reward[ChangeOutcome] | None = None,
        observation: str | Observer[TuningScenario, TuningState] = "default",
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
        self.profile: Profile
        self._truth: Truth

    @property
    def truth(self) -> Truth:
        """Effects that the profile leaves out; agents do not know them."""
        return self._truth

    def neighbours(self, plan: Plan) -> list[Plan]:
        """Return the plans that differ by one change."""
        return [
            changed(plan, self.profile, bucket, kind)
            for bucket, of_bucket in enumerate(allowed(plan, self.scenario.control.most_buckets))
            for kind, may in zip(KINDS, of_bucket, strict=True)
            if may
        ]

    def starts(self) -> list[Plan]:
        """Return the exact fusion, one bucket, and the fusion and PyTorch's buckets in the order of need."""
        fusion, n_layers = fused(self.profile), len(self.profile.forward_s)
        return [by_need(fusion), fusion, by_need(pytorch_default(self.profile)), in_order((n_layers,))]

    def profile_time_s(self, plan: Plan) -> float:
        """Return the time of a plan by the profile."""
        return step_of(plan, self.profile, self._thought).time_s

    def true_time_s(self, plan: Plan) -> float:
        """Return the true time of a plan without counting it: for metrics and privileged agents."""
        return step_of(plan, self.profile, self._truth).time_s

    @property
    def _n_actions(self) -> int:
        return len(KINDS) * n_rows(self.scenario)

    def _draw_job(self, episode_seed: int) -> Plan:
        self.profile, self._truth = draw_job(self.drawn, episode_seed)
        self._thought = as_thought(self.profile)
        n_layers = len(self.profile.forward_s)
        if self.drawn.job.start == "one_bucket":
            return in_order((n_layers,))
        if self.drawn.job.start == "one_layer":
            return in_order(tuple(range(1, n_layers + 1)))
        return pytorch_default(self.profile)

    def _check_plan(self, plan: Plan) -> None:
        n_layers = len(self.profile.forward_s)
        ends = plan.ends
        rising = all(a < b for a, b in zip((0, *ends), ends, strict=False))
        if not rising or ends[-1] != n_layers or sorted(plan.order) != list(range(len(ends))):
            raise SysgymError(
                f"expected buckets that end at {n_layers} layers, and an order of them, got {plan}"
            )

    def _draw_change(self, plan: Plan, rng: np.random.Generator) -> Plan | None:
        bucket, kind = divmod(int(rng.integers(len(KINDS) * len(plan.ends))), len(KINDS))
        if not allowed(plan, self.scenario.control.most_buckets)[bucket][kind]:
            return None
        return changed(plan, self.profile, bucket, KINDS[kind])

    def _changes(self) -> BoolArray:
        rows = n_rows(self.scenario)
        mask = np.zeros((len(KINDS), rows), np.bool_)
        of_bucket = np.array(allowed(self.plan, self.scenario.control.most_buckets))[: rows - 1]
        mask[:, 1 : len(of_bucket) + 1] = of_bucket.T
        return mask.ravel()

    def _after(self, action: int) -> Plan:
        head, row = divmod(action, n_rows(self.scenario))
        return changed(self.plan, self.profile, row - 1, KINDS[head])

    def _state(self) -> TuningState:
        left = 1.0 - self.tried / self.most_measurements
        return TuningState(
            self.drawn,
            self.profile,
            self.plan,
            step_of(self.plan, self.profile, self._thought),
            self.measured_s,
            self.best_s,
            self.first_s,
            left,
            self._mask,
        )

    def _plan_metrics(self, plan: Plan) -> dict[str, float]:
        return {"buckets": float(len(plan.ends))}

    def _job_metrics(self) -> dict[str, float]:
        n_layers = len(self.profile.forward_s)
        every_layer = in_order(tuple(range(1, n_layers + 1)))
        return {
            "speedup": self.true_time_s(pytorch_default(self.profile)) / self.best_s,
            "speedup_over_one_bucket": self.true_time_s(in_order((n_layers,))) / self.best_s,
            "speedup_over_layers": self.true_time_s(every_layer) / self.best_s,
            "exposed": self.best_s / self.profile.compute_s - 1.0,
        }

    def _scene(self) -> TuningScene:
        truth = step_of(self.plan, self.profile, self._truth)
        return TuningScene(self.scenario.name, self.plan, self.profile, truth, self.first_s, self.best_s)

    def _text(self) -> str:
        return tuning_text(self._scene())

    def _picture(self) -> NDArray[np.uint8]:
        return tuning_picture(self._scene())
