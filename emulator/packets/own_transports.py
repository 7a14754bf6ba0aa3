"""Transports of single flows, beside the common one of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.transports import Transport
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import SysgymError


def give_own_transports(
    flows: NDArray[np.void],
    scenario: CongestionScenario,
    transports: Sequence[Transport],
    own: Mapping[int, Transport],
) -> None:
    """Set callbacks, recovery, ECN and the first window of flows with transports of their own, in place.

    Args:
        flows: Records of all flows.
        scenario: Scenario of the network.
        transports: All transports of the network, the common one first.
        own: Transports by flow.

    Raises:
        SysgymError: If there is no such flow.
    """
    numbers = {id(transport): number for number, transport in enumerate(transports)}
    common_has_receiver = transports[0].receiver is not None
    for flow_id, transport in own.items():
        if flow_id not in range(len(flows)):
            raise SysgymError(
                f"flow_transports has a transport for flow {flow_id!r}; expected a number from 0 to"
                f" {len(flows) - 1}, the flows of this workload"
            )
        flows["transport"][flow_id] = numbers[id(transport)]
        flows["recovery"][flow_id] = transport.recovery_code(scenario.transport.loss_detection)
        flows["reduces_by_prr"][flow_id] = transport.reduces_by_prr
        flows["needs_credit"][flow_id] = transport.receiver is not None
        if transport.receiver is None and common_has_receiver:
            flows["cwnd"][flow_id] = scenario.transport.initial_window_packets
        flows["ecn_capable"][flow_id] = transport.ecn_capable
