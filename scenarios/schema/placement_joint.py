"""Scenario keys of the joint choice of placement and program by measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.later_keys import GrownTable

LogSd = Annotated[float, Field(ge=0.0, le=3.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Ratio = Annotated[float, Field(gt=0.0, le=1.0)]

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
        default=48, description="placements with programs to choose from, the best by the nominal bandwidths"
    )
    budget: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=20, description="most measurements in an episode"
    )
    measurement_price: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        default=0.005, description="price of a measurement, in the natural log of the speed-up"
    )
    noise_log_sd: LogSd = Field(
        default=0.1, description="log standard deviation of a measurement's noise besides background traffic"
    )
    bandwidth_log_sd: LogSd = Field(
        default=0.4, description="log standard deviation of a level's true bandwidth around the nominal one"
    )
    collective_log_sd: LogSd = Field(
        default=0.3,
        description="log standard deviation of the share of it that a kind of collective reaches",
    )
    truth: Literal["factors", "flows"] = Field(
        default="factors",
        description="what times come from; factors: the cost model with a log-normal factor for each level"
        " and collective, whose deviations agents are told; flows: a simulation of flows on links with faults"
        " and others' traffic, of which agents are told nothing",
    )
    residual_log_sd: LogSd = Field(
        default=0.0,
        description="log standard deviation of what each candidate's true time has of its own, of median 1",
    )
    level_share_min: Ratio = Field(
        default=1.0,
        description="truth = flows: least true bandwidth of a level's links over the nominal one;"
        " uniform up to 1",
    )
    slow_node_probability: Share = Field(
        default=0.0, description="truth = flows: probability that one instance of the outermost level is slow"
    )
    slow_node_share: Ratio = Field(
        default=0.5, description="truth = flows: bandwidth of all its links over that of the others"
    )
    slow_link_probability: Share = Field(
        default=0.0, description="truth = flows: probability that one uplink of some level is slow"
    )
    slow_link_share: Ratio = Field(
        default=0.5, description="truth = flows: its bandwidth over that of the others"
    )
    background_flows: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=0,
        description="truth = flows: flows of others at any time, each between two drawn devices",
    )
    background_flow_share: Annotated[float, Field(ge=0.0, le=0.9)] = Field(
        default=0.3,
        description="truth = flows: largest rate of such a flow over its path's bandwidth; uniform from 0",
    )
    background_states: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4,
        description="truth = flows: different sets of others' flows, one of which a measurement meets",
    )
    background_share_mean: Annotated[float, Field(ge=0.0, le=0.9)] = Field(
        default=0.1, description="mean share of each level's uplink bandwidth that others' traffic takes"
    )
    background_share_sd: Annotated[float, Field(ge=0.0, le=0.5)] = Field(
        default=0.1, description="its standard deviation from measurement to measurement"
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
