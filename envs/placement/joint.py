"""``sysgym/JointPlacement-v0``: selection of placement and programs by costly measurements."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.candidates import Candidate
from sysgym.emulator.accelerators.problem_draws import draw_problem
from sysgym.emulator.accelerators.step_times import PIPELINED
from sysgym.envs.observations import Observer
from sysgym.envs.placement.base import PlacementEnv
from sysgym.envs.placement.measurements import Measurements
from sysgym.envs.placement.metrics import STEP_METRICS as NAMES_OF_A_STEP
from sysgym.envs.placement.metrics import Outcome, log_ratio
from sysgym.envs.placement.observation import BoolArray
from sysgym.envs.placement.observers import JOINT, JointState
from sysgym.envs.placement.render import JointScene, joint_picture, joint_text
from sysgym.envs.placement.rewards import MEASURED, DecisionOutcome
from sysgym.envs.rewards import Reward
from sysgym.scenarios import PlacementScenario
from sysgym.scenarios.errors import ScenarioError


class JointPlacement(PlacementEnv):
    """Choose a placement and programs by costly measurements on a system that deviates from its data sheet.

    ## Description

    Nominal bandwidths rank placements and programs, but on the real machine a different one may be the
    fastest. A candidate can be measured, with noise and at a cost. The agent decides which candidates to
    measure, how often, and when to stop.

    An episode is one problem with a list of candidates: the best distinct pairs of a placement and programs
    by nominal bandwidth, in an order drawn by the seed. Their true times are hidden. With `joint.truth` =
    "flows" they are those of a simulation of flows on links that are slower than stated, with a slow node or
    a slow uplink, and the flows of others; the observation contains none of this. With "factors" they are
    those of the cost model with a log-normal factor for every level and every kind of collective; the
    observation contains the standard deviations of the factors. In both cases a measurement of one candidate
    is informative about others that spend time on the same links; the observation contains the shares of
    time. The reward uses the time expected over the traffic of others, which cannot be measured directly.

    ## Action Space

    `Discrete(2 K)`, where K is the scenario's `joint.candidates`: action i < K measures the candidate in row
    i; action K + i commits to it and ends the episode. `action_mask` is 0 for padded rows, and for
    measurements once the budget is used up. An action that the mask forbids ends the episode with the time of
    the default.

    ## Observation Space

    `Dict` of float32 `Box`es; with fewer than K candidates, rows are padded with zeros.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `candidates` | (K, 15) | known properties of the candidates, columns below |
    | `budget` | (8,) | cost of measurements and, if disclosed, size of the deviations, columns below |
    | `action_mask` | (2K,) | 1 where an action is allowed |

    | Column of `candidates` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | there is a candidate in this row | 0 or 1 |
    | `nominal` | time by the nominal bandwidths | ln of the ratio to the default's nominal time |
    | `level_0` | nominal time limited by the links of level 0 | share of the nominal time |
    | `level_1` | nominal time limited by the links of level 1 | share of the nominal time |
    | `level_2` | nominal time limited by the links of level 2 | share of the nominal time |
    | `level_3` | nominal time limited by the links of level 3 | share of the nominal time |
    | `AR` | nominal time that links carry all-reduces | share of the nominal time |
    | `RS` | nominal time that links carry reduce-scatters | share of the nominal time |
    | `AG` | nominal time that links carry all-gathers | share of the nominal time |
    | `R` | nominal time that links carry reduces | share of the nominal time |
    | `B` | nominal time that links carry broadcasts | share of the nominal time |
    | `latency` | nominal time that is latency | share of the nominal time |
    | `measured` | number of measurements | count |
    | `mean` | mean logarithm of the measured times; 0: none | ln of the ratio to the default's nominal time |
    | `sd` | standard deviation of these logarithms; 0: fewer than two | ln |

    | Column of `budget` | Meaning | Unit |
    | --- | --- | --- |
    | `left` | measurements that are left | count |
    | `share_left` | the same | share of the budget |
    | `price` | price of a measurement | reward |
    | `noise` | standard deviation of a measurement's noise | ln |
    | `level_error` | standard deviation of a level's true bandwidth over the nominal one | ln |
    | `collective_error` | standard deviation of the share that a kind of collective reaches | ln |
    | `background` | mean traffic of others on every uplink | share of its bandwidth |
    | `background_sd` | standard deviation of the same between measurements | share of the bandwidth |

    The default placement takes the axes in the order given; its reductions are all-reduces. With
    `joint.truth` = "flows" nothing is disclosed: the columns of `budget` from `noise` on are 0.

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their
    weights, by default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | `speedup`: on the last step, ln(expected true time of the default / of the candidate); `measurements`: minus `joint.measurement_price` for each; `invalid`: -1 for an action that the mask forbids |

    ## Starting State

    The problem and the hidden state of one episode seed, without measurements. `reset(seed=...)` seeds the
    generator that draws the episode seed from the split's range; `reset(options={"episode_seed": 20001})`
    sets it.

    ## Episode End

    Termination: when the agent commits, or takes an action that the mask forbids. An episode has at most
    `joint.budget` + 1 steps.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `PlacementScenario` | `"joint-unseen"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"joint.budget": 5}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the state's metrics, see `sysgym.envs.placement.metrics.STEP_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`: the seed of this episode's problem.
    - `action_mask`: the mask as int8, for `action_space.sample(mask)`.

    `env.unwrapped.action_masks()` returns the mask for sb3-contrib. `env.unwrapped.problem` is the problem,
    and `env.unwrapped.candidate(row)` returns the matrix and programs of a candidate. `env.unwrapped.truth`
    is the hidden state, for oracles.

    ## Registered Configurations

    One id, `sysgym/JointPlacement-v0`; `scenario` selects the configuration: `joint-unseen`,
    `joint-unseen-noisy` (larger deviations that no model explains), `joint-unseen-matched` (the truth follows
    the model that agents know), or a file of your own. Scenarios of the other environments of the family can
    be used too.

    ## Baselines

    The agents `default`, `greedy`, `topk`, `ucb`, `bayes`, `placement/oracle` (privileged) and learned ones.
    `sysgym bench placement-joint` evaluates them on unseen systems and `sysgym report` prints regret with
    confidence intervals.

    ## References

    - Xie, Norman, Grewe, Vytiniotis: Synthesizing Optimal Parallelism Placement and Reduction Strategies on
      Hierarchical Systems for Deep Learning (P2). MLSys 2022, arXiv 2110.10548. Placements and programs
      ranked by a simulator, the best ones measured. The models of the hidden state are our own.

    ## Version History

    - v0: first version. Before the first release `joint-unseen` had hidden factors, like
      `joint-unseen-matched`, latencies of rings were added to their time on links, and a group's bytes were
      equal on all uplinks of a node that it uses, not for all its members.
    """  # noqa: E501, a table's row is one line

    STEP_METRICS = NAMES_OF_A_STEP
    REWARDS = MEASURED
    OBSERVERS = JOINT

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | PlacementScenario = "joint-unseen",
        split: str = "train",
        reward: str | Reward[DecisionOutcome] | None = None,
        observation: str | Observer[PlacementScenario, JointState] = "default",
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Create the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used, or the algorithm of collectives is not pipelined.
            UnknownName: If a split, reward or observation does not exist.
            ArgumentError: If the observation has no space.
        """
        super().__init__(scenario, split, reward, observation, overrides, render_mode)
        _check_algorithm(self.scenario, split)

    def candidate(self, row: int) -> Candidate:
        """Return the placement and programs in a row of the observation.

        Raises:
            IndexError: If the row has no candidate.
        """
        return self.candidates[int(self.order[row])]

    @property
    def _rows(self) -> int:
        return self.scenario.joint.candidates

    @property
    def _n_actions(self) -> int:
        return 2 * self._rows

    def _begin(self, episode_seed: int) -> None:
        drawn = self.drawn
        self.problem = draw_problem(self.scenario, self.split, episode_seed)
        known = Measurements(self.problem, drawn, self._rows, episode_seed)
        self.candidates, self.order, self.truth = known.candidates, known.order, known.truth
        self.joint, self.measured_s, self._known = drawn.joint, known.measured_s, known
        self.committed: int | None = None
        self._last_s: float | None = None

    @property
    def _left(self) -> int:
        return self.joint.budget - self._known.n_taken

    def _allowed(self) -> BoolArray:
        exists = np.arange(self._rows) < len(self.candidates)
        return np.concatenate([exists & (self._left > 0), exists])

    def _decide(self, action: int) -> None:
        self._last_s = None
        if action < self._rows:
            self._last_s = self._known.measure(action)
        else:
            self.committed = action - self._rows
            self.outcome = self._outcome(float(self.truth.times_s[self.committed]))

    def _invalid(self) -> Outcome:
        self._last_s = None
        return self._outcome(self.truth.default_time_s, valid=False)

    def _outcome(self, time_s: float, *, valid: bool = True) -> Outcome:
        truth = self.truth
        return Outcome(time_s, truth.default_time_s, float(truth.times_s.min()), valid)

    def _decision_outcome(self) -> DecisionOutcome:
        measured = self._last_s is not None
        return DecisionOutcome(self.outcome, self.joint.measurement_price if measured else 0.0)

    def _state(self) -> JointState:
        known = self._known
        return JointState(
            self.problem,
            self.candidates,
            self.order,
            self.measured_s,
            known.table,
            known.n_taken,
            self.joint,
            self._mask,
        )

    def _step_metrics(self) -> dict[str, float]:
        metrics = {
            "steps_left": 0.0 if self.outcome is not None else float(self._left + 1),
            "default_nominal_s": self._known.default_nominal_s,
            "measurements": float(self._known.n_taken),
        }
        if self._last_s is not None:
            metrics["measured_time_s"] = self._last_s
        return metrics

    def _episode_metrics(self) -> dict[str, float]:
        assert self.outcome is not None
        times_s = self.truth.times_s
        # The first by nominal bandwidth, in whatever row it is.
        nominal_s = float(times_s[np.flatnonzero(self.order == 0)[0]])
        return self.outcome.metrics() | {
            "worst_time_s": float(times_s.max()),
            "n_candidates": float(len(times_s)),
            "measurements": float(self._known.n_taken),
            "nominal_regret": log_ratio(nominal_s, self.outcome.best_time_s),
            "net_regret": self.outcome.regret + self.joint.measurement_price * self._known.n_taken,
        }

    def _scene(self) -> JointScene:
        return JointScene(
            title=self.scenario.name,
            problem=self.problem,
            candidates=tuple(map(self.candidate, range(len(self.candidates)))),
            times=self.candidates.times[self.order],
            measured_s=tuple(map(tuple, self.measured_s)),
            budget=self.joint.budget,
            most_candidates=self._rows,
            most_budget=self._largest("joint", "budget"),
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
