"""Change of the congestion control law of a running network."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.packets.changes.running import Running
from sysgym.emulator.packets.engine.events import MAX_TIME_NS
from sysgym.emulator.packets.engine.sender import notify
from sysgym.emulator.packets.memory.callbacks import ON_START
from sysgym.emulator.packets.memory.flow_record import NO_WINDOW_PACKETS, flow_at
from sysgym.emulator.packets.memory.records import NOBODY, event_at, host_at, world_at
from sysgym.emulator.packets.requirements import check_requirements
from sysgym.emulator.packets.transports.base import Transport
from sysgym.scenarios.errors import SysgymError


def check_law(running: Running, law: Transport) -> None:
    """Check that the flows of a running network can change to a law.

    Raises:
        ScenarioError: If the switches lack a feature that the law needs.
        SysgymError: If single flows have their own laws, if the agent or receivers control the flows, if the
            network lacks timers or telemetry that the law needs, or if the law recovers from losses in
            another way.
    """
    scenario, present = running.scenario, running.laws[-1]
    if running.own_laws:
        raise SysgymError(f"{scenario.name}: single flows have laws of their own, which cannot change")
    for one in (present, law):
        if one.rate_driven or one.receiver is not None:
            why = "the agent sets its rate" if one.rate_driven else "its receivers decide what is sent"
            raise SysgymError(
                f'the law cannot change between "{present.name}" and "{law.name}" while flows run:'
                f' of "{one.name}", {why}; begin another episode with the other law'
            )
    check_requirements(scenario, running.laws[0], [law])
    detection = scenario.transport.loss_detection
    if present.recovery_code(detection) != law.recovery_code(detection):
        raise SysgymError(
            f'the law cannot change from "{present.name}" to "{law.name}" while flows run: they recover from'
            ' losses in different ways; set transport.loss_detection to "rack", the same for all laws'
        )


def give_law(running: Running, number: int) -> None:
    """Set the law of all flows that have not ended, as setsockopt(TCP_CONGESTION) does on Linux.

    Windows and thresholds are kept. The state of the law is reset, and ``on_start`` runs for flows that have
    started.

    Args:
        running: Network in which the law's callbacks are known, to change in place.
        number: Number of the law.
    """
    flows, law = running.state.flows, running.laws[number]
    alive = flows["finish_ns"] < 0
    flows["transport"][alive] = number
    flows["reduces_by_prr"][alive] = law.reduces_by_prr
    flows["ecn_capable"][alive] = law.ecn_capable
    going_on = alive & (flows["begun"] > 0)
    flows["state"][going_on] = 0.0
    flows["pacing_rate_bps"][going_on] = 0.0
    flows["pacing_burst_packets"][going_on] = 0
    flows["burst_left"][going_on] = 0
    flows["last_cnp_ns"][going_on] = -MAX_TIME_NS
    # A law that limits only its rate has no window, so the packets in flight become the window.
    without = going_on & (flows["cwnd"] >= NO_WINDOW_PACKETS)
    in_flight = (flows["nxt"] - flows["una"])[without]
    flows["cwnd"][without] = np.maximum(in_flight, running.scenario.transport.initial_window_packets)
    _begin(int(running.state.world.ctypes.data), True if running.extended else None)


@cached_kernel()
def _begin(world_address: int, extended: bool | None) -> None:
    """Run ``on_start`` of every active flow's law; ``extended`` is None in the plain loop, else True."""
    world = world_at(world_address, 0)
    for host_id in range(world.n_hosts):
        flow_id = host_at(world.hosts, host_id).first_active
        while flow_id != NOBODY:
            flow = flow_at(world.flows, flow_id)
            _describe(world, flow)
            notify(world, flow, ON_START, event_at(world.event, 0), extended)
            flow_id = flow.next_active


@cached_kernel()
def _describe(world: Any, flow: Any) -> None:
    """Fill in the event of a law that begins in the middle of a flow."""
    event = event_at(world.event, 0)
    event.now_ns = world.now_ns
    event.in_flight_packets = flow.nxt - flow.una
