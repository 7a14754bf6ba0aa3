"""Scenarios of the compression family: a job, its network and workers, what methods cost and lose."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.tables import FromList, Reward, Table

METHODS = (
    "none",
    "half_precision",
    "powersgd_1",
    "powersgd_4",
    "powersgd_8",
    "powersgd_16",
    "top_k_1_percent",
    "top_k_10_percent",
    "sign",
)
"""Methods in the order of their numbers; PowerSGD by rank, Top-K by the share of the values sent."""

MOST_WINDOWS = 10_000
"""Largest number of decisions of an episode."""

Bytes = Annotated[float, Field(ge=1e3, le=1e12)]
Seconds = Annotated[float, Field(gt=0.0, le=1e6)]
Encoding = Annotated[float, Field(ge=0.0, le=100.0)]
Rate = Annotated[float, Field(ge=1e6, le=1e13)]
Workers = Annotated[int, Field(ge=2, le=65_536)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class TrainingJob(Table):
    """A data-parallel training job."""

    gradient_bytes: Bytes = Field(description="size of the gradient of one worker at 32 bits per value")
    half_precision: bool = Field(
        default=False, description="whether the job sends 16 bits per value even without compression"
    )
    backward_s: Seconds = Field(description="time of the backward pass alone, without overlap")
    forward_s: Annotated[float, Field(ge=0.0, le=1e6)] = Field(
        default=0.0,
        description="time of the forward pass and the weight update, before and after the exchange",
    )
    iterations: Annotated[int, Field(ge=1, le=10**9)] = Field(
        description="iterations that the job needs without compression"
    )
    bucket_bytes: Bytes = Field(default=25e6, description="bytes of a bucket, at 32 bits per value")
    overlap_slowdown: Annotated[float, Field(ge=1.0, le=10.0)] = Field(
        default=1.07, description="assumed: factor of a backward pass that an exchange overlaps"
    )


class Bandwidth(Table):
    """Links of the workers. Their bandwidth drifts, and other traffic takes a share of it now and then."""

    median_bps: Rate = Field(description="median of the bandwidth of a worker's link in each direction")
    log_sd: Annotated[float, Field(ge=0.0, le=5.0)] = Field(
        default=0.0,
        description="standard deviation of the logarithm of the bandwidth (Ornstein-Uhlenbeck); 0: constant",
    )
    correlation_s: Seconds = Field(
        default=300.0, description="time after which the correlation of the logarithm has fallen to 1/e"
    )
    least_bps: Rate = Field(default=1e9, description="lowest bandwidth")
    most_bps: Rate = Field(default=25e9, description="highest bandwidth")
    latency_s: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.0, description="latency of a round of a collective"
    )
    background_share: Share = Field(
        default=0.0, description="share of the bandwidth that background traffic takes while it is on"
    )
    background_on_s: Seconds = Field(
        default=60.0, description="mean duration of a period of background traffic"
    )
    background_off_s: Seconds = Field(
        default=240.0, description="mean time between periods of background traffic"
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the median lies between the ends."""
        if not self.least_bps <= self.median_bps <= self.most_bps:
            expected = f"from least_bps = {self.least_bps:g} to most_bps = {self.most_bps:g}"
            yield Problem("median_bps", self.median_bps, expected)


