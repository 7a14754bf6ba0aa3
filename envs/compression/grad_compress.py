"""``sysgym/GradCompress-v0``: the compression of gradients while bandwidth and workers change."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.compression.run import TrainingRun
from sysgym.emulator.compression.times import N_METHODS
from sysgym.envs.compression.metrics import episode_metrics, step_metrics
from sysgym.envs.compression.observation import NAMES, OBSERVERS, RunState, state_of
from sysgym.envs.compression.render import picture, text
from sysgym.envs.compression.rewards import REWARDS, WindowOutcome
from sysgym.envs.discrete import DiscreteEnv
from sysgym.envs.observations import Observer
from sysgym.envs.rewards import Reward
from sysgym.scenarios.schema.compression import CompressionScenario


class GradCompress(DiscreteEnv[CompressionScenario]):
    """Choose how the gradients of data-parallel training are compressed, while conditions change.

    ## Description

    In every iteration of data-parallel training the workers exchange their gradients. Compression shortens
    the exchange, but takes time for encoding and decoding, loses some progress of each iteration, and cannot
    overlap the backward pass as the exchange of uncompressed gradients does. Whether it pays off depends on
    the bandwidth, the number of workers and the model; Agarwal et al. found that it seldom does.

    An episode is a training job. A step is a window of wall time, `control.decision_interval_s`, in which all
    iterations use one method. The time of an iteration follows in closed form from Agarwal et al.'s model.
    From window to window the bandwidth drifts, background traffic comes and goes, the number of workers may
    double or halve, and the backward pass takes as long as on the slowest worker. All of this is drawn before
    the episode begins, so that every policy meets the same conditions.

    An iteration with method m counts as 1 - q(m) iterations of progress, where q is larger in critical phases
    of the training. A change to a method with error feedback loses some iterations of progress until its
    error memory is filled. These losses are assumptions of the scenario.

    ## Action Space

    `Discrete(9)`: the method of the next window.

    | Action | Method |
    | --- | --- |
    | 0 | none: 32 bits per value, or 16 if `job.half_precision` |
    | 1 | 16 bits per value |
    | 2, 3, 4, 5 | PowerSGD of rank 1, 4, 8, 16 |
    | 6, 7 | Top-K with 1 %, 10 % of the values |
    | 8 | sign-SGD with majority vote |

    ## Observation Space

    `Box`, float32, shape (29,). The job has run one window without compression before the first step, from
    which the first measurements come. Times and progress are exact, as a job's clock and counter are; only
    the goodput has an error. An agent that knows the cost model can compute the goodput of the last window
    from the time of an iteration.

    | Column of the observation | Meaning | Unit |
    | --- | --- | --- |
    | `gradient` | gradient of a worker at 32 bits per value | log10 of MB |
    | `backward` | backward pass of the slowest worker, last window | log10 of 100 ms |
    | `workers` | workers, last window | log2 |
    | `goodput` | goodput measured in the last window, with an error | log10 of Gbit/s |
    | `goodput_mean` | mean of that logarithm over the last 10 windows | log10 of Gbit/s |
    | `goodput_sd` | standard deviation of that logarithm over these windows | log10 |
    | `iteration` | time of an iteration, last window, exact | log10 of 100 ms |
    | `waiting` | share of that time outside forward and backward pass | share |
    | `progress` | progress of the job, exact | share |
    | `critical` | the training is in a critical phase | 0 or 1 |
    | `phase_left` | progress until the phase ends | share of the job |
    | `uses_none` | method of the last window: no compression | 0 or 1 |
    | `uses_half_precision` | method of the last window: 16 bits per value | 0 or 1 |
    | `uses_powersgd_1` | method of the last window: PowerSGD of rank 1 | 0 or 1 |
    | `uses_powersgd_4` | method of the last window: PowerSGD of rank 4 | 0 or 1 |
    | `uses_powersgd_8` | method of the last window: PowerSGD of rank 8 | 0 or 1 |
    | `uses_powersgd_16` | method of the last window: PowerSGD of rank 16 | 0 or 1 |
    | `uses_top_k_1_percent` | method of the last window: Top-K, 1 % | 0 or 1 |
    | `uses_top_k_10_percent` | method of the last window: Top-K, 10 % | 0 or 1 |
    | `uses_sign` | method of the last window: sign-SGD | 0 or 1 |
    | `expects_none` | expected progress per second over that without compression: no compression | ln |
    | `expects_half_precision` | expected progress per second over that without compression: 16 bits per value | ln |
    | `expects_powersgd_1` | expected progress per second over that without compression: PowerSGD of rank 1 | ln |
    | `expects_powersgd_4` | expected progress per second over that without compression: PowerSGD of rank 4 | ln |
    | `expects_powersgd_8` | expected progress per second over that without compression: PowerSGD of rank 8 | ln |
    | `expects_powersgd_16` | expected progress per second over that without compression: PowerSGD of rank 16 | ln |
    | `expects_top_k_1_percent` | expected progress per second over that without compression: Top-K, 1 % | ln |
    | `expects_top_k_10_percent` | expected progress per second over that without compression: Top-K, 10 % | ln |
    | `expects_sign` | expected progress per second over that without compression: sign-SGD | ln |

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their
    weights, by default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | progress of the window over that without compression at the same instant, minus 1, in parts: `speed`: more or fewer iterations; `loss`: minus what the method loses of them; `rebuild`: minus what a change takes back |
    | `saved` | `progress`: progress of the window over that of the job; `time`: minus the time used, over the time of the whole job without compression |

    In the window in which the job ends, only the time used counts. The return of `saved` is the share of its
    time without compression that a finished job has saved. The default reward judges every window by itself,
    and its sum grows with the number of windows: a slow run through hours of little bandwidth can have a
    larger return than the fastest run.

    ## Starting State

    The job at its beginning, without compression so far, and the conditions of one episode seed.
    `reset(seed=...)` seeds the generator that draws the episode seed from the split's range;
    `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: when the job has made the progress of `job.iterations` iterations without compression.

    Truncation: after `control.episode_steps` steps.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `CompressionScenario` | `"compression-drift"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"network.median_bps": 5e9}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the window's metrics, see `sysgym.envs.compression.metrics.STEP_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`, `time_s`: the seed of this episode, and the time since the job began.

    `env.unwrapped.run` is the training run, including its conditions and its optimum.

    ## Registered Configurations

    One id, `sysgym/GradCompress-v0`; `scenario` selects the configuration: `compression-datacenter`,
    `compression-drift`, `compression-unseen`, or a file of your own.

    ## Baselines

    The agents `never`, one for each method (`powersgd_4`, ...), `crossover`, `accordion`,
    `compression/oracle` (privileged) and learned ones. `sysgym bench compression` evaluates them and `sysgym report` prints regret
    with confidence intervals.

    ## References

    - Agarwal, Wang, Venkataraman, Papailiopoulos: On the Utility of Gradient Compression in Distributed
      Training Systems. MLSys 2022, arXiv 2103.00543. The model of an iteration's time.
    - Agarwal, Wang, Lee, Venkataraman, Papailiopoulos: Accordion: Adaptive Gradient Communication via
      Critical Learning Regime Identification. MLSys 2021, arXiv 2010.16248. Critical phases.
    - Vogels, Karimireddy, Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for Distributed
      Optimization. NeurIPS 2019, arXiv 1905.13727.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    SCENARIO = CompressionScenario
    REWARDS = REWARDS
    OBSERVERS = OBSERVERS

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | CompressionScenario = "compression-drift",
        split: str = "train",
        reward: str | Reward[WindowOutcome] | None = None,
        observation: str | Observer[CompressionScenario, RunState] = "default",
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
        self.run: TrainingRun

    @property
    def _n_actions(self) -> int:
        return N_METHODS

    def _names(self) -> list[str]:
        return NAMES

    def _begin(self, episode_seed: int) -> None:
        self.run = TrainingRun(self.drawn, episode_seed)

    def _act(self, action: int) -> tuple[WindowOutcome, bool]:
        run = self.run
        happened = run.step(action)
        outcome = WindowOutcome(happened, run.interval_s, run.training.iterations, run.uncompressed.finish_s)
        return outcome, run.finished

    def _truncated(self) -> bool:
        return self.run.exhausted

    def _state(self) -> RunState:
        return state_of(self.run, self.drawn.job.gradient_bytes)

    def _step_metrics(self) -> dict[str, float]:
        return step_metrics(self.run)

    def _episode_metrics(self) -> dict[str, float]:
        return episode_metrics(self.run)

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "time_s": self.run.time_s}

    def _text(self) -> str:
        return text(self.scenario.name, self.run)

    def _picture(self) -> NDArray[np.uint8]:
        return picture(self.scenario.name, self.run)
