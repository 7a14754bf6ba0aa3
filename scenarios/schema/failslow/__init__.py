"""Scenarios of fail-slow faults: a hybrid-parallel job, its faults, what actions cost, the agent's clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.common import Reward, Scenario, Table

LogSd = Annotated[float, Field(ge=0.0, le=3.0)]
Seconds = Annotated[float, Field(ge=0.0, le=1e6)]


class FailSlowJob(Table):
    """A job of data-parallel replicas, each a pipeline of stages."""

    replicas: Annotated[int, Field(ge=2, le=256)] = Field(description="data-parallel replicas")
    stages: Annotated[int, Field(ge=1, le=64)] = Field(
        description="pipeline stages of a replica; a worker each"
    )
    microbatches: Annotated[int, Field(ge=1, le=1024)] = Field(
        description="microbatches of a replica and step"
    )
    healthy_hours: Annotated[float, Field(gt=0.0, le=1000.0)] = Field(
        description="time of the job without faults, h"
    )
    communication_share: Annotated[float, Field(ge=0.0, le=0.95)] = Field(
        default=0.2, description="assumed: share of a healthy step in which gradients are exchanged"
    )
    checkpoint_s: Annotated[float, Field(gt=0.0, le=1e6)] = Field(
        default=1800.0,
        description="work between checkpoints, s; a restart loses what came after the last one",
    )


class FailSlowFaults(Table):
    """Faults that come and go. A worker's slows its computing, a link's the exchange of gradients."""

    worker_per_hour: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        description="slow workers that appear in an hour, in the whole job"
    )
    worker_mean_s: Annotated[float, Field(gt=0.0, le=1e6)] = Field(
        default=600.0, description="their mean duration, s"
    )
    link_per_hour: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        description="slow links that appear in an hour, in the whole job"
    )
    link_mean_s: Annotated[float, Field(gt=0.0, le=1e6)] = Field(
        default=1440.0, description="their mean duration, s"
    )
    duration_log_sd: LogSd = Field(
        default=1.2, description="standard deviation of the logarithm of durations"
    )
    worker_factor: Annotated[float, Field(gt=1.0, le=100.0)] = Field(
        default=1.5, description="assumed: median factor of a slow worker's computing"
    )
    link_factor: Annotated[float, Field(gt=1.0, le=100.0)] = Field(
        default=2.5, description="assumed: median factor of the exchange over a slow link"
    )
    factor_log_sd: LogSd = Field(
        default=0.4, description="standard deviation of the logarithm of a factor less 1"
    )


class FailSlowActions(Table):
    """What actions cost; all of it assumed."""

    rebalance_s: Seconds = Field(default=10.0, description="pause to move microbatches between replicas, s")
    reroute_s: Seconds = Field(default=60.0, description="pause to move traffic away from slow links, s")
    reroute_relief: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.7, description="share of the excess of present slow links that this removes"
    )
    replace_s: Seconds = Field(default=300.0, description="pause to replace the slowest worker, s")
    restart_s: Seconds = Field(
        default=900.0, description="pause to restart on other nodes from the last checkpoint, s"
    )


class FailSlowDecisions(Table):
    """The agent's clock and what it measures."""

    interval_s: Annotated[float, Field(gt=0.0, le=3600.0)] = Field(
        default=60.0, description="time of a decision, s"
    )
    episode_steps: Annotated[int, Field(ge=1, le=100_000)] = Field(default=600, description="most decisions")
    noise_log_sd: LogSd = Field(
        default=0.05, description="standard deviation of the logarithm of measured times"
    )


class FailSlowScenario(Scenario):
    """Scenario of fail-slow faults."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ("job", "faults", "actions")

    family: Literal["failslow"] = Field(description="family of problems; decides which keys the file has")
    job: FailSlowJob = Field(description="the job")
    faults: FailSlowFaults = Field(description="the faults")
    actions: FailSlowActions = Field(default_factory=FailSlowActions, description="what actions cost")
    control: FailSlowDecisions = Field(default_factory=FailSlowDecisions, description="the agent's clock")
    reward: Reward = Field(default_factory=Reward, description="what the environment pays for")

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the healthy job fits into an episode."""
        most_s = self.control.interval_s * self.control.episode_steps
        if 3600.0 * self.job.healthy_hours > most_s:
            yield Problem(
                "job.healthy_hours", self.job.healthy_hours, f"no more than the episode, {most_s / 3600:g} h"
            )
