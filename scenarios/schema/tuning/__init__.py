"""Scenarios of tuning: a data-parallel job, its network, what its profile does not tell, the budget."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.tables import Reward, Table

MOST_BUCKETS = 64
LogSd = Annotated[float, Field(ge=0.0, le=2.0)]
Share = Annotated[float, Field(ge=0.0, le=0.95)]


class TuningJob(Table):
    """A data-parallel training job."""

    model: Literal["resnet50", "vgg16", "bert_large", "decoder"] = Field(description="model")
    batch: Annotated[int, Field(ge=1, le=65_536)] = Field(description="number of samples per worker and step")
    workers: Annotated[int, Field(ge=2, le=65_536)] = Field(description="workers")
    flops_per_s: Annotated[float, Field(ge=1e9, le=1e18)] = Field(
        default=5e13, description="assumed: operations per second of an accelerator"
    )
    spread_log_sd: LogSd = Field(
        default=0.0,
        description="standard deviation of the logarithm of random factors on the times of layers",
    )
    start: Literal["one_bucket", "25_mb", "one_layer"] = Field(
        default="25_mb",
        description="buckets at the beginning; 25_mb: PyTorch's default, 25 MiB and 1 MiB for the first one",
    )


class TuningNetwork(Table):
    """The network as the profile has it."""

    bandwidth_bps: Annotated[float, Field(ge=1e6, le=1e14)] = Field(
        default=2.5e10, description="bandwidth of a worker, bit/s"
    )
    latency_s: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=30e-6, description="latency of a hop of the ring, s"
    )


class TuningTruth(Table):
    """Effects that the profile leaves out; all of them are assumed."""

    chunk_bytes: Annotated[float, Field(ge=1024.0, le=1e12)] = Field(
        default=4e6, description="transfers can be overtaken after so many bytes"
    )
    launch_s: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=50e-6, description="compute time that each bucket takes, s"
    )
    overlap_slowdown: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        default=0.1, description="slowdown of computing while gradients are sent, ratio less 1"
    )
    jitter_log_sd: LogSd = Field(
        default=0.1,
        description="standard deviation of the logarithm of random factors on the times of chunks",
    )
    background_share: Share = Field(
        default=0.0, description="share of the bandwidth that others use in some phases"
    )
    background_probability: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        default=0.3, description="share of the phases in which they do"
    )
    background_s: Annotated[float, Field(ge=1e-4, le=100.0)] = Field(
        default=0.01, description="duration of a phase, s"
    )


class TuningBudget(Table):
    """The agent's budget."""

    episode_steps: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=30, description="maximum number of changes in an episode"
    )
    most_buckets: Annotated[int, Field(ge=2, le=MOST_BUCKETS)] = Field(
        default=32, description="maximum number of buckets; sets the number of rows of the observation"
    )


class TuningScenario(Scenario):
    """Scenario of tuning."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ("job", "network", "truth")

    family: Literal["tuning"] = Field(description="family of problems; determines the keys of the file")
    job: TuningJob = Field(description="the job")
    network: TuningNetwork = Field(
        default_factory=TuningNetwork, description="the network as it is thought to be"
    )
    truth: TuningTruth = Field(default_factory=TuningTruth, description="what the profile does not tell")
    control: TuningBudget = Field(default_factory=TuningBudget, description="the agent's budget")
    reward: Reward = Field(default_factory=Reward, description="reward of the environment")
