"""``sysgym/BurstMux-v0``: background training in the gaps of a burst-parallel job."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.bursts.multiplexing import ACTIONS, Multiplexing
from sysgym.envs.bursts.metrics import mux_metrics
from sysgym.envs.bursts.observation import MUX_COLUMNS, MUX_OBSERVERS, MuxState, mux_state_of
from sysgym.envs.bursts.render import mux_picture, mux_text
from sysgym.envs.bursts.rewards import MUX_REWARDS, PLAN_REWARDS, WindowOutcome
from sysgym.envs.discrete import DiscreteEnv
from sysgym.envs.observations import Observer
from sysgym.envs.rewards import Reward
from sysgym.scenarios.schema.bursts import BurstScenario

MEMORY = 0.9
"""Weight of the mean before a measured slowdown."""


class BurstMux(DiscreteEnv[BurstScenario]):
    """Choose how much background training runs beside a burst-parallel job.

    ## Description

    The foreground job follows the plan of DeepPool's planner and leaves GPUs idle during layers that use
    fewer of them. Background training fills these gaps with pieces of work at low priority. Larger batches
    and more outstanding pieces use the gaps better, but slow the foreground down more: it waits for running
    pieces when it needs a GPU back, and its own layers take longer. The size of this slowdown is unknown and
    drifts; only the slowdown of the last window is measured, with an error, and background work and idle share
    are observed as they follow from the measured slowdown.

    A step is a window of length `control.interval_s`. The model of the gaps is an assumption, described in
    `sysgym.emulator.bursts.multiplexing`.

    ## Action Space

    `Discrete(21)`: action 0 is no background work; action 1 + 4 i + j is the batch 1, 2, 4, 8 or 16 (i from 0
    to 4) with j + 1 pieces outstanding on each GPU (j from 0 to 3).

    ## Observation Space

    `Box`, float32, shape (11,).

    | Column of the observation | Meaning | Unit |
    | --- | --- | --- |
    | `slowdown` | slowdown of the foreground, measured in the last window | ratio less 1 |
    | `slowdown_mean` | moving mean of the slowdown, weight 0.9 for the past | ratio less 1 |
    | `background` | background work of the last window, by the measured slowdown | share of all GPUs |
    | `idle` | idle share of the last window, by the measured slowdown | share |
    | `idle_alone` | idle share without background work | share |
    | `gap` | mean length of a gap | log10 of ms |
    | `iteration` | iteration without background work | log10 of ms |
    | `piece` | duration of a piece at the largest batch | log10 of ms |
    | `batch` | background batch of the last window | log2 of 1 + batch |
    | `pieces` | pieces outstanding in the last window | |
    | `windows_left` | windows left | share |

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their weights.

    | Name | Terms |
    | --- | --- |
    | `default` | `foreground`: throughput of the foreground job over that without background work; `background`: background work over that of all GPUs without a foreground job; `excess`: minus ten times the slowdown beyond `background.most_slowdown` |

    ## Starting State

    No background work so far. `reset(seed=...)` seeds the generator that draws the episode seed from the split's range;
    `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: after `control.episode_steps` windows.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `BurstScenario` | `"burst-mux"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"background.piece_s": 2e-3}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the last window's `slowdown`, `background` and `idle_share`.
    - `episode_metrics`: on the last step, see `sysgym.envs.bursts.metrics.MUX_METRICS`.
    - `episode_seed`, `time_s`: the seed of this episode, and the time since it began.

    `env.unwrapped.episode` is the episode, including its future.

    ## Registered Configurations

    One id, `sysgym/BurstMux-v0`; `scenario` selects the configuration: `burst-mux`, `burst-mux-unseen`, or a file of your own.

    ## Baselines

    The agents `no_background`, `constant_background`, `aimd_background`, `model_background`, `bursts/random`,
    `bursts/oracle` (privileged) and learned ones. `sysgym bench bursts` evaluates them.

    ## References

    - Park, Fried, Kim, Alizadeh, Belay: Efficient Strong Scaling Through Burst Parallel Training. MLSys 2022, arXiv
      2112.10065. Background work in pieces at low priority.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    SCENARIO = BurstScenario
    REWARDS = MUX_REWARDS
    FAMILY_REWARDS = (PLAN_REWARDS, MUX_REWARDS)
    OBSERVERS = MUX_OBSERVERS

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | BurstScenario = "burst-mux",
        split: str = "train",
        reward: str | Reward[WindowOutcome] | None = None,
        observation: str | Observer[BurstScenario, MuxState] = "default",
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
        self.episode: Multiplexing
        self._slowdown_mean = 1.0

    @property
    def _n_actions(self) -> int:
        return len(ACTIONS)

    def _names(self) -> list[str]:
        return list(MUX_COLUMNS)

    def _begin(self, episode_seed: int) -> None:
        self.episode = Multiplexing(self.drawn, episode_seed)
        self._slowdown_mean = 1.0

    def _act(self, action: int) -> tuple[WindowOutcome, bool]:
        window = self.episode.step(action)
        self._slowdown_mean += (1.0 - MEMORY) * (self.episode.measured_slowdown - self._slowdown_mean)
        excess = max(window.slowdown - self.drawn.background.most_slowdown, 0.0)
        return WindowOutcome(window, excess), self.episode.over

    def _state(self) -> MuxState:
        return mux_state_of(self.episode, self._slowdown_mean)

    def _info(self) -> dict[str, Any]:
        time_s = len(self.episode.windows) * self.drawn.control.interval_s
        return {**super()._info(), "time_s": time_s}

    def _step_metrics(self) -> dict[str, float]:
        last = self.episode.windows[-1] if self.episode.windows else None
        return {
            "slowdown": 1.0 if last is None else last.slowdown,
            "background": 0.0 if last is None else last.background,
            "idle_share": 1.0 - self.episode.gaps.busy_share if last is None else last.idle_share,
        }

    def _episode_metrics(self) -> dict[str, float]:
        return mux_metrics(self.episode)

    def _text(self) -> str:
        return mux_text(self.scenario.name, self.episode)

    def _picture(self) -> NDArray[np.uint8]:
        return mux_picture(self.scenario.name, self.episode)
