"""Requirements of transports: of switches, of the other transports in a network, and of the event loop."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sysgym.emulator.packets.engine.recovery.duplicate_acks import DUPLICATE_THRESHOLD
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.workloads import FlowSchedule
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import ScenarioError, SysgymError


def check_requirements(scenario: CongestionScenario, common: Transport, own: Iterable[Transport]) -> None:
    """Check that a network has what its transports need.

    Args:
        scenario: The network.
        common: Transport of all flows that have none of their own.
        own: Transports of single flows.

    Raises:
        ScenarioError: If switches lack classes or trimming.
        SysgymError: If a flow's own transport needs what the network has for its common transport only.
    """
    own = tuple(own)
    _check_common_parts(common, own)
    for transport in (common, *own):
        _check_switches(scenario, transport)
        _check_hosts(scenario, transport)


def _check_common_parts(common: Transport, own: Iterable[Transport]) -> None:
    """Check that flows' own transports need only the ticks, telemetry and notifications of the common one."""
    for transport in own:
        parts = {
            "telemetry": (transport.needs_int, common.needs_int, False),
            "notifications": (transport.cnp_interval_ns, common.cnp_interval_ns, 0),
            "ticks": (transport.tick_s, common.tick_s, 0.0),
            "receivers": (transport.receiver, common.receiver, None),
        }
        needed = [part for part, (wanted, _, absent) in parts.items() if wanted != absent]
        if needed and any(wanted != there for wanted, there, _ in parts.values()):
            raise SysgymError(
                f'the transport "{transport.name}" of single flows needs {" and ".join(needed)}, and these'
                f' are those of the common transport, "{common.name}"; make "{transport.name}" the'
                " transport of all flows"
            )


def _check_switches(scenario: CongestionScenario, transport: Transport) -> None:
    """Check that the switches have the classes and the trimming without which a transport is not itself."""
    queue, name = scenario.queue, f'the transport "{transport.name}"'
    if queue.classes < transport.needs_classes:
        expected = f"{transport.needs_classes} or more, the classes that {name} needs"
        advice = f"set queue.classes = {transport.needs_classes}"
        if transport.needs_trimming:
            advice += " and queue.trim = true"
        raise ScenarioError(scenario.name, "queue.classes", queue.classes, expected, advice=advice)
    if transport.needs_trimming and not queue.trim:
        expected = f"true, because {name} is told of losses by trimmed packets"
        raise ScenarioError(scenario.name, "queue.trim", queue.trim, expected, advice="set queue.trim = true")


def _check_hosts(scenario: CongestionScenario, transport: Transport) -> None:
    """Check that a receiver-driven transport gets a message, not a connection, from every flow."""
    ends, name = scenario.transport, f'the receiver-driven transport "{transport.name}"'
    if transport.receiver is None:
        return
    if ends.connections != "per_flow":
        expected = f'"per_flow": {name} has no connections that could persist'
        raise ScenarioError(scenario.name, "transport.connections", ends.connections, expected)
    if ends.handshake:
        expected = f"false: {name} begins with its data"
        raise ScenarioError(scenario.name, "transport.handshake", ends.handshake, expected)
    if ends.loss_detection not in ("rack", "linux", "dupack"):
        expected = f'"rack", "linux" or "dupack": {name} has no other recovery'
        raise ScenarioError(scenario.name, "transport.loss_detection", ends.loss_detection, expected)


def needs_extended_loop(
    scenario: CongestionScenario, transports: Iterable[Transport], schedule: FlowSchedule
) -> bool:
    """Return whether a network needs the extended event loop.

    Args:
        scenario: The network.
        transports: All of its transports.
        schedule: Its flows.
    """
    queue, routing, faults = scenario.queue, scenario.routing, scenario.faults
    return (
        any(one.needs_extras for one in transports)
        or bool(np.any(schedule.needs))
        or scenario.transport.delays_acks
        or scenario.transport.segmentation_offload_bytes is not None
        or queue.discipline != "fifo"
        or queue.is_list
        or queue.shared_buffer_bytes is not None
        or routing.ecmp != "flow"
        or scenario.duplicate_threshold != DUPLICATE_THRESHOLD
        or faults.loss_probability > 0.0
        or len(faults.links) > 0
        or len(faults.rate_changes) > 0
        or scenario.topology.link_model != "wire"
    )
