"""``sysgym/JointPlacement-v0``: placement and programs chosen by measurements that cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.candidates import Candidate, Candidates, best_candidates
from sysgym.emulator.accelerators.measurement import Background, TrueSystem, draw_system
from sysgym.emulator.accelerators.problem_draws import draw_problem
from sysgym.emulator.accelerators.step_times import PIPELINED
from sysgym.envs.placement.base import PlacementEnv
from sysgym.envs.placement.metrics import Outcome, log_ratio
from sysgym.envs.placement.observation import (
    BUDGET_COLUMNS,
    CANDIDATE_COLUMNS,
    BoolArray,
    IntArray,
    Observation,
    candidates_table,
    flags_space,
    table_space,
)
from sysgym.envs.placement.render import JointScene, joint_picture, joint_text
from sysgym.envs.placement.rewards import MEASURED
from sysgym.scenarios import PlacementScenario
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.placement import Joint

_TRUTH, _NOISE, _ORDER = range(3)
"""Streams of an episode's random numbers, kept apart: what is hidden does not show in what is seen."""


class Truth:
    """What the environment hides: for oracles and pictures, not for agents.

    Args:
        system: What measurements are taken on.
        candidates: What there is to choose from.
        order: The candidate of each row of the observation.
    """

    def __init__(self, system: TrueSystem, candidates: Candidates, order: IntArray) -> None:
        """Keep them; times are computed when somebody asks."""
        self.system = system
        self._candidates, self._order = candidates, order

    @cached_property
    def times_s(self) -> NDArray[np.float64]:
        """Expected time of the candidate in each row, [K]."""
        return self.system.expected_times_s(self._candidates.times)[self._order]

    @cached_property
    def default_time_s(self) -> float:
        """Expected time of the default."""
        return float(self.system.expected_times_s(self._candidates.default_times)[0])


