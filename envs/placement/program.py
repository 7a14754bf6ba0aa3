"""``sysgym/ReductionProgram-v0``: synthesis of reductions on a hierarchy of accelerators."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.matrices import Matrix
from sysgym.emulator.accelerators.problem_draws import draw_program_task, stated_problem
from sysgym.emulator.accelerators.programs import Instruction, Program, parse_program
from sysgym.envs.observations import Observer
from sysgym.envs.placement.base import PlacementEnv
from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.placement.observation import BoolArray
from sysgym.envs.placement.observers import N_INSTRUCTIONS, PROGRAM, ProgramState
from sysgym.envs.placement.render import ProgramScene, program_picture, program_text
from sysgym.envs.placement.rewards import SPEEDUP, DecisionOutcome
from sysgym.envs.placement.tasks import program_task
from sysgym.envs.rewards import Reward
from sysgym.scenarios import PlacementScenario
from sysgym.scenarios.errors import UnknownName

Mask = Literal["live", "valid"]
MASKS: tuple[Mask, ...] = get_args(Mask)


class ReductionProgram(PlacementEnv):
    """Build a program of collectives that performs a reduction faster than a single all-reduce.

    ## Description

    A reduction over devices in several nodes can be a single all-reduce, or a program of collectives on
    subgroups: reduce-scatter within every node, all-reduce across nodes, all-gather within every node. The
    fastest program depends on the links, on the placement of the group, and on the number of groups that
    share a NIC. This is the second half of P2's problem. An instruction is a pattern of groups and a
    collective; a program is valid if no contribution is added twice and every device ends with the complete
    sum.

    An episode is one reduction under one placement. Every step appends an instruction, which all groups run
    concurrently; a cost model gives its time. The optimum is exact for this placement: programs are paths in
    a graph whose nodes are the states of the devices' data.

    ## Action Space

    `Discrete(45)`: instruction `5 * pattern + collective`, with the patterns of
    `emulator.accelerators.programs` in their order and the collectives all-reduce, reduce-scatter,
    all-gather, reduce, broadcast. The first 1, 4 and 9 patterns are those of one, two and three levels: all;
    then inside, across, masters; and so on. `env.unwrapped.action_of("inside:RS")` and `instruction_of(5)`
    convert between the two. `action_mask` allows the instructions whose preconditions hold (`mask="valid"`),
    or only those of them after which the reduction can still be completed in the remaining steps (`"live"`).
    An action that the mask forbids ends the episode with the time of the all-reduce.

    ## Observation Space

    `Dict` of float32 `Box`es, padded with zeros to three levels.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `levels` | (3, 6) | the levels that the reduction spans, outermost first, columns below |
    | `progress` | (3,) | size and steps, columns below |
    | `holds` | (8, 64) | data of the devices: 1 at (i, 8 r + c) where device i's copy of row r includes device c's contribution |
    | `costs` | (45,) | ln of an action's time over the all-reduce's; 0 where it is not valid |
    | `action_mask` | (45,) | 1 where an action is allowed |

    | Column of `levels` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | the reduction spans this level | 0 or 1 |
    | `factor` | members of a group at this level | log10 |
    | `bandwidth` | of each uplink of an instance, one direction | log10 GB/s |
    | `latency` | of one hop between siblings | log10 us |
    | `sharing` | reduction groups that share an uplink of an instance; below 0: uplinks to a group | log10 |
    | `ring` | siblings are joined in a ring, not by a switch | 0 or 1 |

    | Column of `progress` | Meaning | Unit |
    | --- | --- | --- |
    | `size` | the vector on each device | log10 MB |
    | `steps_left` | collectives that may still follow | count |
    | `spent` | time of the collectives so far | multiples of the all-reduce's time |

    The validity of programs does not depend on the factors of the levels, so `holds` describes a group with
    two members per level: 2, 4 or 8 devices, and as many rows of the vector. Logarithms are clipped to
    [-40, 40].

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their
    weights, by default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | `speedup`: on the last step, ln(time of a single all-reduce / time of the program); `invalid`: -1 for an action that the mask forbids, or a program that does not complete the reduction |

    ## Starting State

    The reduction and the placement of one episode seed; every device holds its own contribution.
    `reset(seed=...)` seeds the generator that draws the episode seed from the split's range;
    `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: when every device has the complete sum; after the scenario's `problem.program_steps`
    instructions; when no instruction is valid; or after an action that the mask forbids. A program that does
    not complete the reduction counts as the all-reduce.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `PlacementScenario` | `"program-p2"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"problem.program_steps": 3}` |
    | `mask` | str | `"live"` | actions that the mask allows: `"live"` or `"valid"` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the state's metrics, see `sysgym.envs.placement.metrics.STEP_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`: the seed of this episode's problem.
    - `action_mask`: the mask as int8, for `action_space.sample(mask)`.

    `env.unwrapped.action_masks()` returns the mask for sb3-contrib. `env.unwrapped.task` is the reduction
    with the times of all instructions, and `env.unwrapped.program` is the program so far.

    ## Registered Configurations

    One id, `sysgym/ReductionProgram-v0`; `scenario` selects the configuration: `program-p2`,
    `program-unseen`, or a file of your own. Scenarios of the other environments of the family can be used
    too, with their first reduction.

    ## Baselines

    The agents `default`, `placement/random`, `greedy`, `blueconnect`, `exhaustive` and learned ones.
    `sysgym bench placement` evaluates them on unseen systems and `sysgym report` prints regret with
    confidence intervals.

    ## References

    - Xie, Norman, Grewe, Vytiniotis: Synthesizing Optimal Parallelism Placement and Reduction Strategies on
      Hierarchical Systems for Deep Learning (P2). MLSys 2022, arXiv 2110.10548. The problem; the exact rules
      of the language are our own.
    - Cho, Finkler, Serrano, Kung, Hunter: BlueConnect: Decomposing All-Reduce for Deep Learning on
      Heterogeneous Network Hierarchy. MLSys 2019. Reduce-scatter, all-reduce, all-gather.

    ## Version History

    - v0: first version. Before the first release every round of a ring took the latency of its slowest hop.
    """  # noqa: E501, a table's row is one line

    REWARDS = SPEEDUP
    OBSERVERS = PROGRAM

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | PlacementScenario = "program-p2",
        split: str = "train",
        reward: str | Reward[DecisionOutcome] | None = None,
        observation: str | Observer[PlacementScenario, ProgramState] = "default",
        overrides: Mapping[str, Any] | None = None,
        mask: Mask = "live",
        render_mode: str | None = None,
    ) -> None:
        """Create the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split, reward, observation or mask does not exist.
            ArgumentError: If the observation has no space.
        """
        if mask not in MASKS:
            raise UnknownName("mask", mask, MASKS)
        self.mask = mask
        super().__init__(scenario, split, reward, observation, overrides, render_mode)

    def action_of(self, instruction: Instruction | str) -> int:
        """Return the action of an instruction on this episode's levels, such as ``inside:RS``.

        Raises:
            UnknownName: If these levels have no such pattern, or there is no such collective.
        """
        space = self.task.space
        if isinstance(instruction, str):
            (instruction,) = parse_program(instruction, space.n_levels)
        return space.instructions.index(instruction)

    def instruction_of(self, action: int) -> Instruction:
        """Return the instruction of an action, on this episode's levels.

        Raises:
            IndexError: If the reduction has fewer levels than the instruction needs.
        """
        return self.task.space.instructions[action]

    @property
    def matrix(self) -> Matrix:
        """The placement."""
        return self.task.matrix

    @property
    def program(self) -> Program:
        """The instructions so far."""
        space = self.task.space
        return tuple(space.edge_instruction(edge) for edge in self.edges)

    @property
    def node(self) -> int:
        """Current node of the program in the space of the task."""
        return int(self.task.space.edge_target[self.edges[-1]]) if self.edges else 0

    @property
    def _n_actions(self) -> int:
        return N_INSTRUCTIONS

    @property
    def _max_steps(self) -> int:
        return self.scenario.problem.program_steps

    def _begin(self, episode_seed: int) -> None:
        true, matrix = draw_program_task(self.scenario, self.split, episode_seed)
        drawn = self.drawn
        self.problem = stated_problem(true, drawn.system.stated_log_sd, episode_seed)
        self.task, self.truth = (
            program_task(problem, matrix, drawn.problem.algorithm) for problem in (self.problem, true)
        )
        self.edges: list[int] = []

    def _allowed(self) -> BoolArray:
        space, allowed = self.task.space, np.zeros(N_INSTRUCTIONS, np.bool_)
        allowed[: space.n_actions] = (
            space.live_actions(self.node, self._max_steps - len(self.edges))
            if self.mask == "live"
            else space.valid_actions(self.node)
        )
        return allowed

    def _decide(self, action: int) -> None:
        space = self.task.space
        self.edges.append(int(space.edge_of_action[self.node, action]))
        if self.node == space.goal:
            time_s = float(self.truth.edge_time_s[self.edges].sum())
            self.outcome = Outcome(time_s, self.truth.all_reduce_time_s, self._best[1])
        elif len(self.edges) == self._max_steps or not space.valid_actions(self.node).any():
            self.outcome = self._invalid()

    def _invalid(self) -> Outcome:
        default_s = self.truth.all_reduce_time_s
        return Outcome(default_s, default_s, self._best[1], valid=False)

    @property
    def _best(self) -> tuple[Program, float]:
        return self.truth.best(self._max_steps)

    @property
    def _spent_s(self) -> float:
        return float(self.task.edge_time_s[self.edges].sum())

    def _state(self) -> ProgramState:
        steps_left = 0 if self.outcome is not None else self._max_steps - len(self.edges)
        return ProgramState(self.task, self.node, self._spent_s, steps_left, self._mask)

    def _step_metrics(self) -> dict[str, float]:
        return {
            "steps_left": 0.0 if self.outcome is not None else float(self._max_steps - len(self.edges)),
            "default_time_s": self.task.all_reduce_time_s,
            "time_s": self._spent_s,
        }

    def _episode_metrics(self) -> dict[str, float]:
        assert self.outcome is not None
        return self.outcome.metrics() | {
            "n_levels": float(self.task.space.n_levels),
            "program_steps": float(len(self.edges)),
            "best_program_steps": float(len(self._best[0])),
        }

    def _scene(self) -> ProgramScene:
        return ProgramScene(self.scenario.name, self.truth, tuple(self.edges), self._max_steps, self.outcome)

    def _text(self) -> str:
        return program_text(self._scene())

    def _picture(self) -> NDArray[np.uint8]:
        return program_picture(self._scene())
