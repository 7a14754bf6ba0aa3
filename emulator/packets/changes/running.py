"""Values of a running network that a change replaces, and the keys that can change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.transports.base import Transport
from sysgym.emulator.packets.workloads import FlowSchedule
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import SysgymError, UnknownName
from sysgym.scenarios.schema.congestion import MixWorkload, TrainingWorkload

ECN_THRESHOLD = "queue.ecn_threshold_bytes"
LINK_DELAY = "topology.link_delay_s"

Effect = Literal["at once", "packets sent from now on", "flows that start from now on", "the next round"]

_WORKLOAD_KEYS: dict[str, dict[str, Effect]] = {
    "incast": {
        "senders": "the next round",
        "request_bytes": "the next round",
        "period_s": "the next round",
    },
    "long_lived": {"flows_per_pair": "at once"},
    "poisson": {"load": "flows that start from now on"},
    "on_off": {"rate_bps": "flows that start from now on"},
}


class Running(NamedTuple):
    """Network at its present time.

    Attributes:
        scenario: Scenario with all changes so far.
        topology: Its network.
        schedule: All flows, including future ones.
        state: Arrays of the simulation.
        ideal_fct_s: Completion time of every flow on an empty network, s, shape (n_flows,).
        laws: Transports of the network; a flow's ``transport`` is an index into them. The last one is the
            transport of future flows.
        own_laws: Whether single flows have transports of their own.
        extended: Whether the network runs in the extended loop.
        seed: Seed of the workload; None if the flows were given.
    """

    scenario: CongestionScenario
    topology: Topology
    schedule: FlowSchedule
    state: State
    ideal_fct_s: NDArray[np.float64]
    laws: tuple[Transport, ...]
    own_laws: bool
    extended: bool
    seed: int | None

    @property
    def now_ns(self) -> int:
        """Simulated time."""
        return int(self.state.world["now_ns"][0])

    @property
    def n_begun(self) -> int:
        """Number of flows that have started; they come first."""
        return int(self.state.world["next_flow"][0])


def changeable_keys(scenario: CongestionScenario) -> dict[str, Effect]:
    """Return the keys of a scenario that can change while it runs, and the effect of a change.

    Flows that wait for others (training workloads) cannot be redrawn, so no key of their workload can change.
    """
    keys: dict[str, Effect] = {}
    queue = scenario.queue
    if queue.ecn_threshold_bytes is not None and queue.discipline == "fifo" and not queue.is_list:
        keys[ECN_THRESHOLD] = "at once"
    if not scenario.faults.rate_changes:
        keys[LINK_DELAY] = "packets sent from now on"
    return keys | dict(_workload_keys(scenario))


def _workload_keys(scenario: CongestionScenario) -> Iterator[tuple[str, Effect]]:
    workload = scenario.workload
    if not isinstance(workload, MixWorkload):
        for name, effect in _WORKLOAD_KEYS.get(workload.kind, {}).items():
            yield f"workload.{name}", effect
    elif not any(isinstance(part, TrainingWorkload) for part in workload.parts.values()):
        for part_name, part in workload.parts.items():
            if part.kind != "long_lived":  # its flows have all started
                for name, effect in _WORKLOAD_KEYS.get(part.kind, {}).items():
                    yield f"workload.parts.{part_name}.{name}", effect


def draws_its_flows(running: Running) -> bool:
    """Return whether future flows can be redrawn: there is a seed, and no flow has its own transport."""
    return running.seed is not None and not running.own_laws


def check_keys(running: Running, settings: Mapping[str, Any]) -> None:
    """Check that keys can change while this network runs.

    Raises:
        UnknownName: If a key cannot change.
        SysgymError: If a change needs new flows, but the flows were given or some have their own transports.
    """
    known = changeable_keys(running.scenario)
    for key in settings:
        if key not in known:
            raise UnknownName("key that can change while the network runs", key, known)
    if not any(key.startswith("workload.") for key in settings):
        return
    if not draws_its_flows(running):
        why = "were given to reset()" if running.seed is None else "have transports of their own, by number"
        raise SysgymError(
            f"{running.scenario.name}: its flows {why}, so no others can be drawn; change queues and delays"
        )
