"""Scenarios of pipelines: a transformer on stages and ranks, the machine, the agent's budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.tables import Reward, Table

LogSd = Annotated[float, Field(ge=0.0, le=2.0)]


class PipelineJob(Table):
    """A transformer, and how it is trained in parallel; or the steps of a recorded trace."""

    trace: str = Field(
        default="",
        description="table of operations (docs/training-jobs.md); each step is a job whose stages stay and"
        " whose microbatches can move; empty: a transformer defined by the other keys",
    )
    blocks: Annotated[int, Field(ge=2, le=512)] = Field(description="number of transformer blocks")
    hidden: Annotated[int, Field(ge=64, le=65_536)] = Field(description="hidden size")
    head_size: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=128, description="size of an attention head; default: GPT-3's"
    )
    sequence: Annotated[int, Field(ge=16, le=1_048_576)] = Field(
        default=2048, description="number of tokens in a sequence"
    )
    vocabulary: Annotated[int, Field(ge=2, le=10_000_000)] = Field(
        default=50_257, description="number of tokens in the vocabulary; default: GPT-2's"
    )
    sequences: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="number of sequences in a microbatch"
    )
    stages: Annotated[int, Field(ge=2, le=32)] = Field(description="number of pipeline stages")
    data_ranks: Annotated[int, Field(ge=1, le=64)] = Field(description="number of data-parallel ranks")
    microbatches: Annotated[int, Field(ge=1, le=128)] = Field(
        description="number of microbatches per data-parallel rank and step"
    )
    schedule: Literal["gpipe", "1f1b"] = Field(default="1f1b", description="schedule of the pipeline")
    length_log_sd: LogSd = Field(
        default=0.3,
        description="standard deviation of the logarithm of the microbatches' lengths, which are known",
    )


class PipelineMachine(Table):
    """Accelerators and links, as the profile has them."""

    flops_per_s: Annotated[float, Field(ge=1e9, le=1e18)] = Field(
        default=1.5e14, description="assumed: operations per second of an accelerator"
    )
    memory_bytes: Annotated[float, Field(ge=1e6, le=1e15)] = Field(
        default=80e9, description="memory of an accelerator"
    )
    bandwidth_bps: Annotated[float, Field(ge=1e6, le=1e14)] = Field(
        default=4e11, description="bandwidth between accelerators, bit/s"
    )
    latency_s: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=10e-6, description="latency of a transfer, s"
    )


class PipelineTruth(Table):
    """Effects that the profile leaves out; all of them are assumed."""

    layer_log_sd: LogSd = Field(
        default=0.1,
        description="standard deviation of the logarithm of random factors on the times of layers",
    )
    worker_log_sd: LogSd = Field(
        default=0.03,
        description="standard deviation of the logarithm of random factors on the times of workers",
    )
    jitter_log_sd: LogSd = Field(
        default=0.05,
        description="standard deviation of the logarithm of random factors on all operations in a step",
    )
    steps: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=4, description="number of training steps in a measurement"
    )


class PipelineBudget(Table):
    """The agent's budget."""

    episode_steps: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=40, description="maximum number of changes in an episode"
    )
    most_rows: Annotated[int, Field(ge=4, le=128)] = Field(
        default=24,
        description="number of rows of the observation: one, plus one for each stage and data-parallel rank",
    )


class PipelineScenario(Scenario):
    """Scenario of pipelines."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ("job", "machine", "truth")

    family: Literal["pipelines"] = Field(description="family of problems; determines the keys of the file")
    job: PipelineJob = Field(description="the job")
    machine: PipelineMachine = Field(default_factory=PipelineMachine, description="accelerators and links")
    truth: PipelineTruth = Field(default_factory=PipelineTruth, description="what the profile does not tell")
    control: PipelineBudget = Field(default_factory=PipelineBudget, description="the agent's budget")
    reward: Reward = Field(default_factory=Reward, description="reward of the environment")

    def cross_checks(self) -> Iterator[Problem]:
        """Check that every stage has a layer, and that stages and ranks have a row."""
        job = self.job
        if job.blocks + 2 < job.stages:
            yield Problem("job.blocks", job.blocks, f"at least {job.stages - 2} for {job.stages} stages")
        rows = 1 + job.stages + job.data_ranks
        if not job.trace and rows > self.control.most_rows:
            yield Problem(
                "control.most_rows", self.control.most_rows, f"at least {rows}, a row for each choice"
            )