class WorkerTable(Table):
    """Workers. With `change_s` their number doubles or halves now and then; one of them is always slowest."""

    count: Workers = Field(description="number of workers at the start")
    least: Workers = Field(default=2, description="minimum number of workers")
    most: Workers = Field(default=65_536, description="maximum number of workers")
    change_s: Annotated[float, Field(ge=0.0, le=1e9)] = Field(
        default=0.0,
        description="mean time between changes of the number of workers; 0: no changes",
    )
    straggler_log_sd: Annotated[float, Field(ge=0.0, le=2.0)] = Field(
        default=0.0,
        description="standard deviation of the logarithm of the backward time of the slowest worker, for"
        " which all others wait",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the number at the start is possible."""
        if not self.least <= self.count <= self.most:
            yield Problem("count", self.count, f"from least = {self.least} to most = {self.most}")


class EncodingTimes(Table):
    """Time of encoding and decoding by method, in proportion to the gradient."""

    gradient_bytes: Bytes = Field(
        default=97e6, description="size of the gradient (32 bits per value) to which the times below apply"
    )
    scale: Annotated[float, Field(gt=0.0, le=1e3)] = Field(
        default=1.0, description="factor of all times; below 1 for an accelerator that encodes faster"
    )
    half_precision_s: Encoding = Field(default=0.001, description="assumed: conversion to and from 16 bits")
    powersgd_1_s: Encoding = Field(default=0.040, description="assumed: PowerSGD of rank 1")
    powersgd_4_s: Encoding = Field(default=0.045, description="assumed: PowerSGD of rank 4")
    powersgd_8_s: Encoding = Field(default=0.064, description="assumed: PowerSGD of rank 8")
    powersgd_16_s: Encoding = Field(default=0.130, description="assumed: PowerSGD of rank 16")
    top_k_1_percent_s: Encoding = Field(default=0.240, description="assumed: Top-K with 1 % of the values")
    top_k_10_percent_s: Encoding = Field(default=0.289, description="assumed: Top-K with 10 % of the values")
    sign_s: Encoding = Field(default=0.0163, description="assumed: sign-SGD with majority vote")
    rank_4_ratio: Annotated[float, Field(ge=1.0, le=1e6)] = Field(
        default=72.0, description="assumed: gradient over the bytes that PowerSGD of rank 4 exchanges"
    )


class Loss(Table):
    """Progress that compression loses: an iteration counts 1 minus the value of its method."""

    half_precision: Share = Field(default=0.0, description="assumed: loss of 16 bits per value")
    powersgd_1: Share = Field(default=0.10, description="assumed: loss of PowerSGD of rank 1")
    powersgd_4: Share = Field(default=0.02, description="assumed: loss of PowerSGD of rank 4")
    powersgd_8: Share = Field(default=0.01, description="assumed: loss of PowerSGD of rank 8")
    powersgd_16: Share = Field(default=0.005, description="assumed: loss of PowerSGD of rank 16")
    top_k_1_percent: Share = Field(default=0.10, description="assumed: loss of Top-K with 1 % of values")
    top_k_10_percent: Share = Field(default=0.02, description="assumed: loss of Top-K with 10 % of values")
    sign: Share = Field(default=0.08, description="assumed: loss of sign-SGD")
    rebuild_iterations: Annotated[float, Field(ge=0.0, le=1e4)] = Field(
        default=3.0,
        description="assumed: iterations of progress lost by a change to a method with error feedback "
        "(all but none and half_precision)",
    )
    critical_starts: Annotated[
        tuple[Annotated[float, Field(ge=0.0, lt=1.0)], ...], FromList, Field(max_length=16)
    ] = Field(
        default=(), description="progress at which critical phases begin, in order, as a share of the job"
    )
    critical_share: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.05, description="length of a critical phase, as a share of the job"
    )
    critical_factor: Annotated[float, Field(ge=1.0, le=1e3)] = Field(
        default=1.0, description="factor of the losses in critical phases; a loss is at most 0.95"
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that critical phases do not overlap."""
        for before, after in itertools.pairwise(self.critical_starts):
            if after < before + self.critical_share:
                expected = f"starts in order, at least critical_share = {self.critical_share:g} apart"
                yield Problem("critical_starts", list(self.critical_starts), expected)
                return


class Measuring(Table):
    """Measurements of the agent."""

    noise_log_sd: Annotated[float, Field(ge=0.0, le=2.0)] = Field(
        default=0.0, description="standard deviation of the logarithm of a measured goodput over the true one"
    )


class Decisions(Table):
    """The agent's clock."""

    decision_interval_s: Seconds = Field(description="wall time for which a method is used")
    episode_steps: Annotated[int, Field(ge=1, le=MOST_WINDOWS)] = Field(
        description="maximum number of decisions in an episode, which ends earlier if the job does"
    )


class CompressionScenario(Scenario):
    """Scenario of gradient compression: a job, links, workers, costs and losses of the methods."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = (
        "job",
        "network",
        "workers",
        "encoding",
        "loss",
        "measuring",
    )

    family: Literal["compression"] = Field(description="family of problems; determines the keys of the file")
    job: TrainingJob = Field(description="the job")
    network: Bandwidth = Field(description="links of the workers")
    workers: WorkerTable = Field(description="workers")
    encoding: EncodingTimes = Field(
        default_factory=EncodingTimes, description="times of encoding and decoding"
    )
    loss: Loss = Field(default_factory=Loss, description="progress that compression loses")
    measuring: Measuring = Field(default_factory=Measuring, description="what an agent measures")
    control: Decisions = Field(description="the agent's clock")
    reward: Reward = Field(default_factory=Reward, description="reward of the environment")
