"""``sysgym/CollectivePlacement-v0``: placement of parallelism axes on a hierarchy of accelerators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.matrices import Matrix, allowed_axes, matrix_of_steps
from sysgym.emulator.accelerators.problem_draws import draw_problem, stated_problem
from sysgym.envs.observations import Observer
from sysgym.envs.placement.base import PlacementEnv
from sysgym.envs.placement.metrics import Outcome, log_ratio
from sysgym.envs.placement.observation import BoolArray
from sysgym.envs.placement.observers import PLACEMENT, PlacementState
from sysgym.envs.placement.render import PlacementScene, placement_picture, placement_text
from sysgym.envs.placement.rewards import SPEEDUP, DecisionOutcome
from sysgym.envs.placement.tasks import placement_task
from sysgym.envs.rewards import Reward
from sysgym.scenarios import PlacementScenario
from sysgym.scenarios.schema.placement import MOST_AXES


class CollectivePlacement(PlacementEnv):
    """Place the axes of a parallel job on a hierarchy of accelerators, so that its reductions are fast.

    ## Description

    A training job divides its work along axes of parallelism: data, tensor, pipeline. Along some axes it
    repeatedly reduces vectors over all devices. Devices are grouped in nodes and racks, and links between
    nodes are shared and far slower than links within a node. The placement of the axes changes the time of
    the reductions by orders of magnitude; this is the first half of P2's problem. A placement is a matrix of
    factors with a row for each axis and a column for each level. The product of a row is the size of the
    axis, that of a column the cardinality of the level. Several reductions of different sizes share one
    placement.

    An episode is one problem. Every step assigns the next prime factor of a level, outermost level first, to
    an axis. After the last one the matrix is complete, and a cost model gives the time of the reductions.
    Equal primes of a level are assigned to axes in non-descending order, so every matrix is reached in
    exactly one way.

    The optimum in the metrics is the best of all matrices, by exhaustive search with the cost model. It is
    exact for the axes in the order given: inside a level, devices are numbered in the order of the axes, the
    last one between neighbours, and no action changes this. On a ring, the same axes in another order can
    have an optimum that is twice as fast (`docs/placement.md`).

    ## Action Space

    `Discrete(4)`: the axis that receives the next prime. `action_mask` allows an axis if it still needs the
    prime, and if it and later axes can take the remaining equal primes. An action that the mask forbids ends
    the episode with the time of the default. With a single device there is nothing to place: action 0 ends
    the episode.

    ## Observation Space

    `Dict` of float32 `Box`es, padded with zeros to four levels, axes and reductions; levels are ordered
    outermost first.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `levels` | (4, 7) | the system, columns below |
    | `axes` | (4, 4) | the axes, columns below |
    | `reductions` | (4, 6) | the reductions, columns below |
    | `matrix` | (4, 4) | log10 of the factors placed so far, rows axes, columns levels |
    | `next` | (7,) | the next decision, columns below |
    | `action_mask` | (4,) | 1 where an axis may get the next prime |

    | Column of `levels` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | the system has this level | 0 or 1 |
    | `cardinality` | instances inside one of the level above | log10 |
    | `bandwidth` | of each uplink of an instance, one direction | log10 GB/s |
    | `latency` | of one hop between siblings | log10 us |
    | `uplinks` | parallel uplinks of an instance | log10 |
    | `devices` | devices inside an instance | log10 |
    | `ring` | siblings are joined in a ring, not by a switch | 0 or 1 |

    | Column of `axes` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | the problem has this axis | 0 or 1 |
    | `size` | its size | log10 |
    | `left` | part of its size that is not placed yet | log10 |
    | `load` | bytes of the reductions over it | share of all reductions' bytes |

    | Column of `reductions` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | the problem has this reduction | 0 or 1 |
    | `size` | the vector on each device | log10 MB |
    | `axis_0` | axis 0 is reduced | 0 or 1 |
    | `axis_1` | axis 1 is reduced | 0 or 1 |
    | `axis_2` | axis 2 is reduced | 0 or 1 |
    | `axis_3` | axis 3 is reduced | 0 or 1 |

    | Column of `next` | Meaning | Unit |
    | --- | --- | --- |
    | `level_0` | the next prime is one of level 0 | 0 or 1 |
    | `level_1` | the next prime is one of level 1 | 0 or 1 |
    | `level_2` | the next prime is one of level 2 | 0 or 1 |
    | `level_3` | the next prime is one of level 3 | 0 or 1 |
    | `prime` | the next prime | log10 |
    | `equal` | equal primes of this level that are left, the next one included | log10 |
    | `left` | primes that are left, the next one included | share of all primes |

    Logarithms are clipped to -40 to 40.

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their
    weights, by default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | `speedup`: on the last step, ln(time of the default placement / time of the one chosen); `invalid`: -1 for an action that the mask forbids |

    The default placement takes the axes in the order given, the last axis innermost, like the rank order of
    common launchers. An agent that chooses the default therefore receives 0.

    ## Starting State

    The problem of one episode seed, with nothing placed. `reset(seed=...)` seeds the generator that draws the
    episode seed from the split's range; `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: after the last prime, or an action that the mask forbids.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `PlacementScenario` | `"p2-systems"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"problem.axes_max": 2}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the state's metrics, see `sysgym.envs.placement.metrics.STEP_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`: the seed of this episode's problem.
    - `action_mask`: the mask as int8, for `action_space.sample(mask)`.

    `env.unwrapped.action_masks()` returns the mask for sb3-contrib. `env.unwrapped.problem` is the problem,
    and `env.unwrapped.task` has all placements with their times. If the scenario's `system.stated_log_sd` is
    not 0, both use the stated system that agents see; `env.unwrapped.truth` has the true times, which
    determine the reward, for oracles and pictures.

    ## Registered Configurations

    One id, `sysgym/CollectivePlacement-v0`; `scenario` selects the configuration: `p2-systems`,
    `placement-unseen`, or a file of your own. Scenarios of the other environments of the family can be used
    too.

    ## Baselines

    The agents `default`, `placement/random`, `greedy`, `annealing`, `exhaustive` and learned ones.
    `sysgym bench placement` evaluates them on unseen systems and `sysgym report` prints regret with
    confidence intervals.

    ## References

    - Xie, Norman, Grewe, Vytiniotis: Synthesizing Optimal Parallelism Placement and Reduction Strategies on
      Hierarchical Systems for Deep Learning (P2). MLSys 2022, arXiv 2110.10548. The problem.

    ## Version History

    - v0: first version. Before the first release every round of a ring took the latency of its slowest hop.
    """  # noqa: E501, a table's row is one line

    REWARDS = SPEEDUP
    OBSERVERS = PLACEMENT

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | PlacementScenario = "p2-systems",
        split: str = "train",
        reward: str | Reward[DecisionOutcome] | None = None,
        observation: str | Observer[PlacementScenario, PlacementState] = "default",
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

    @property
    def _n_actions(self) -> int:
        return MOST_AXES

    def _begin(self, episode_seed: int) -> None:
        true = draw_problem(self.scenario, self.split, episode_seed)
        drawn = self.drawn
        self.problem = stated_problem(true, drawn.system.stated_log_sd, episode_seed)
        table = drawn.problem
        self.task, self.truth = (
            placement_task(problem, table.algorithm, table.programs, table.program_steps)
            for problem in (self.problem, true)
        )
        self.chosen: list[int] = []

    @property
    def matrix(self) -> Matrix:
        """Factors placed so far; complete after the last step."""
        return matrix_of_steps(self.problem.hierarchy.cardinalities, self.problem.n_axes, self.chosen)

    def _allowed(self) -> BoolArray:
        allowed = np.zeros(MOST_AXES, np.bool_)
        hierarchy, axes = self.problem.hierarchy, self.problem.axes
        if self.task.steps:
            allowed[: len(axes)] = allowed_axes(hierarchy.cardinalities, axes, self.chosen)
        else:
            allowed[0] = True
        return allowed

    def _decide(self, action: int) -> None:
        task = self.task
        if task.steps:
            self.chosen.append(action)
        if len(self.chosen) == len(task.steps):
            self.outcome = self.truth.outcome(self.matrix)

    def _invalid(self) -> Outcome:
        return self.truth.outcome(None)

    def _state(self) -> PlacementState:
        return PlacementState(self.problem, self.task.steps, len(self.chosen), self.matrix, self._mask)

    def _step_metrics(self) -> dict[str, float]:
        return {
            "steps_left": float(len(self.task.steps) - len(self.chosen)) if self.outcome is None else 0.0,
            "default_time_s": self.task.default_time_s,
        }

    def _episode_metrics(self) -> dict[str, float]:
        assert self.outcome is not None
        times_s = self.truth.times_s
        worst_s, best_s = float(times_s.max()), float(times_s.min())
        return self.outcome.metrics() | {
            "worst_time_s": worst_s,
            "placement_range": math.exp(log_ratio(worst_s, best_s)),
            "n_placements": float(len(times_s)),
        }

    def _scene(self) -> PlacementScene:
        given = len(self.scenario.problem.reductions)
        return PlacementScene(
            title=self.scenario.name,
            task=self.truth,
            chosen=tuple(self.chosen),
            matrix=self.matrix,
            most_reductions=given or self._largest("problem", "reductions_max"),
            outcome=self.outcome,
        )

    def _text(self) -> str:
        return placement_text(self._scene())

    def _picture(self) -> NDArray[np.uint8]:
        return placement_picture(self._scene())