class JointPlacement(PlacementEnv):
    """Choose a placement and programs on a system that differs from its data sheet; measurements cost.

    ## Description

    Bandwidths in data sheets rank placements and programs; on the machine another one may be the fastest. Links
    of a level are slower or faster than stated, a library does better at one kind of collective than at another,
    and other jobs take a share of every link, now more, now less. One can measure a candidate, with noise, and
    that takes time: which ones, how often, and when is it enough?

    An episode is one problem with a list of candidates: the best pairs of a placement and programs by the data
    sheets, no two of them alike, in an order drawn by the seed. What is hidden is a factor for every level and
    one for every kind of collective, which slow down the same steps in all candidates. So a measurement of one
    tells about the others that spend their time on the same links and collectives; the shares of time in the
    observation say which. Judged is the expected time over all background traffic, which nobody measures.

    ## Action Space

    `Discrete(2 K)`, K being the scenario's `joint.candidates`: action i < K measures the candidate in row i;
    K + i commits to it and ends the episode. `action_mask` shows which rows there are, and whether anything may
    still be measured. An action that the mask forbids ends the episode with the default's time.

    ## Observation Space

    `Dict` of `Box`es of float32; fewer than K candidates are padded with zeros.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `candidates` | (K, 15) | what is known of each, columns below |
    | `budget` | (8,) | what measuring costs, and how far off things can be, columns below |
    | `action_mask` | (2K,) | 1 where an action is allowed |

    | Column of `candidates` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | there is a candidate in this row | 0 or 1 |
    | `nominal` | time by the nominal bandwidths | ln of the ratio to the default's nominal time |
    | `level_0` | nominal time that the links of level 0 bound | share of the nominal time |
    | `level_1` | nominal time that the links of level 1 bound | share of the nominal time |
    | `level_2` | nominal time that the links of level 2 bound | share of the nominal time |
    | `level_3` | nominal time that the links of level 3 bound | share of the nominal time |
    | `AR` | nominal time that links carry all-reduces | share of the nominal time |
    | `RS` | nominal time that links carry reduce-scatters | share of the nominal time |
    | `AG` | nominal time that links carry all-gathers | share of the nominal time |
    | `R` | nominal time that links carry reduces | share of the nominal time |
    | `B` | nominal time that links carry broadcasts | share of the nominal time |
    | `latency` | nominal time that is latency | share of the nominal time |
    | `measured` | times it was measured | count |
    | `mean` | measured times, mean of the logarithms; 0: none | ln of the ratio to the default's nominal time |
    | `sd` | standard deviation of the same; 0: fewer than two | ln |

    | Column of `budget` | Meaning | Unit |
    | --- | --- | --- |
    | `left` | measurements that are left | count |
    | `share_left` | the same | share of the budget |
    | `price` | price of a measurement | reward |
    | `noise` | standard deviation of a measurement's noise | ln |
    | `level_error` | standard deviation of a level's true bandwidth over the nominal one | ln |
    | `collective_error` | standard deviation of what a kind of collective reaches of it | ln |
    | `background` | mean of what others' traffic takes of every uplink | share of its bandwidth |
    | `background_sd` | standard deviation of the same from measurement to measurement | share of the bandwidth |

    The default is the axes in the order given, reduced by all-reduces.

    ## Rewards

    The sum of named terms, which `info["reward_terms"]` lists; the scenario may set their weights, 1 each.

    | Name | Terms |
    | --- | --- |
    | `default` | `speedup`: on the last step, ln(expected true time of the default / of the candidate); `measurements`: minus `joint.measurement_price` for each; `invalid`: -1 for an action that the mask forbids |

    ## Starting State

    The problem and the hidden factors of one episode seed, nothing measured. `reset(seed=...)` seeds the generator
    that draws the episode seed from the split's range; `reset(options={"episode_seed": 20001})` pins it.

    ## Episode End

    Termination: when the agent commits, or takes an action that the mask forbids. So an episode has at most
    `joint.budget` + 1 steps.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `PlacementScenario` | `"joint-unseen"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | `"train"`, `"validation"` or `"test"`: where episode seeds come from |
    | `reward` | str or None | None | name of the reward; None: the scenario's, which is `"default"` unless it says otherwise |
    | `overrides` | dict or None | None | dotted keys of the scenario to replace, such as `{"joint.budget": 5}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms (`step` only).
    - `metrics`: dict of the state's metrics, see `sysgym.envs.placement.metrics.STEP_METRICS`.
    - `episode_metrics`: on the last step, dict of the whole episode's, see `EPISODE_METRICS` there.
    - `episode_seed`: the seed of this episode's problem.
    - `action_mask`: the mask as int8, for `action_space.sample(mask)`.

    `env.unwrapped.action_masks()` returns the mask for sb3-contrib, `env.unwrapped.problem` the problem and
    `env.unwrapped.candidate(row)` a candidate's matrix and programs. `env.unwrapped.truth` is what is hidden: for
    oracles.

    ## Registered Configurations

    One id, `sysgym/JointPlacement-v0`; `scenario` chooses the world: `joint-unseen`, or a file of your own.
    Scenarios of the other environments of the family can be played too.

    ## Baselines

    Agents `default`, `greedy`, `topk`, `ucb`, `bayes`, `placement/oracle` (privileged) and learned ones.
    `sysgym bench placement` plays them on unseen systems and `sysgym report` prints regret with confidence
    intervals.

    ## References

    - Xie, Norman, Grewe, Vytiniotis: Synthesizing Optimal Parallelism Placement and Reduction Strategies on
      Hierarchical Systems for Deep Learning (P2). MLSys 2022, arXiv 2110.10548. Placements and programs ranked by
      a simulator, the best ones measured. What is hidden here, and how, is our convention.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    REWARDS = MEASURED

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | PlacementScenario = "joint-unseen",
        split: str = "train",
        reward: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Build the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used, or its collectives' algorithm is not pipelined.
            UnknownName: If a split or reward does not exist.
        """
        super().__init__(scenario, split, reward, overrides, render_mode)
        _check_algorithm(self.scenario, split)

    def candidate(self, row: int) -> Candidate:
        """Return the placement and programs in a row of the observation.

        Raises:
            IndexError: There is none.
        """
        return self.candidates[int(self.order[row])]

    @property
    def _rows(self) -> int:
        return self.scenario.joint.candidates

    @property
    def _n_actions(self) -> int:
        return 2 * self._rows

    def _make_observation_space(self) -> gym.Space[Any]:
        return gym.spaces.Dict(
            {
                "candidates": table_space(CANDIDATE_COLUMNS, self._rows),
                "budget": table_space(BUDGET_COLUMNS),
                "action_mask": flags_space(2 * self._rows),
            }
        )

    def _begin(self, episode_seed: int) -> None:
        self.problem = draw_problem(self.scenario, self.split, episode_seed)
        drawn = self.scenario.draw(self.split, episode_seed)
        self.joint, table = drawn.joint, drawn.problem
        self.candidates = best_candidates(self.problem, self._rows, table.algorithm, table.program_steps)
        self.order: IntArray = _stream(episode_seed, _ORDER).permutation(len(self.candidates))
        self._default_nominal_s = float(self.candidates.default_times.nominal_s[0])
        self._known = candidates_table(self.candidates, self.order, self._rows)
        self.truth = Truth(self._hidden(episode_seed, self.joint), self.candidates, self.order)
        self._noise = _stream(episode_seed, _NOISE)
        self.measured_s: list[list[float]] = [[] for _ in range(len(self.candidates))]
        self.measurements = 0
        self.committed: int | None = None
        self._last_s: float | None = None

    def _hidden(self, episode_seed: int, joint: Joint) -> TrueSystem:
        return draw_system(
            self.problem.hierarchy.n_levels,
            _stream(episode_seed, _TRUTH),
            bandwidth_log_sd=joint.bandwidth_log_sd,
            collective_log_sd=joint.collective_log_sd,
            background=Background.beta(joint.background_share_mean, joint.background_share_sd),
            noise_log_sd=joint.noise_log_sd,
        )

    @property
    def _left(self) -> int:
        return self.joint.budget - self.measurements

    def _allowed(self) -> BoolArray:
        exists = np.arange(self._rows) < len(self.candidates)
        return np.concatenate([exists & (self._left > 0), exists])

    def _act(self, action: int) -> None:
        self._last_s = None
        if action < self._rows:
            self._measure(action)
            return
        self.committed = action - self._rows
        self.outcome = self._outcome(float(self.truth.times_s[self.committed]))

    def _measure(self, row: int) -> None:
        self._last_s = self.truth.system.measure(self.candidates.times, int(self.order[row]), self._noise)
        self.measurements += 1
        times_s = self.measured_s[row]
        times_s.append(self._last_s)
        logs = [log_ratio(one_s, self._default_nominal_s) for one_s in times_s]
        sd = float(np.std(logs, ddof=1)) if len(logs) > 1 else 0.0
        self._known[row, -3:] = len(logs), sum(logs) / len(logs), sd

    def _invalid(self) -> Outcome:
        self._last_s = None
        return self._outcome(self.truth.default_time_s, valid=False)

    def _outcome(self, time_s: float, *, valid: bool = True) -> Outcome:
        truth = self.truth
        return Outcome(time_s, truth.default_time_s, float(truth.times_s.min()), valid)

    def _terms(self) -> dict[str, float]:
        terms = super()._terms()
        if self._last_s is not None:
            terms |= self.reward.terms(measurements=-self.joint.measurement_price)
        return terms

    def _observe(self) -> Observation:
        joint = self.joint
        budget = [
            self._left,
            self._left / joint.budget if joint.budget else 0.0,
            joint.measurement_price,
            joint.noise_log_sd,
            joint.bandwidth_log_sd,
            joint.collective_log_sd,
            joint.background_share_mean,
            joint.background_share_sd,
        ]
        return {
            "candidates": self._known.copy(),
            "budget": np.array(budget, np.float32),
            "action_mask": self._mask.astype(np.float32),
        }

    def _step_metrics(self) -> dict[str, float]:
        metrics = {
            "steps_left": 0.0 if self.outcome is not None else float(self._left + 1),
            "default_time_s": self._default_nominal_s,
            "measurements": float(self.measurements),
        }
        if self._last_s is not None:
            metrics["measured_time_s"] = self._last_s
        return metrics

    def _episode_metrics(self) -> dict[str, float]:
        assert self.outcome is not None
        times_s = self.truth.times_s
        # The first by the data sheets, wherever the order has put it.
        nominal_s = float(times_s[np.flatnonzero(self.order == 0)[0]])
        return self.outcome.metrics() | {
            "worst_time_s": float(times_s.max()),
            "n_candidates": float(len(times_s)),
            "measurements": float(self.measurements),
            "nominal_regret": log_ratio(nominal_s, self.outcome.best_time_s),
            "net_regret": self.outcome.regret + self.joint.measurement_price * self.measurements,
        }

    def _scene(self) -> JointScene:
        return JointScene(
            title=self.scenario.name,
            problem=self.problem,
            candidates=tuple(map(self.candidate, range(len(self.candidates)))),
            times=self.candidates.times[self.order],
            measured_s=tuple(map(tuple, self.measured_s)),
            budget=self.joint.budget,
            committed=self.committed,
            true_s=self.truth.times_s if self.outcome is not None else None,
            outcome=self.outcome,
        )

    def _text(self) -> str:
        return joint_text(self._scene())

    def _picture(self) -> NDArray[np.uint8]:
        return joint_picture(self._scene())


def _check_algorithm(scenario: PlacementScenario, split: str) -> None:
    key = "problem.algorithm"
    for algorithm in scenario.splits[split].vary.get(key, (scenario.problem.algorithm,)):
        if algorithm not in PIPELINED:
            expected = " or ".join(f'"{name}"' for name in PIPELINED)
            advice = "with the others a step's time cannot be taken apart by levels"
            raise ScenarioError(f"<{scenario.name}>", key, algorithm, expected, advice=advice)


def _stream(episode_seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([episode_seed, stream])
