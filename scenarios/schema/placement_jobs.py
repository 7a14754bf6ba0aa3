"""Scenario keys of several jobs that share the links of one system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.common import FromList, Table
from sysgym.scenarios.schema.problems import range_problems

MOST_JOBS = 8
"""Largest number of jobs in observations."""

MOST_JOB_NODES = 16
"""Largest number of nodes in observations and actions."""

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Size = Annotated[float, Field(gt=0.0, le=1e15)]
Seconds = Annotated[float, Field(gt=0.0, le=1e4)]


class Jobs(Table):
    """Jobs drawn by the seed: blocks of devices that a tensor axis joins, and a data axis over the blocks."""

    jobs_min: Annotated[int, Field(ge=1, le=MOST_JOBS)] = Field(default=2, description="fewest jobs")
    jobs_max: Annotated[int, Field(ge=1, le=MOST_JOBS)] = Field(
        default=6, description="most jobs; fewer if the devices are used up"
    )
    block_devices: Annotated[
        tuple[Annotated[int, Field(ge=1, le=256)], ...],
        FromList,
        Field(
            min_length=1,
            max_length=16,
            description="devices of a block, powers of two: the tensor axis, which lies inside a node",
        ),
    ] = (1, 2, 4)
    blocks: Annotated[
        tuple[Annotated[int, Field(ge=1, le=16)], ...],
        FromList,
        Field(min_length=1, max_length=16, description="blocks of a job: the data axis"),
    ] = (2, 4, 8)
    compute_min_s: Seconds = Field(default=0.05, description="least compute of an iteration; log-uniform")
    compute_max_s: Seconds = Field(default=0.3, description="most compute of an iteration")
    overlap_min: Share = Field(
        default=0.0, description="least share of the compute beside which the data axis is reduced"
    )
    overlap_max: Share = Field(default=0.8, description="greatest such share")
    data_min_bytes: Size = Field(default=1e8, description="least vector reduced over blocks; log-uniform")
    data_max_bytes: Size = Field(default=4e9, description="greatest vector reduced over blocks")
    tensor_min_bytes: Size = Field(default=1e6, description="least vector reduced in a block; log-uniform")
    tensor_max_bytes: Size = Field(default=1e9, description="greatest vector reduced inside a block")
    iterations: Annotated[int, Field(ge=1, le=100)] = Field(
        default=4, description="iterations of the job with the longest ones; others run as long when alone"
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
