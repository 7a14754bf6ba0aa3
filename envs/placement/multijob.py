"""``sysgym/MultiJobPlacement-v0``: placement of several jobs that contend for the links of one system."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.jobs.assignments import packed
from sysgym.emulator.accelerators.jobs.contention import JobSystem
from sysgym.emulator.accelerators.jobs.jobs import check_nodes, draw_jobs, n_nodes
from sysgym.emulator.accelerators.problem_draws import draw_hierarchy
from sysgym.envs.observations import Observer
from sysgym.envs.placement.base import PlacementEnv
from sysgym.envs.placement.jobs_observation import JOBS, JobsState
from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.placement.observation import BoolArray, IntArray
from sysgym.envs.placement.render.jobs import JobsScene, jobs_picture, jobs_text
from sysgym.envs.placement.rewards import SPEEDUP, DecisionOutcome
from sysgym.envs.rewards import Reward
from sysgym.scenarios import PlacementScenario
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.placement_tables import MOST_JOB_NODES


class MultiJobPlacement(PlacementEnv):
    """Place the blocks of several jobs on the nodes of one system, so that they slow each other down little.

    ## Description

    Two to eight training jobs share a system. A job has blocks of devices, joined by a tensor axis inside a
    node, and a data axis over its blocks. An iteration consists of compute without overlap, the reduction
    inside blocks, and then the rest of the compute, overlapped with the reduction over blocks. A job in one
    node loads no uplink; a job on several nodes shares their uplinks with the other jobs there. Large jobs
    have to be spread, and a bad choice of nodes makes several jobs wait for the same uplinks.

    An episode places all jobs, those with the largest blocks first. Every step puts the next block of the
    current job on a node. When the last block is placed, all jobs run at once as flows that share links by
    max-min fairness. The slowdown of a job is its duration divided by its duration alone on the system,
    packed into as few nodes as possible. The aim is the least mean slowdown.

    ## Action Space

    `Discrete(16)`: the node of the next block. `action_mask` allows nodes with enough free devices; there is
    always room for the blocks of later jobs. An action that the mask forbids ends the episode with the
    slowdown of the default.

    ## Observation Space

    `Dict` of float32 `Box`es, padded with zeros.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `jobs` | (8, 9) | the jobs in the order in which they are placed, columns below |
    | `nodes` | (16, 8) | the nodes, columns below |
    | `action_mask` | (16,) | 1 where the next block may be placed |

    | Column of `jobs` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | there is a job in this row | 0 or 1 |
    | `current` | the next block is one of this job | 0 or 1 |
    | `blocks` | blocks of the job | log10 |
    | `devices` | devices of a block | log10 |
    | `compute` | compute of an iteration | log10 ms |
    | `overlap` | compute that overlaps with the reduction over blocks | share |
    | `data` | vector that is reduced over blocks | log10 MB |
    | `tensor` | vector that is reduced inside a block | log10 MB |
    | `placed` | blocks that are placed | share |

    | Column of `nodes` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | the system has this node | 0 or 1 |
    | `free` | devices of the node that are free | share |
    | `own` | blocks of the current job on the node | share |
    | `own_near` | blocks of the current job below the same switch one level up | share |
    | `others` | other jobs on the node, of all jobs | share |
    | `use` | sum over jobs of the time in which each, alone, uses its fullest uplink | share |
    | `use_near` | the same one level up; 0 without such a level | share |
    | `uplink` | bandwidth of all its uplinks | log10 GB/s |

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their
    weights, by default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | `speedup`: on the last step, ln(mean slowdown of the default / of the placement chosen); `invalid`: -1 for an action that the mask forbids |

    The default placement fills one node after another with the jobs in their order.

    ## Starting State

    The system and the jobs of one episode seed, with nothing placed. `reset(seed=...)` seeds the generator
    that draws the episode seed from the split's range; `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: after the last block, or an action that the mask forbids.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `PlacementScenario` | `"multi-job-unseen"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"jobs.overlap_max": 0.0}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the state's metrics, see `sysgym.envs.placement.metrics.JOBS_STEP_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `JOBS_METRICS` there.
    - `episode_seed`: the seed of this episode's jobs.
    - `action_mask`: the mask as int8, for `action_space.sample(mask)`.

    `env.unwrapped.action_masks()` returns the mask for sb3-contrib. `env.unwrapped.system` has the jobs and
    both models of their slowdowns, and `env.unwrapped.counts` the number of blocks of each job on each node.

    ## Registered Configurations

    One id, `sysgym/MultiJobPlacement-v0`; `scenario` selects the configuration: `multi-job-small`, where
    exhaustive search is possible, `multi-job-unseen`, or a file of your own with a table `[jobs]`.

    ## Baselines

    The agents `packed`, `spread`, `placement/random`, `greedy`, `annealing`, `exhaustive` (small systems) and
    learned ones. `sysgym bench placement-jobs` evaluates them.

    ## References

    - Bertsekas, Gallager: Data Networks, 2nd ed., section 6.5.2. Max-min fairness.
    - Patarasuk, Yuan: Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations. JPDC 69(2), 2009.
      Rings.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    REWARDS = SPEEDUP
    OBSERVERS = JOBS

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | PlacementScenario = "multi-job-unseen",
        split: str = "train",
        reward: str | Reward[DecisionOutcome] | None = None,
        observation: str | Observer[PlacementScenario, JobsState] = "default",
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Create the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used, or has no jobs.
            UnknownName: If a split, reward or observation does not exist.
            ArgumentError: If the observation has no space.
        """
        super().__init__(scenario, split, reward, observation, overrides, render_mode)
        if self.scenario.jobs is None:
            advice = "add the table [jobs], or use multi-job-unseen"
            raise ScenarioError(f"<{self.scenario.name}>", "jobs", None, "a table of jobs", advice=advice)

    @property
    def _n_actions(self) -> int:
        return MOST_JOB_NODES

    def _begin(self, episode_seed: int) -> None:
        drawn = self.drawn
        assert drawn.jobs is not None
        hierarchy = draw_hierarchy(drawn.system, episode_seed)
        check_nodes(hierarchy)
        jobs = draw_jobs(drawn.jobs, hierarchy, episode_seed)
        self.system = JobSystem(hierarchy, jobs, drawn.jobs.iterations, episode_seed)
        self.counts: IntArray = np.zeros((len(jobs), n_nodes(hierarchy)), np.int64)
        self._default_slowdown: float | None = None
        self._slowdowns: NDArray[np.float64] | None = None

    @property
    def current(self) -> int:
        """Job of the next block; the number of jobs after the last one."""
        left = [job.blocks > row.sum() for job, row in zip(self.system.jobs, self.counts, strict=True)]
        return left.index(True) if any(left) else len(left)

    @property
    def free(self) -> IntArray:
        """Free devices of each node, int64 [n_nodes]."""
        sizes = np.array([job.block_devices for job in self.system.jobs])
        return np.asarray(self.system.hierarchy.cardinalities[-1] - sizes @ self.counts)

    def _allowed(self) -> BoolArray:
        allowed = np.zeros(MOST_JOB_NODES, np.bool_)
        job = self.system.jobs[self.current]
        allowed[: self.counts.shape[1]] = self.free >= job.block_devices
        return allowed

    def _decide(self, action: int) -> None:
        self.counts[self.current, action] += 1
        if self.current == len(self.system.jobs):
            self._slowdowns = self.system.slowdowns(self.counts)
            self.outcome = self._outcome(float(self._slowdowns.mean()))

    def _invalid(self) -> Outcome:
        return self._outcome(self.default_slowdown, valid=False)

    @property
    def default_slowdown(self) -> float:
        """Mean slowdown of the default."""
        if self._default_slowdown is None:
            counts = packed(self.system.hierarchy, self.system.jobs)
            self._default_slowdown = float(self.system.slowdowns(counts).mean())
        return self._default_slowdown

    def _outcome(self, slowdown: float, *, valid: bool = True) -> Outcome:
        # Mean slowdowns stand for times; 1 is the least of jobs that do not disturb each other.
        return Outcome(slowdown, self.default_slowdown, 1.0, valid)

    def _state(self) -> JobsState:
        return JobsState(self.system, self.counts, self.current, self._mask)

    def _step_metrics(self) -> dict[str, float]:
        placed = int(self.counts.sum())
        left = sum(job.blocks for job in self.system.jobs) - placed
        return {"steps_left": float(left) if self.outcome is None else 0.0, "blocks_placed": float(placed)}

    def _episode_metrics(self) -> dict[str, float]:
        assert self.outcome is not None
        metrics = {
            "mean_slowdown": self.outcome.time_s,
            "default_slowdown": self.outcome.default_time_s,
            "speedup": float(np.exp(self.outcome.log_speedup)),
            "n_jobs": float(len(self.system.jobs)),
            "valid": float(self.outcome.valid),
        }
        if self._slowdowns is not None:
            metrics["worst_slowdown"] = float(self._slowdowns.max())
            metrics["estimated_slowdown"] = float(self.system.estimates(self.counts).mean())
            metrics["nodes_per_job"] = float((self.counts > 0).sum(axis=1).mean())
        return metrics

    def _scene(self) -> JobsScene:
        return JobsScene(
            title=self.scenario.name,
            system=self.system,
            counts=self.counts.copy(),
            most_jobs=self._largest("jobs", "jobs_max"),
            slowdowns=self._slowdowns,
            outcome=self.outcome,
        )

    def _text(self) -> str:
        return jobs_text(self._scene())

    def _picture(self) -> NDArray[np.uint8]:
        return jobs_picture(self._scene())
