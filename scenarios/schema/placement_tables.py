"""Scenario keys of placement by measurements, and of several jobs that share the links of one system."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.later_keys import GrownTable
from sysgym.scenarios.schema.problems import range_problems
from sysgym.scenarios.schema.tables import FromList, Table

MOST_JOBS = 8
"""Largest number of jobs in observations."""

MOST_JOB_NODES = 16
"""Largest number of nodes in observations and actions."""

LogSd = Annotated[float, Field(ge=0.0, le=3.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Ratio = Annotated[float, Field(gt=0.0, le=1.0)]
Size = Annotated[float, Field(gt=0.0, le=1e15)]
Seconds = Annotated[float, Field(gt=0.0, le=1e4)]

OF_FACTORS = ("bandwidth_log_sd", "collective_log_sd", "background_share_mean", "background_share_sd")
"""Keys that describe hidden factors."""

OF_FLOWS = (
    "level_share_min",
    "slow_node_probability",
    "slow_node_share",
    "slow_link_probability",
    "slow_link_share",
    "background_flows",
    "background_flow_share",
    "background_states",
)
"""Keys that describe hidden links, of which agents are told nothing."""


class Joint(GrownTable):
    """Joint choice of placement and program, where true times are known only from measurements."""

    LATER: ClassVar[Mapping[str, Any]] = {
        "truth": "factors",
        "residual_log_sd": 0.0,
        "level_share_min": 1.0,
        "slow_node_probability": 0.0,
        "slow_node_share": 0.5,
        "slow_link_probability": 0.0,
        "slow_link_share": 0.5,
        "background_flows": 0,
        "background_flow_share": 0.3,
        "background_states": 4,
    }

    candidates: Annotated[int, Field(ge=2, le=512)] = Field(
        default=48,
        description="number of placements with programs to choose from: the best by nominal bandwidth",
    )
    budget: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=20, description="maximum number of measurements in an episode"
    )
    measurement_price: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        default=0.005, description="price of a measurement, in the natural log of the speed-up"
    )
    noise_log_sd: LogSd = Field(
        default=0.1,
        description="log standard deviation of the measurement noise, in addition to background traffic",
    )
    bandwidth_log_sd: LogSd = Field(
        default=0.4, description="log standard deviation of a level's true bandwidth around the nominal one"
    )
    collective_log_sd: LogSd = Field(
        default=0.3,
        description="log standard deviation of the share of the bandwidth that a kind of collective reaches",
    )
    truth: Literal["factors", "flows"] = Field(
        default="factors",
        description="source of the true times; factors: the cost model with a log-normal factor for each"
        " level and collective, whose standard deviations agents see; flows: a simulation of flows on"
        " links with faults and background traffic, which agents do not see",
    )
    residual_log_sd: LogSd = Field(
        default=0.0,
        description="log standard deviation of an individual factor, of median 1, on each candidate's true"
        " time",
    )
    level_share_min: Ratio = Field(
        default=1.0,
        description="truth = flows: minimum true bandwidth of a level's links over the nominal one;"
        " uniform up to 1",
    )
    slow_node_probability: Share = Field(
        default=0.0, description="truth = flows: probability that one instance of the outermost level is slow"
    )
    slow_node_share: Ratio = Field(
        default=0.5,
        description="truth = flows: bandwidth of all links of the slow node, relative to the others",
    )
    slow_link_probability: Share = Field(
        default=0.0, description="truth = flows: probability that one uplink of some level is slow"
    )
    slow_link_share: Ratio = Field(
        default=0.5, description="truth = flows: bandwidth of the slow uplink, relative to the others"
    )
    background_flows: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=0,
        description="truth = flows: number of background flows at any time, each between two drawn devices",
    )
    background_flow_share: Annotated[float, Field(ge=0.0, le=0.9)] = Field(
        default=0.3,
        description="truth = flows: maximum rate of a background flow over the bandwidth of its path;"
        " uniform from 0",
    )
    background_states: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4,
        description="truth = flows: number of different sets of background flows; a measurement encounters"
        " one of them",
    )
    background_share_mean: Annotated[float, Field(ge=0.0, le=0.9)] = Field(
        default=0.1, description="mean share of each level's uplink bandwidth that background traffic takes"
    )
    background_share_sd: Annotated[float, Field(ge=0.0, le=0.5)] = Field(
        default=0.1, description="standard deviation of this share between measurements"
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that a fraction can have this mean and standard deviation, and that keys have an effect."""
        own, truth = (OF_FACTORS, OF_FLOWS)[self.truth == "flows"], self.truth
        for key in sorted(self.model_fields_set & {*OF_FACTORS, *OF_FLOWS} - {*own}):
            if getattr(self, key) != type(self).model_fields[key].default:
                other = "factors" if truth == "flows" else "flows"
                advice = f'delete the key, or set truth = "{other}"'
                yield Problem(key, getattr(self, key), f'nothing with truth = "{truth}"', advice)
        mean, sd = self.background_share_mean, self.background_share_sd
        most = math.sqrt(mean * (1.0 - mean))
        if sd > 0.0 and sd >= most:
            expected = f"less than {most:g}, the most that a share with the mean {mean:g} has"
            yield Problem("background_share_sd", sd, expected)


