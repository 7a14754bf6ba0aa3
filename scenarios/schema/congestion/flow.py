"""Agent-controlled flow in scenarios of ``sysgym/FlowCC-v0``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from sysgym.scenarios.errors import NOTHING, Problem
from sysgym.scenarios.schema.tables import Table

if TYPE_CHECKING:
    from sysgym.scenarios.schema.congestion.topology import Topology
    from sysgym.scenarios.schema.congestion.traffic import Workload

_Host = Annotated[int, Field(ge=0)]


class Flow(Table):
    """Agent-controlled flow: its ends, observation, action and reward."""

    preset: str = Field(
        default="datacenter",
        min_length=1,
        description=(
            "observation, action and reward of the sender: aurora, datacenter, orca or a custom preset"
        ),
    )
    history: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="number of intervals in the observation; absent: the default of the preset"
    )
    sender: _Host | None = Field(
        default=None,
        description=(
            "host that sends the agent's flow, which never ends and is added to the workload; absent: the"
            " first flow of the workload is the agent's"
        ),
    )
    receiver: _Host | None = Field(
        default=None, description="host that receives the agent's flow; absent if sender is absent"
    )
    background: str = Field(
        default="dctcp", min_length=1, description="congestion control law of all other flows"
    )
    base_transport: str = Field(
        default="cubic",
        min_length=1,
        description="law whose window the agent multiplies; used if preset is orca",
    )
    decision_rtts: Annotated[float, Field(gt=0.0, le=1000.0)] | None = Field(
        default=None,
        description=(
            "length of an interval in mean round trips of the previous interval, at most"
            " control.decision_interval_s; absent: always control.decision_interval_s"
        ),
    )
    start_rate: Annotated[float, Field(gt=0.0, le=1000.0)] = Field(
        default=0.5,
        description="rate before the first decision, relative to the rate of the path's slowest link",
    )
    action_step: Annotated[float, Field(gt=0.0, le=10.0)] = Field(
        default=0.025,
        description="relative change of the rate by an action of 1; used if preset is aurora",
    )
    buffer_bdp: Annotated[float, Field(gt=0.0, le=1000.0)] | None = Field(
        default=None,
        description=(
            "buffer of every switch port as a multiple of the path's bandwidth-delay product, at least two"
            " packets; absent: queue.buffer_bytes"
        ),
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that the flow has both ends or neither."""
        if (self.sender is None) != (self.receiver is None):
            key = "sender" if self.sender is None else "receiver"
            yield Problem(key, NOTHING, "sender and receiver, or neither of them")
        elif self.sender is not None and self.sender == self.receiver:
            yield Problem("receiver", self.receiver, f"another host than sender = {self.sender}")


def flow_problems(flow: Flow, topology: Topology, workload: Workload) -> Iterator[Problem]:
    """Yield the conflicts between the agent's flow and other tables, with keys relative to the scenario."""
    for key, host in (("sender", flow.sender), ("receiver", flow.receiver)):
        if host is not None and host >= topology.n_hosts:
            yield Problem(f"flow.{key}", host, f"less than the {topology.n_hosts} hosts of the topology")
    if flow.sender is None and workload.kind != "long_lived":
        yield Problem(
            "flow.sender",
            NOTHING,
            f"sender and receiver, because the flows of a workload of kind {workload.kind} end",
            "name two hosts, or use long_lived flows",
        )
