"""``sysgym/CollectiveSynthesis-v0``: a schedule of a collective, one transfer at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.collectives.bounds import lower_bound_s
from sysgym.emulator.collectives.draws import draw_task
from sysgym.emulator.collectives.schedule import Plan, Schedule
from sysgym.emulator.collectives.spread import Spread, Transfers
from sysgym.emulator.collectives.task import SynthesisTask
from sysgym.envs.collectives.metrics import Outcome
from sysgym.envs.collectives.observation import OBSERVERS, SynthesisState
from sysgym.envs.collectives.render import SynthesisScene, synthesis_picture, synthesis_text
from sysgym.envs.collectives.rewards import REWARDS, TransferOutcome
from sysgym.envs.decisions import BoolArray, DecisionEnv
from sysgym.envs.observations import Observer
from sysgym.envs.rewards import Reward
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.collectives import CollectivesScenario


class CollectiveSynthesis(DecisionEnv[CollectivesScenario, Outcome]):
    """Schedule the transfers of a collective on a network of devices, switches and links.

    ## Description

    An all-gather, reduce-scatter, all-reduce, all-to-all or broadcast over some devices is a set of transfers
    of chunks over links. The choice of senders and receivers, and the order of the transfers, determine the
    completion time. On rings, trees and hypercubes good schedules are known; on a system with several kinds
    of links, or with broken ones, they have to be found. TACCL, TE-CCL, TACOS and ForestColl synthesise such
    schedules.

    An episode is one collective on one system. A step schedules one transfer: a chunk over a *hop*, which is
    a link between two devices or a path through switches only. A link serves its transfers in the order of
    the schedule; a transfer starts when the sender has the chunk and all links of the hop are free.
    Reductions are planned backwards in time, from the owner of a chunk to its contributors, as in TACOS: the
    reversed plan collects partial sums. An all-reduce has two phases, a reduction and then copies.

    ## Action Space

    `Discrete(K)`: row of the candidate to schedule, K being the scenario's `candidates.most`. `action_mask`
    allows the rows that exist. Candidates are useful transfers, the earliest to arrive first: the receiver
    wants the chunk, or is closer to a device that lacks it than all that have it. An action that the mask
    forbids ends the episode: the schedule is completed with the first candidate of every step, and its time
    is that of all its transfers one after another, as if no two links could be busy at once. The regret is
    then far above that of the agents below, and `valid` is 0.

    ## Observation Space

    `Dict` of float32 `Box`es, padded with zeros to K rows.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `candidates` | (K, 14) | candidate transfers, columns below |
    | `system` | (14,) | values common to all candidates, columns below |
    | `action_mask` | (K,) | 1 where an action is allowed |

    | Column of `candidates` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | there is a candidate in this row | 0 or 1 |
    | `start` | start after the earliest start of all candidates | mean durations |
    | `duration` | from start to arrival | mean durations |
    | `arrival` | arrival after the earliest of all candidates | mean durations |
    | `increase` | increase of the schedule's time by the transfer | mean durations |
    | `wanted` | the receiver wants the chunk; otherwise it only forwards it | 0 or 1 |
    | `holders` | devices that have the chunk or are scheduled to receive it | share of devices |
    | `lacking` | devices that want the chunk and are not scheduled to receive it | share of devices |
    | `farthest` | path from the receiver to the farthest of those devices | mean durations |
    | `receiver_lacks` | chunks that the receiver wants and is not scheduled to receive | share of chunks |
    | `receiver_load` | time that the receiver's links need for those chunks | multiples of the bound |
    | `alternatives` | hops into the receiver whose sender has the chunk | share of hops |
    | `onward` | hops out of the receiver over which the chunk would be useful | share of hops |
    | `rank` | candidates of the same hop before this one | count |

    | Column of `system` | Meaning | Unit |
    | --- | --- | --- |
    | `devices` | devices of the system | log10 |
    | `group` | devices that take part | share of devices |
    | `chunks` | chunks of the collective | log10 |
    | `latency` | mean latency of a hop | share of the mean duration |
    | `slowest` | duration of the slowest hop over that of the fastest | log10 |
    | `progress` | deliveries of this phase that are scheduled | share |
    | `time` | time of the schedule so far | multiples of the bound |
    | `candidates` | candidates | share of the rows |
    | `reducing` | the phase is a reduction, which is planned backwards | 0 or 1 |
    | `all_gather` | the collective is all gather | 0 or 1 |
    | `reduce_scatter` | the collective is reduce scatter | 0 or 1 |
    | `all_reduce` | the collective is all reduce | 0 or 1 |
    | `all_to_all` | the collective is all to all | 0 or 1 |
    | `broadcast` | the collective is broadcast | 0 or 1 |

    The mean duration is that of one chunk over one hop, averaged over the hops. In a reduction, senders and
    receivers are those of the backward plan, so they change places in the schedule. Ratios are clipped to
    100.

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their
    weights, by default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | `time`: minus the increase of the schedule's time by this transfer, over the lower bound; `invalid`: -1 for an action that the mask forbids |
    | `regret` | `regret`: on the last step, minus ln(time / lower bound); `invalid`: -1 for an action that the mask forbids |

    ## Starting State

    The system, its faults and the group of one episode seed; every device has its own data.
    `reset(seed=...)` seeds the generator that draws the episode seed from the split's range;
    `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: when every device has, or is scheduled to receive, all chunks that the collective gives it,
    or after an action that the mask forbids.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `CollectivesScenario` | `"collectives-small"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"system.topology": "torus-4x4"}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the state's metrics, see `sysgym.envs.collectives.metrics.STEP_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`: the seed of this episode's task.
    - `action_mask`: the mask as int8, for `action_space.sample(mask)`.

    `env.unwrapped.action_masks()` returns the mask for sb3-contrib. `env.unwrapped.task` is the collective on
    its network, and `env.unwrapped.schedule` is the schedule once the episode has ended.
    `env.unwrapped.follow(plans)` replays a schedule made elsewhere: its transfers are then the only
    candidates, one at a time.

    ## Registered Configurations

    One id, `sysgym/CollectiveSynthesis-v0`; `scenario` selects the configuration: `collective-ring-16`,
    `collectives-small`, `collectives-unseen`, `collectives-groups`, `collectives-all-to-all`, or a file of your
    own.

    ## Baselines

    The agents `ring`, `tree`, `doubling`, `direct`, `collectives/random`, `earliest`, `tacos`, `restarts`,
    `collectives/annealing`, `milp` and learned ones. `sysgym bench collectives` evaluates them on unseen systems and
    `sysgym report` prints regret with confidence intervals.

    ## References

    - Zhao et al.: ForestColl: Throughput-Optimal Collective Communications on Heterogeneous Network Fabrics.
      arXiv 2402.06787. The lower bound.
    - Won et al.: TACOS: Topology-Aware Collective Algorithm Synthesizer for Distributed Machine Learning.
      arXiv 2304.05301. Matching on a time-expanded network; reductions by reversal.
    - Liu et al.: Rethinking Machine Learning Collective Communication as a Multi-Commodity Flow Problem
      (TE-CCL). SIGCOMM 2024. The mixed-integer program.
    - NVIDIA: nccl-tests, doc/PERFORMANCE.md. Bus bandwidth.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 4,
    }
    SCENARIO = CollectivesScenario
    REWARDS = REWARDS
    OBSERVERS = OBSERVERS

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | CollectivesScenario = "collectives-small",
        split: str = "train",
        reward: str | Reward[TransferOutcome] | None = None,
        observation: str | Observer[CollectivesScenario, SynthesisState] = "default",
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
        self.task: SynthesisTask
        self.bound_s: float
        self._spread: Spread
        self._candidates: Transfers
        self._followed: list[list[tuple[int, int]]] | None

    def follow(self, plans: Sequence[Plan]) -> None:
        """Show the transfers of plans as the only candidates from now on, one at a time, in their order.

        Args:
            plans: A plan for each phase of the collective.

        Raises:
            SysgymError: If the episode has begun to schedule, or there is not a plan for each phase.
            NoEpisode: If no episode is in progress.
        """
        self._check_may_step()
        phases = self.task.collective.phases
        if self.steps or len(plans) != len(phases):
            raise SysgymError(
                f"follow: expected {len(phases)} plans before the first step, got {len(plans)}"
                f" after {self.steps} steps"
            )
        self._followed = [list(zip(one.chunks.tolist(), one.hops.tolist(), strict=True)) for one in plans]
        for transfers in self._followed:
            transfers.reverse()
        self._show_candidates()
        self._mask = self._allowed()

    @property
    def schedule(self) -> Schedule | None:
        """The schedule; None while the episode is in progress."""
        return None if self.outcome is None else self.outcome.schedule

    @property
    def _n_actions(self) -> int:
        return self.scenario.candidates.most

    def _begin(self, episode_seed: int) -> None:
        self.task = draw_task(self.scenario, self.split, episode_seed)
        self.per_hop = self.drawn.candidates.per_hop
        self.bound_s = lower_bound_s(self.task)
        self.time_s = self._time_before_s = 0.0
        self._plans: list[Plan] = []
        self._followed = None
        self._begin_phase()

    def _allowed(self) -> BoolArray:
        return np.arange(self._n_actions) < len(self._candidates.hops)

    def _decide(self, action: int) -> None:
        self._time_before_s = self.time_s
        self._send(action)

    def _invalid(self) -> Outcome:
        self._time_before_s = self.time_s
        while self.outcome is None:
            self._send(0)
        outcome = replace(self.outcome, valid=False)
        self.time_s = outcome.time_s
        return outcome

    def _decision_outcome(self) -> TransferOutcome:
        return TransferOutcome((self.time_s - self._time_before_s) / self.bound_s, self.outcome)

    def _begin_phase(self) -> None:
        self._spread = Spread.after(self.task, self._plans)
        self._n_wanted = self._spread.n_missing
        self.time_s = max(self.time_s, self._spread.time_s) if not self._plans else self._spread.time_s
        self._show_candidates()

    def _send(self, row: int) -> None:
        spread = self._spread
        spread.send(int(self._candidates.chunks[row]), int(self._candidates.hops[row]))
        self.time_s = spread.time_s
        if self._followed is not None:
            self._followed[len(self._plans)].pop()
        if spread.n_missing:
            self._show_candidates()
            return
        self._plans.append(spread.plan)
        if len(self._plans) < len(self.task.collective.phases):
            self._begin_phase()
            return
        self.outcome = Outcome(Schedule.of_plans(self.task, self._plans), self.bound_s)
        self.time_s = self.outcome.schedule.time_s
        nothing = np.empty(0, np.int64)
        self._candidates = Transfers(nothing, nothing, np.empty(0), np.empty(0))

    def _show_candidates(self) -> None:
        if self._followed is None:
            self._candidates = self._spread.candidates(self._n_actions, self.per_hop)
            return
        left = self._followed[len(self._plans)]
        if not left:
            missing = self._spread.n_missing
            raise SysgymError(f"follow: the plan ends while {missing} chunks are lacking on devices")
        chunk, hop = left[-1]
        start_s = self._spread.start_s(chunk, hop)
        held = np.isfinite(self._spread.state.ready_s[chunk, self._spread.hops.targets[hop]])
        if not np.isfinite(start_s) or held:
            reason = "the receiver has it already" if held else "the sender does not have it"
            raise SysgymError(f"follow: chunk {chunk} over hop {hop}: {reason}")
        arrival_s = start_s + self.task.durations_s[hop]
        self._candidates = Transfers(
            np.array([hop]), np.array([chunk]), np.array([start_s]), np.array([arrival_s])
        )

    def _state(self) -> SynthesisState:
        return SynthesisState(
            self._spread,
            self._candidates,
            self._n_actions,
            self.bound_s,
            self._n_wanted,
            self.time_s,
            self._mask,
        )

    def _step_metrics(self) -> dict[str, float]:
        return {
            "missing": float(self._spread.n_missing),
            "time_s": float(self.time_s),
            "bound_s": self.bound_s,
        }

    def _episode_metrics(self) -> dict[str, float]:
        assert self.outcome is not None
        return self.outcome.metrics()

    def _scene(self) -> SynthesisScene:
        done = len(self._plans) == len(self.task.collective.phases)
        plans = self._plans if done else [*self._plans, self._spread.plan]
        return SynthesisScene(
            self.scenario.name, Schedule.of_plans(self.task, plans), self.bound_s, self.outcome
        )

    def _text(self) -> str:
        return synthesis_text(self._scene())

    def _picture(self) -> NDArray[np.uint8]:
        return synthesis_picture(self._scene())
