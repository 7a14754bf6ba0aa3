"""Scenarios of fail-slow faults: a hybrid-parallel job, its faults, what actions cost, the agent's clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.tables import Reward, Table

LogSd = Annotated[float, Field(ge=0.0, le=3.0)]
Seconds = Annotated[float, Field(ge=0.0, le=1e6)]


class FailSlowJob(Table):
    """A job of data-parallel replicas, each a pipeline of stages; or steps of a recorded trace."""

    trace: str = Field(
        default="",
        description="table of operations (docs/training-jobs.md) of a job whose steps, stages and replicas"
        " are used and whose microbatches can move; empty: a transformer defined by the other keys",
    )
    replicas: Annotated[int, Field(ge=2, le=256)] = Field(description="number of data-parallel replicas")
    stages: Annotated[int, Field(ge=1, le=64)] = Field(
        description="number of pipeline stages of a replica, one worker each"
    )
    microbatches: Annotated[int, Field(ge=1, le=1024)] = Field(
        description="number of microbatches per replica and step"
    )
    blocks: Annotated[int, Field(ge=1, le=512)] = Field(
        default=32, description="number of transformer blocks"
    )
    hidden: Annotated[int, Field(ge=64, le=65_536)] = Field(default=4096, description="hidden size")
    head_size: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=128, description="size of an attention head; default: GPT-3's"
    )
    sequence: Annotated[int, Field(ge=16, le=1_048_576)] = Field(
        default=2048, description="number of tokens in a microbatch of mean length"
    )
    vocabulary: Annotated[int, Field(ge=2, le=10_000_000)] = Field(
        default=50_257, description="number of tokens in the vocabulary; default: GPT-2's"
    )
    length_log_sd: LogSd = Field(
        default=0.2, description="assumed: standard deviation of the logarithm of microbatches' lengths"
    )
    jitter_log_sd: LogSd = Field(
        default=0.02,
        description="assumed: standard deviation of the logarithm of random factors on the time of each pass",
    )
    steps: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=4, description="number of steps replayed to obtain the mean time of a step"
    )
    healthy_hours: Annotated[float, Field(gt=0.0, le=1000.0)] = Field(
        description="time of the job without faults, h"
    )
    checkpoint_s: Annotated[float, Field(gt=0.0, le=1e6)] = Field(
        default=1800.0,
        description="work between checkpoints, s; a restart loses the work since the last one",
    )


class FailSlowMachine(Table):
    """Accelerators and links of a generated job."""

    flops_per_s: Annotated[float, Field(ge=1e9, le=1e18)] = Field(
        default=1.5e14, description="assumed: operations per second of an accelerator"
    )
    bandwidth_bps: Annotated[float, Field(ge=1e6, le=1e14)] = Field(
        default=1e11, description="assumed: bandwidth between accelerators, bit/s"
    )
    latency_s: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=10e-6, description="latency of a transfer, s"
    )


class FailSlowFaults(Table):
    """Faults that come and go: of a worker, of a stage in all replicas, of a link between replicas."""

    worker_per_hour: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        description="assumed: mean number of slow workers that appear per hour in the whole job"
    )
    worker_mean_s: Annotated[float, Field(gt=0.0, le=1e6)] = Field(
        default=600.0, description="mean duration of a slow worker, s (Greyhound)"
    )
    worker_factor: Annotated[float, Field(gt=1.0, le=100.0)] = Field(
        default=1.5, description="assumed: median factor of the compute time of a slow worker"
    )
    stage_per_hour: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        default=0.0, description="assumed: mean number of slow stages that appear per hour in the whole job"
    )
    stage_mean_s: Annotated[float, Field(gt=0.0, le=1e6)] = Field(
        default=1800.0, description="assumed: mean duration of a slow stage, s"
    )
    stage_factor: Annotated[float, Field(gt=1.0, le=100.0)] = Field(
        default=1.4, description="assumed: median factor of the compute time of all workers of a slow stage"
    )
    link_per_hour: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        description="assumed: mean number of slow links that appear per hour in the whole job"
    )
    link_mean_s: Annotated[float, Field(gt=0.0, le=1e6)] = Field(
        default=1440.0, description="mean duration of a slow link, s (Greyhound)"
    )
    link_factor: Annotated[float, Field(gt=1.0, le=100.0)] = Field(
        default=2.5, description="assumed: median factor of the time of the exchange over a slow link"
    )
    duration_log_sd: LogSd = Field(
        default=1.2, description="assumed: standard deviation of the logarithm of fault durations"
    )
    factor_log_sd: LogSd = Field(
        default=0.4, description="assumed: standard deviation of the logarithm of a factor less 1"
    )


class FailSlowActions(Table):
    """Costs of actions; all of them are assumed."""

    rebalance_s: Seconds = Field(default=10.0, description="pause to move microbatches between replicas, s")
    move_layers_s: Seconds = Field(
        default=30.0, description="pause to move layers between the stages of all replicas, s"
    )
    reroute_s: Seconds = Field(default=60.0, description="pause to move traffic away from slow links, s")
    reroute_relief: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.7, description="share of the excess of present slow links that rerouting removes"
    )
    replace_s: Seconds = Field(default=300.0, description="pause to replace the slowest worker, s")
    checkpoint_s: Seconds = Field(default=30.0, description="pause to write a checkpoint, s")
    restart_s: Seconds = Field(
        default=900.0, description="pause to restart on other nodes from the last checkpoint, s"
    )


class FailSlowDecisions(Table):
    """The agent's clock and what it measures."""

    interval_s: Annotated[float, Field(gt=0.0, le=3600.0)] = Field(
        default=60.0, description="time between decisions, s"
    )
    episode_steps: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=600, description="maximum number of decisions"
    )
    noise_log_sd: LogSd = Field(
        default=0.05, description="standard deviation of the logarithm of measured times"
    )


class FailSlowScenario(Scenario):
    """Scenario of fail-slow faults."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ("job", "machine", "faults", "actions")

    family: Literal["failslow"] = Field(description="family of problems; determines the keys of the file")
    job: FailSlowJob = Field(description="the job")
    machine: FailSlowMachine = Field(default_factory=FailSlowMachine, description="accelerators and links")
    faults: FailSlowFaults = Field(description="the faults")
    actions: FailSlowActions = Field(default_factory=FailSlowActions, description="costs of actions")
    control: FailSlowDecisions = Field(default_factory=FailSlowDecisions, description="the agent's clock")
    reward: Reward = Field(default_factory=Reward, description="reward of the environment")

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the healthy job fits into an episode, and that every stage has a layer."""
        most_s = self.control.interval_s * self.control.episode_steps
        if 3600.0 * self.job.healthy_hours > most_s:
            yield Problem(
                "job.healthy_hours", self.job.healthy_hours, f"no more than the episode, {most_s / 3600:g} h"
            )
        job = self.job
        if not job.trace and job.blocks + 2 < job.stages:
            yield Problem("job.blocks", job.blocks, f"at least {job.stages - 2} for {job.stages} stages")
