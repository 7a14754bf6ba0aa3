"""Scenarios of diagnosis: a training job, the faults in it, and what questions cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.tables import Reward, Table

LogSd = Annotated[float, Field(ge=0.0, le=2.0)]
N_KINDS = 13
"""Kinds of operations of a pipeline."""


class DiagnosisJob(Table):
    """The job: generated steps of a pipeline, or those of a recorded trace."""

    trace: str = Field(
        default="",
        description="table of operations whose steps are used (docs/training-jobs.md); empty: generated"
        " steps",
    )
    schedule: Literal["gpipe", "1f1b"] = Field(default="1f1b", description="schedule of generated steps")
    stages: Annotated[int, Field(ge=2, le=64)] = Field(
        default=4, description="pipeline stages of generated steps"
    )
    data_ranks: Annotated[int, Field(ge=2, le=256)] = Field(
        default=4, description="data-parallel ranks of generated steps"
    )
    microbatches: Annotated[int, Field(ge=1, le=256)] = Field(
        default=8, description="number of microbatches per rank in generated steps"
    )
    steps: Annotated[int, Field(ge=1, le=1000)] = Field(default=20, description="number of recorded steps")
    noise_log_sd: LogSd = Field(
        default=0.05, description="standard deviation of the logarithm of all generated durations"
    )
    length_log_sd: LogSd = Field(
        default=0.2,
        description="standard deviation of the logarithm of the microbatch lengths, common to all stages",
    )
    stage_log_sd: LogSd = Field(
        default=0.05,
        description="standard deviation of the logarithm of the stage sizes: layers are never divided"
        " equally",
    )


class DiagnosisFaults(Table):
    """Faults in the steps; each is in another rank, stage or kind of operation."""

    least: Annotated[int, Field(ge=1, le=16)] = Field(default=1, description="minimum number of faults")
    most: Annotated[int, Field(ge=1, le=16)] = Field(default=3, description="maximum number of faults")
    excess: Annotated[float, Field(gt=0.0, le=100.0)] = Field(
        default=0.3, description="assumed: median of a fault's factor, less 1"
    )
    excess_log_sd: LogSd = Field(
        default=0.5, description="standard deviation of the logarithm of a factor less 1"
    )
    kind_share: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.3, description="share of the operations of a faulty kind that are delayed"
    )
    least_loss: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.02,
        description="minimum share of a step that the worst fault costs, which is above 0 in any case; faults"
        " below it are drawn again, and it is an error if a hundred draws are all below it",
    )


class DiagnosisQuestions(Table):
    """Questions and the size of the observation."""

    episode_steps: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=20, description="maximum number of questions in an episode"
    )
    most_parts: Annotated[int, Field(ge=8, le=4096)] = Field(
        default=96,
        description="number of rows of the observation: one for each stage, kind, data-parallel rank and"
        " rank",
    )


class DiagnosisScenario(Scenario):
    """Scenario of diagnosis."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ("job", "faults")

    family: Literal["diagnosis"] = Field(description="family of problems; determines the keys of the file")
    job: DiagnosisJob = Field(default_factory=DiagnosisJob, description="the job")
    faults: DiagnosisFaults = Field(default_factory=DiagnosisFaults, description="the faults")
    control: DiagnosisQuestions = Field(default_factory=DiagnosisQuestions, description="questions")
    reward: Reward = Field(default_factory=Reward, description="reward of the environment")

    def cross_checks(self) -> Iterator[Problem]:
        """Check the number of faults, and that all parts of a generated job have a row."""
        faults, job = self.faults, self.job
        if faults.least > faults.most:
            yield Problem("faults.least", faults.least, f"at most faults.most, {faults.most}")
        parts = job.stages + job.data_ranks + N_KINDS + job.stages * job.data_ranks
        if not job.trace and parts > self.control.most_parts:
            yield Problem(
                "control.most_parts",
                self.control.most_parts,
                f"a row for each of the {parts} parts of the job",
            )
