"""Scenarios of burst-parallel training: a job, the GPUs' network, background work, the agent's clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.tables import Reward, Table

MOST_GPUS = 1024
LogSd = Annotated[float, Field(ge=0.0, le=2.0)]


class BurstJob(Table):
    """A foreground job with a global batch, on the GPUs of one server or pod."""

    model: Literal["vgg16", "wide_resnet101_2", "inception_v3"] = Field(description="model")
    batch: Annotated[int, Field(ge=1, le=65_536)] = Field(description="number of samples of an iteration")
    gpus: Annotated[int, Field(ge=2, le=MOST_GPUS)] = Field(description="number of GPUs, a power of two")
    spread_log_sd: LogSd = Field(
        default=0.0,
        description="standard deviation of the logarithm of random factors on the time of each stage and"
        " on its indivisible share, so that jobs differ",
    )
    profile_log_sd: LogSd = Field(
        default=0.0,
        description="standard deviation of the logarithm of a profiled time over the true one",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the number of GPUs is a power of two."""
        if self.gpus & (self.gpus - 1):
            yield Problem("gpus", self.gpus, "a power of two")


class BurstNetwork(Table):
    """Links between the GPUs."""

    bandwidth_bps: Annotated[float, Field(ge=1e6, le=1e14)] = Field(
        default=2.128e12, description="bandwidth of a GPU, bit/s"
    )
    latency_s: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=40e-6, description="latency of a transfer of activations, s"
    )


class Background(Table):
    """Background training in the gaps of the foreground, and its interference with the foreground."""

    plan_limit: Annotated[float, Field(ge=1.0, le=100.0)] = Field(
        default=2.0,
        description="amplification limit of the published planner, whose plan the foreground follows",
    )
    idle_value: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.5, description="value of an idle GPU's time to the planner, as a share of that of all GPUs"
    )
    piece_s: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        default=0.5e-3, description="duration of a piece of background work at the largest batch, s"
    )
    small_batch: Annotated[float, Field(ge=0.0, le=1024.0)] = Field(
        default=2.0,
        description="assumed: batch at which background work reaches half of its maximum throughput",
    )
    launch_s: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=100e-6, description="assumed: idle time between pieces if only one is outstanding, s"
    )
    interference: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        default=0.02,
        description="assumed: slowdown of foreground layers by each outstanding piece at the largest batch",
    )
    drift_log_sd: LogSd = Field(
        default=0.0, description="standard deviation of the logarithm of the interference (it drifts)"
    )
    drift_s: Annotated[float, Field(gt=0.0, le=1e4)] = Field(
        default=2.0,
        description="time after which the correlation of the logarithm of the interference has fallen to"
        " 1/e, s",
    )
    noise_log_sd: LogSd = Field(
        default=0.0,
        description="standard deviation of the logarithm of a measured slowdown over the true one",
    )
    most_slowdown: Annotated[float, Field(ge=1.0, le=10.0)] = Field(
        default=1.25, description="slowdown of the foreground beyond which the reward is reduced"
    )


class BurstDecisions(Table):
    """The agent's clock. A plan has a decision for each layer."""

    interval_s: Annotated[float, Field(gt=0.0, le=60.0)] = Field(
        default=0.01, description="BurstMux: wall time between decisions, s"
    )
    episode_steps: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1000, description="BurstMux: number of decisions in an episode"
    )


class BurstScenario(Scenario):
    """Scenario of burst-parallel training."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ("job", "network", "background")

    family: Literal["bursts"] = Field(description="family of problems; determines the keys of the file")
    job: BurstJob = Field(description="the foreground job")
    network: BurstNetwork = Field(default_factory=BurstNetwork, description="links between the GPUs")
    background: Background = Field(default_factory=Background, description="background training")
    control: BurstDecisions = Field(default_factory=BurstDecisions, description="the agent's clock")
    reward: Reward = Field(default_factory=Reward, description="reward of the environment")
