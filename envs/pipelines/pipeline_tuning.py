"""``sysgym/PipelineTuning-v0``: layers, microbatches and recomputation of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.pipelines.balancing import balanced_ranks, balanced_stages
from sysgym.emulator.pipelines.drawing import draw_job
from sysgym.emulator.pipelines.job import Pipeline, Truth, as_thought
from sysgym.emulator.pipelines.plans import (
    OF_RANKS,
    OF_STAGES,
    Kind,
    Plan,
    changed,
    changes,
    durations_s,
    first_plan,
    fits,
    replayed,
    step_time_s,
)
from sysgym.envs.decisions import BoolArray
from sysgym.envs.observations import Observer
from sysgym.envs.pipelines.observation import N_HEADS, OBSERVERS, TuningState
from sysgym.envs.pipelines.render import PipelineScene, pipeline_picture, pipeline_text
from sysgym.envs.plan_tuning import ChangeOutcome, PlanTuningEnv
from sysgym.envs.rewards import Reward
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.pipelines import PipelineScenario


class PipelineTuning(PlanTuningEnv[PipelineScenario, Plan]):
    """Divide a transformer among pipeline stages and its microbatches among ranks, and measure the step time.

    ## Description

    A transformer is trained with pipeline and data parallelism. The head makes the last stage slower, early
    stages need memory for the activations of more microbatches, and microbatches differ in length, so that
    data-parallel ranks wait for the one with the longest microbatches. Recomputation of activations saves
    memory but makes the stage take a third longer.

    An episode is one job. A step makes one local change to the plan and measures the true time of a training
    step. The agent also sees the prediction of its profile: a replay with the formulas of the layers and the
    lengths of the microbatches, without the factors of layers and workers and without jitter. The best
    measured plan counts.

    With `job.trace` each step of a recorded trace is a job: its stages stay, its microbatches can move and take their recorded times with them, and the
    profile has the mean time of each stage. The episode seed modulo the number of steps is the step.

    ## Action Space

    `Discrete(3 R)` for the R = `control.most_rows` rows of the observation: action h R + r makes change h to
    row r. `action_mask` marks the allowed actions; plans that do not fit into memory are not allowed. An
    action that the mask forbids ends the episode.

    | h | Stage | Data-parallel rank |
    | --- | --- | --- |
    | 0 | moves its last layer to the next stage | swaps one of its microbatches with one of the least loaded rank, choosing the pair that makes their loads most equal |
    | 1 | moves its first layer to the previous stage | puts its longest microbatches first |
    | 2 | turns the recomputation of its activations on or off | |

    Action 0, in the row that is neither a stage nor a rank, ends the episode.

    ## Observation Space

    `Dict` of float32 `Box`es, padded with zeros to R rows. Times are those of the profile.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `rows` | (R, 14) | the end, the stages and the data-parallel ranks, columns below |
    | `job` | (7,) | the job as a whole, columns below |
    | `action_mask` | (3 R,) | 1 where an action is allowed |

    | Column of `rows` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | there is a choice in this row | 0 or 1 |
    | `stop` | the row ends the episode | 0 or 1 |
    | `is_stage` | the row is a stage; the others are data-parallel ranks | 0 or 1 |
    | `place` | number of the stage | share of all |
    | `layers` | layers of the stage | share of all |
    | `load` | time of the stage for a microbatch, or total length of the rank, over the mean, less 1 | ratio |
    | `before` | the same for the previous stage; 0 for the first stage | ratio |
    | `after` | the same for the next stage; 0 for the last stage | ratio |
    | `memory` | memory that the stage needs | share of a worker's |
    | `recompute` | the stage recomputes its activations | 0 or 1 |
    | `longest` | longest microbatch of the rank over the mean, less 1 | ratio |
    | `first` | first microbatch of the rank over its longest one, less 1 | ratio |
    | `critical` | its computations on the critical path by the profile | share of the step |
    | `slack` | least slack of its computations by the profile | share of the step |

    | Column of `job` | Meaning | Unit |
    | --- | --- | --- |
    | `stages` | stages | log2 |
    | `ranks` | data-parallel ranks | log2 |
    | `microbatches` | microbatches of a rank | log2 |
    | `predicted` | time of the step by the profile, less 1 | ratio to a worker's compute time |
    | `measured` | true time of the step, less 1 | ratio to a worker's compute time |
    | `best` | least true time so far, less 1 | ratio to a worker's compute time |
    | `left` | changes left | share |

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their
    weights, by default 1.

    | Name | Terms |
    | --- | --- |
    | `default` | `time`: decrease of the least true time so far, over that at the beginning; `invalid`: -1 for an action that the mask forbids |
    | `present` | `time`: decrease of the true time by the change, over that at the beginning; `invalid`: -1 for an action that the mask forbids |

    ## Starting State

    Equal numbers of layers, microbatches in their original order, and recomputation where memory requires it.
    `reset(seed=...)` seeds the generator that draws the episode seed from the split's range;
    `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: after `control.episode_steps` changes, by action 0, or after an action that the mask forbids.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `PipelineScenario` | `"pipeline-gpt"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"job.stages": 8}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the state's metrics, see `sysgym.envs.pipelines.metrics.STEP_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`: the seed of this episode.
    - `action_mask`: the mask as int8, for `action_space.sample(mask)`.

    `env.unwrapped.action_masks()` returns the mask for sb3-contrib, and `env.unwrapped.pipeline` is the job.
    `env.unwrapped.adopt(plan)` measures a plan made elsewhere; it counts as a change.

    ## Registered Configurations

    One id, `sysgym/PipelineTuning-v0`; `scenario` selects the configuration: `pipeline-gpt`, `pipeline-unseen`, or a file of your own.

    ## Baselines

    The agents `unchanged`, `balanced_stages`, `longest_first`, `balanced`, `pipelines/critical_path`, `pipelines/annealing`,
    `pipelines/local_search`, `pipelines/random`, `pipelines/oracle` (privileged) and learned ones. `sysgym bench pipelines`
    evaluates them on unseen jobs and `sysgym report` prints speed-ups with confidence intervals.

    ## References

    - Narayanan et al.: Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM. SC 2021. Operations of a block, 1F1B.
    - Korthikanti et al.: Reducing Activation Recomputation in Large Transformer Models. 2022, arXiv 2205.05198. Activations, recomputation.
    - Graham: Bounds on Multiprocessing Timing Anomalies. SIAM Journal on Applied Mathematics 17, 1969. Microbatches of ranks.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    SCENARIO = PipelineScenario
    OBSERVERS = OBSERVERS

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | PipelineScenario = "pipeline-gpt",
        split: str = "train",
        reward: str | Reward[ChangeOutcome] | None = None,
        observation: str | Observer[PipelineScenario, TuningState] = "default",
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
        self.pipeline: Pipeline
        self._truth: Truth
        self._next: dict[int, Plan]

    @property
    def truth(self) -> Truth:
        """Effects that the profile leaves out; agents do not know them."""
        return self._truth

    def action_of(self, kind: Kind, which: int) -> int:
        """Return the action of a change of :data:`~sysgym.emulator.pipelines.plans.KINDS`."""
        kinds = OF_STAGES if kind in OF_STAGES else OF_RANKS
        row = 1 + which + (0 if kind in OF_STAGES else self.pipeline.scenario.job.stages)
        return kinds.index(kind) * self.scenario.control.most_rows + row

    def neighbours(self, plan: Plan) -> list[Plan]:
        """Return the plans that differ by one change."""
        return [other for _, _, other in changes(self.pipeline, plan)]

    def starts(self) -> list[Plan]:
        """Return the plans whose layers, microbatches or both rules balance, and the first one."""
        first = first_plan(self.pipeline)
        stages = balanced_stages(self.pipeline, first)
        return [balanced_ranks(self.pipeline, stages), balanced_ranks(self.pipeline, first), stages, first]

    def profile_time_s(self, plan: Plan) -> float:
        """Return the time of a plan by the profile."""
        return step_time_s(self.pipeline, plan, self._thought)

    def true_time_s(self, plan: Plan) -> float:
        """Return the true time of a plan without counting it: for metrics and privileged agents."""
        return step_time_s(self.pipeline, plan, self._truth)

    @property
    def _n_actions(self) -> int:
        return N_HEADS * self.scenario.control.most_rows

    def _draw_job(self, episode_seed: int) -> Plan:
        drawn = self.drawn
        self.pipeline, self._truth = draw_job(drawn, episode_seed)
        self._thought = as_thought(self.pipeline)
        plan = first_plan(self.pipeline)
        if not fits(self.pipeline, plan):
            raise SysgymError(
                f"{self.scenario.name}: equal numbers of layers do not fit into machine.memory_bytes,"
                f" {drawn.machine.memory_bytes:g}, even if all stages recompute their activations;"
                " use more of it, more stages, or a smaller model"
            )
        return plan

    def _check_plan(self, plan: Plan) -> None:
        job, n_layers = self.pipeline.scenario.job, len(self.pipeline.layers.parameters)
        rising = all(a < b for a, b in zip((0, *plan.ends), plan.ends, strict=False))
        if (
            not (rising and len(plan.ends) == len(plan.recompute) == job.stages and plan.ends[-1] == n_layers)
            or sorted(plan.microbatches) != list(range(len(self.pipeline.lengths)))
            or not fits(self.pipeline, plan)
        ):
            raise SysgymError(
                f"expected {job.stages} stages that end at {n_layers} layers, a place for each of"
                f" {len(self.pipeline.lengths)} microbatches, and stages that fit into memory, got {plan}"
            )

    def _draw_change(self, plan: Plan, rng: np.random.Generator) -> Plan | None:
        job = self.pipeline.scenario.job
        of_stages = len(OF_STAGES) * job.stages
        number = int(rng.integers(of_stages + len(OF_RANKS) * job.data_ranks))
        if number < of_stages:
            kind, stage = divmod(number, job.stages)
            return changed(self.pipeline, plan, OF_STAGES[kind], stage)
        kind, rank = divmod(number - of_stages, job.data_ranks)
        return changed(self.pipeline, plan, OF_RANKS[kind], rank)

    def _changes(self) -> BoolArray:
        self._next = {
            self.action_of(kind, which): plan for kind, which, plan in changes(self.pipeline, self.plan)
        }
        mask = np.zeros(self._n_actions, np.bool_)
        mask[list(self._next)] = True
        return mask

    def _after(self, action: int) -> Plan:
        return self._next[action]

    def _state(self) -> TuningState:
        left = 1.0 - self.tried / self.most_measurements
        expected = replayed(self.pipeline, self.plan, self._thought)
        return TuningState(self.pipeline, self.plan, expected, self.measured_s, self.best_s, left, self._mask)

    def _plan_metrics(self, plan: Plan) -> dict[str, float]:
        return {"recomputing": float(sum(plan.recompute))}

    def _job_metrics(self) -> dict[str, float]:
        pipeline = self.pipeline
        computing = durations_s(pipeline, self.best_plan, self._truth)[:, pipeline.operations.computes]
        busy = float(computing.sum(axis=1).mean()) / len(pipeline.operations.ranks) / self.best_s
        stages = balanced_stages(pipeline, first_plan(pipeline))
        return {
            "speedup": self.first_s / self.best_s,
            "speedup_over_balanced": self.true_time_s(balanced_ranks(pipeline, stages)) / self.best_s,
            "idle": 1.0 - busy,
        }

    def _scene(self) -> PipelineScene:
        return PipelineScene(
            self.scenario.name, self.pipeline, self.plan, self._truth, self.first_s, self.best_s
        )

    def _text(self) -> str:
        return pipeline_text(self._scene())

    def _picture(self) -> NDArray[np.uint8]:
        return pipeline_picture(self._scene())