class Jobs(Table):
    """Jobs drawn by the seed: blocks of devices that a tensor axis joins, and a data axis over the blocks."""

    jobs_min: Annotated[int, Field(ge=1, le=MOST_JOBS)] = Field(
        default=2, description="minimum number of jobs"
    )
    jobs_max: Annotated[int, Field(ge=1, le=MOST_JOBS)] = Field(
        default=6, description="maximum number of jobs; fewer if the devices are used up"
    )
    block_devices: Annotated[
        tuple[Annotated[int, Field(ge=1, le=256)], ...],
        FromList,
        Field(
            min_length=1,
            max_length=16,
            description="number of devices of a block, powers of two: the tensor axis, which lies inside a"
            " node",
        ),
    ] = (1, 2, 4)
    blocks: Annotated[
        tuple[Annotated[int, Field(ge=1, le=16)], ...],
        FromList,
        Field(min_length=1, max_length=16, description="number of blocks of a job: the data axis"),
    ] = (2, 4, 8)
    compute_min_s: Seconds = Field(
        default=0.05, description="minimum compute time of an iteration; log-uniform"
    )
    compute_max_s: Seconds = Field(default=0.3, description="maximum compute time of an iteration")
    overlap_min: Share = Field(
        default=0.0,
        description="minimum share of the compute that overlaps with the reduction over the data axis",
    )
    overlap_max: Share = Field(
        default=0.8,
        description="maximum share of the compute that overlaps with the reduction over the data axis",
    )
    data_min_bytes: Size = Field(
        default=1e8, description="minimum size of the vector reduced over blocks; log-uniform"
    )
    data_max_bytes: Size = Field(default=4e9, description="maximum size of the vector reduced over blocks")
    tensor_min_bytes: Size = Field(
        default=1e6, description="minimum size of the vector reduced inside a block; log-uniform"
    )
    tensor_max_bytes: Size = Field(
        default=1e9, description="maximum size of the vector reduced inside a block"
    )
    iterations: Annotated[int, Field(ge=1, le=100)] = Field(
        default=4,
        description="number of iterations of the job with the longest iterations; the other jobs, alone,"
        " take the same time",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check the ranges, and that blocks of all sizes fit together."""
        for name, suffix in (
            ("jobs", ""),
            ("compute", "_s"),
            ("overlap", ""),
            ("data", "_bytes"),
            ("tensor", "_bytes"),
        ):
            yield from range_problems(self, name, suffix)
        for index, size in enumerate(self.block_devices):
            if size & (size - 1):
                advice = "blocks of powers of two fill a node without gaps"
                yield Problem(f"block_devices[{index}]", size, "a power of two", advice)
