"""``sysgym/TrainingDiagnosis-v0``: diagnosis of a slow training job by what-if questions."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.diagnosis.case import Case, draw_case
from sysgym.emulator.diagnosis.parts import DATA_RANK
from sysgym.envs.decisions import BoolArray, DecisionEnv
from sysgym.envs.diagnosis.metrics import PRICE, Outcome
from sysgym.envs.diagnosis.observation import (
    NOT_ASKED,
    OBSERVERS,
    DiagnosisState,
    FloatArray,
    IntArray,
    known_columns,
    parents_of,
)
from sysgym.envs.diagnosis.render import DiagnosisScene, diagnosis_picture, diagnosis_text
from sysgym.envs.diagnosis.rewards import REWARDS, AnswerOutcome
from sysgym.envs.observations import Observer
from sysgym.envs.rewards import Reward
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.diagnosis import DiagnosisScenario


class TrainingDiagnosis(DecisionEnv[DiagnosisScenario, Outcome]):
    """Ask what-if questions about a slow training job, and name the fault that costs most.

    ## Description

    A job with pipeline and data parallelism is slower than it should be: some ranks or stages compute slowly,
    or some operations of one kind are delayed; a delayed send delays its receive. In addition, microbatches
    differ in length, stages differ in size, and all durations are noisy. A fault that no other operation
    waits for costs nothing.

    A question asks for the share of the lost time that a part of the job explains: a replay determines how
    much shorter the steps would be if the operations of that part took their ideal durations. The answer also
    includes other causes: the backward computations together, for instance, explain most of the loss whenever
    lengths vary. The episode ends when a stage, a kind of operations or a rank is named. The true cost of
    each fault is known, since the same steps can be replayed without it.

    ## Action Space

    `Discrete(2 R)` for the R = `control.most_parts` rows of the observation: action r < R asks about the part
    in row r, action R + r names it. Data-parallel ranks cannot be named. `action_mask` marks the allowed
    actions; an action that the mask forbids ends the episode.

    ## Observation Space

    `Dict` of float32 `Box`es, padded with zeros to R rows. Durations are those of all recorded steps.

    | Key | Shape | Meaning |
    | --- | --- | --- |
    | `parts` | (R, 12) | stages, kinds of operations, data-parallel ranks and ranks, columns below |
    | `job` | (4,) | the job as a whole, columns below |
    | `action_mask` | (2 R,) | 1 where an action is allowed |

    | Column of `parts` | Meaning | Unit |
    | --- | --- | --- |
    | `exists` | there is a part in this row | 0 or 1 |
    | `is_stage` | the part is a stage | 0 or 1 |
    | `is_kind` | it is a kind of operations | 0 or 1 |
    | `is_data_rank` | it is a data-parallel rank, which cannot be named | 0 or 1 |
    | `is_rank` | it is a rank | 0 or 1 |
    | `computes` | operations of the part that compute | share |
    | `excess` | mean duration of these operations over the ideal, less 1 | ratio |
    | `steady` | 10th percentile of the same over the steps | ratio |
    | `late` | time above the ideal, mean over its ranks | share of a step |
    | `share` | answer to a question about it; -1 if not asked | share of the lost time |
    | `share_of_stage` | of a rank: the answer about its stage; -1 if not asked | share of the lost time |
    | `share_of_data_rank` | of a rank: the answer about its data-parallel rank; -1 if not asked | share of the lost time |

    | Column of `job` | Meaning | Unit |
    | --- | --- | --- |
    | `slowdown` | time of a step over that without stragglers, less 1 | ratio |
    | `ranks` | ranks | log2 |
    | `stages` | stages | log2 |
    | `left` | questions left | share |

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists; the scenario may set their weights.

    | Name | Terms |
    | --- | --- |
    | `default` | `score`: cost of the named fault over the worst one's, 0 without a fault in the part; `question`: -0.01 for a question; `invalid`: -1 for an action that the mask forbids |

    ## Starting State

    Recorded steps of a job; nothing has been asked. `reset(seed=...)` seeds the generator that draws the episode seed from the split's
    range; `reset(options={"episode_seed": 20001})` sets it.

    ## Episode End

    Termination: when a part is named, or after an action that the mask forbids. After `control.episode_steps` questions only naming is allowed.

    Truncation: never.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `DiagnosisScenario` | `"diagnosis-jobs"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `observation` | str or `Observer` | `"default"` | observation or its name; `"default"` is the one described above |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"faults.most": 1}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the state's metrics, see `sysgym.envs.diagnosis.metrics.STEP_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`: the seed of this episode.
    - `action_mask`: the mask as int8, for `action_space.sample(mask)`.

    `env.unwrapped.action_masks()` returns the mask for sb3-contrib. `env.unwrapped.case` is the job with its
    parts, its faults and their costs.

    ## Registered Configurations

    One id, `sysgym/TrainingDiagnosis-v0`; `scenario` selects the configuration: `diagnosis-jobs`, `diagnosis-unseen`, or a file of your own. With
    `job.trace` the steps are those of a recorded trace.

    ## Baselines

    The agents `longest`, `largest_share`, `narrowing`, `contrast`, `diagnosis/random`, `diagnosis/oracle` (privileged) and learned ones.
    `sysgym bench diagnosis` evaluates them on unseen jobs and `sysgym report` prints scores with confidence intervals.

    ## References

    - Lin et al.: Understanding Stragglers in Large Model Training Using What-if Analysis. OSDI 2025, arXiv 2505.05713. What-if
      analysis by replay, by stage, kind of operation and rank.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 4,
    }
    SCENARIO = DiagnosisScenario
    REWARDS = REWARDS
    OBSERVERS = OBSERVERS

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | DiagnosisScenario = "diagnosis-jobs",
        split: str = "train",
        reward: str | Reward[AnswerOutcome] | None = None,
        observation: str | Observer[DiagnosisScenario, DiagnosisState] = "default",
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
        self.case: Case
        self.answers: FloatArray
        self._known: FloatArray
        self._parents: IntArray

    @property
    def questions(self) -> int:
        """Questions asked."""
        return int((self.answers != NOT_ASKED).sum())

    @property
    def _n_actions(self) -> int:
        return 2 * self.scenario.control.most_parts

    def _begin(self, episode_seed: int) -> None:
        self.case = draw_case(self.drawn, episode_seed)
        n, most = len(self.case.parts), self.scenario.control.most_parts
        if n > most:
            raise SysgymError(
                f"{self.scenario.name}: the job has {n} parts, but control.most_parts is {most};"
                f' pass overrides={{"control.most_parts": {n}}} or --set control.most_parts={n}'
            )
        self.answers = np.full(n, NOT_ASKED)
        self._known = known_columns(self.case)
        self._parents = parents_of(self.case)

    def _allowed(self) -> BoolArray:
        mask = np.zeros((2, self.scenario.control.most_parts), np.bool_)
        n = len(self.answers)
        if self.questions < self.scenario.control.episode_steps:
            mask[0, :n] = self.answers == NOT_ASKED
        mask[1, :n] = [part.what != DATA_RANK for part in self.case.parts]
        return mask.ravel()

    def _decide(self, action: int) -> None:
        names, row = divmod(action, self.scenario.control.most_parts)
        part = self.case.parts[row]
        if names:
            self.outcome = Outcome(part)
        else:
            self.answers[row] = max(self.case.share(part), NOT_ASKED + 1e-6)

    def _invalid(self) -> Outcome:
        return Outcome(None)

    def _decision_outcome(self) -> AnswerOutcome:
        if self.outcome is None:
            return AnswerOutcome(0.0, asked=True, valid=True)
        part = self.outcome.named
        return AnswerOutcome(self.case.score(part) if part else 0.0, asked=False, valid=part is not None)

    def _state(self) -> DiagnosisState:
        left = 1.0 - self.questions / max(self.scenario.control.episode_steps, 1)
        case = self.case
        return DiagnosisState(
            case.parts, case.what_if.slowdown, self._known, self._parents, self.answers, left, self._mask
        )

    def _step_metrics(self) -> dict[str, float]:
        return {"questions": float(self.questions), "slowdown": self.case.what_if.slowdown}

    def _episode_metrics(self) -> dict[str, float]:
        assert self.outcome is not None
        case, part = self.case, self.outcome.named
        score = case.score(part) if part else 0.0
        return {
            "score": score,
            "correct": float(part == case.culprit),
            "questions": float(self.questions),
            "net": score - PRICE * self.questions,
            "share": case.share(part) if part else 0.0,
            "loss": float(case.cost_s.max()) / case.what_if.step_s,
            "faults": float(len(case.faults)),
            "valid": float(part is not None),
        }

    def _scene(self) -> DiagnosisScene:
        named = self.outcome.named if self.outcome else None
        return DiagnosisScene(self.scenario.name, self.case, self.answers, named)

    def _text(self) -> str:
        return diagnosis_text(self._scene())

    def _picture(self) -> NDArray[np.uint8]:
        return diagnosis_picture(self._scene())
