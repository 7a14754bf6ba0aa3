"""``sysgym/BurstPlan-v0``: the number of GPUs of every layer of a training job."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.bursts.layers import FloatArray, Layers, draw_layers, gpu_counts, step_times_s
from sysgym.emulator.bursts.planning import by_layer, optimal_plan, plan_cost, prices
from sysgym.envs.bursts.metrics import plan_metrics
from sysgym.envs.bursts.observation import PLAN_OBSERVERS, PlanState, plan_columns
from sysgym.envs.bursts.render import plan_picture, plan_text
from sysgym.envs.bursts.rewards import MUX_REWARDS, PLAN_REWARDS, LayerOutcome
from sysgym.envs.discrete import DiscreteEnv
from sysgym.envs.observations import Observer
from sysgym.envs.rewards import Reward
from sysgym.scenarios.schema.bursts import BurstScenario


class BurstPlan(DiscreteEnv[BurstScenario]):
    """Choose the number of GPUs of every layer of a data-parallel training job.

    ## Description

    The global batch of a job is fixed, so the batch per GPU shrinks as GPUs are added, and layers differ in
    how well they scale. Burst-parallel training gives many GPUs only to the layers that benefit from them;
    other jobs use the remaining GPU time. The time of a layer has a part that shrinks with the batch and a
    fixed part. A layer on several GPUs also exchanges the gradients of its parameters, and where the number
    of GPUs changes, activations and their gradients are moved.

    An episode builds a plan; each step chooses the number of GPUs of the next layer. The agent sees a
    profile, whose entries have an error if `job.profile_log_sd` is above 0; the rewards use the true times.

    ## Action Space

    `Discrete(1 + log2(job.gpus))`: action k gives the layer 2^k GPUs. More GPUs than samples in the batch
    bring no further speed-up.

    ## Observation Space

    `Box`, float32, 3 n + 11 values for n GPU counts: with eight GPUs shape (23,).

    | Column of the observation | Meaning | Unit |
    | --- | --- | --- |
    | `time_0_on_1` ... `time_0_on_8` | profiled time of the next layer on 1 ... 8 GPUs | log10 of ms |
    | `input_0` | input of the next layer, whole batch | log10 of MB |
    | `parameters_0` | gradients of the next layer | log10 of MB |
    | `time_1_on_1` ... `parameters_1` | the same of the layer after it; 0 if there is none | |
    | `last_on_1` ... `last_on_8` | the last layer has 1 ... 8 GPUs | 0 or 1 |
    | `layers_left` | layers without a number of GPUs | share of all |
    | `work_left` | time of these layers on one GPU | share of that of all layers |
    | `fixed_left` | time of these layers on all GPUs over that on one | log10 |
    | `elapsed` | time of the previous layers | share of that of all on one GPU |
    | `used` | GPU time of the previous layers | share of that of all on one GPU |
    | `idle_value` | value of an idle GPU's time | share |
    | `bandwidth` | bandwidth of a GPU | log10 of Gbit/s |

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their weights, by
    default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | `time`: minus the time that the layer adds to an iteration; `idle`: plus the idle GPU time during the layer, divided by the number of GPUs, times `background.idle_value`; both divided by the time of an iteration on one GPU |

    ## Starting State

    No layer has a number of GPUs yet. `reset(seed=...)` seeds the generator that draws the episode seed from
    the split's range; `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: when every layer has a number of GPUs.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `BurstScenario` | `"burst-plan"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"job.gpus": 32}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of `elapsed_s`, `gpu_s` and `layers` so far.
    - `episode_metrics`: on the last step, see `sysgym.envs.bursts.metrics.PLAN_METRICS`.
    - `episode_seed`: the seed of this episode.

    `env.unwrapped.profile` has the profiled layers.

    ## Registered Configurations

    One id, `sysgym/BurstPlan-v0`; `scenario` selects the configuration: `burst-plan`, `burst-plan-unseen`, or a file of your
    own.

    ## Baselines

    The agents `data_parallel`, `one_gpu`, `fixed_gpus`, `knee`, `deeppool`, `dynamic_program`,
    `bursts/random`, `bursts/oracle` (privileged) and learned ones. `sysgym bench bursts` evaluates them and `sysgym report` prints regret with confidence
    intervals.

    ## References

    - Park, Fried, Kim, Alizadeh, Belay: Efficient Strong Scaling Through Burst Parallel Training. MLSys 2022, arXiv
      2112.10065. Burst parallelism, the planner and its limit on amplification.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    SCENARIO = BurstScenario
    REWARDS = PLAN_REWARDS
    FAMILY_REWARDS = (PLAN_REWARDS, MUX_REWARDS)
    OBSERVERS = PLAN_OBSERVERS

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | BurstScenario = "burst-plan",
        split: str = "train",
        reward: str | Reward[LayerOutcome] | None = None,
        observation: str | Observer[BurstScenario, PlanState] = "default",
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
        self.layers: Layers
        self.profile: Layers
        self.exponents: list[int] = []
        self._steps_s: FloatArray
        self._prices: FloatArray

    @property
    def plan(self) -> NDArray[np.int64]:
        """Exponents of the GPU counts so far."""
        return np.array(self.exponents, np.int64)

    @property
    def true_steps_s(self) -> FloatArray:
        """True times of the layers, which agents do not know; see :func:`step_times_s`."""
        return self._steps_s

    @property
    def _n_actions(self) -> int:
        return len(gpu_counts(self.scenario.job.gpus))

    def _names(self) -> list[str]:
        return list(plan_columns(self._n_actions))

    def _begin(self, episode_seed: int) -> None:
        self.layers, self.profile = draw_layers(self.drawn, episode_seed)
        self._steps_s = step_times_s(self.layers, self.drawn)
        self._prices = prices(self.layers, self._steps_s, self.drawn.background.idle_value)
        self.exponents = []
        self._elapsed_s = self._gpu_s = 0.0

    def _act(self, action: int) -> tuple[LayerOutcome, bool]:
        layer, before = len(self.exponents), self.exponents[-1] if self.exponents else action
        took_s = float(self._steps_s[layer, before, action])
        self.exponents.append(action)
        self._elapsed_s += took_s
        self._gpu_s += took_s * float(self.layers.gpus[action])
        share = took_s / self.layers.one_gpu_s
        idle = share * (1.0 - float(self.layers.gpus[action] / self.layers.gpus[-1]))
        outcome = LayerOutcome(share, idle * self.drawn.background.idle_value)
        return outcome, len(self.exponents) == len(self.layers.compute_s)

    def _state(self) -> PlanState:
        return PlanState(self.drawn, self.profile, self.exponents, self._elapsed_s, self._gpu_s)

    def _step_metrics(self) -> dict[str, float]:
        return {
            "elapsed_s": self._elapsed_s,
            "gpu_s": self._gpu_s,
            "layers": float(len(self.exponents)),
        }

    def _episode_metrics(self) -> dict[str, float]:
        plan = self.plan
        price = float(by_layer(plan, self._prices).sum())
        _, optimum = optimal_plan(self.layers, self._steps_s, self.drawn.background.idle_value)
        cost = plan_cost(plan, self.layers, self._steps_s)
        return plan_metrics(cost, price, optimum, int(np.count_nonzero(np.diff(plan))), self.layers)

    def _text(self) -> str:
        return plan_text(self.scenario.name, self.plan, self.layers, self._steps_s)

    def _picture(self) -> NDArray[np.uint8]:
        return plan_picture(self.scenario.name, self.plan, self.layers, self._steps_s)
