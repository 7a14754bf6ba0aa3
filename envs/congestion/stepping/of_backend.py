"""Stepper classes by network backend; kernel steppers are imported on first use."""

from __future__ import annotations

from sysgym.envs.congestion.backends import PACKETS
from sysgym.envs.congestion.stepping.flow_stepper import FlowStepper
from sysgym.envs.congestion.stepping.network_stepper import NetworkStepper


def flow_stepper_on(backend: str) -> type[FlowStepper]:
    """Return the class that steps agents of single flows or hosts on a backend."""
    if backend == PACKETS:
        return FlowStepper
    from sysgym.envs.congestion.stepping.linux_stepper import LinuxFlowStepper

    return LinuxFlowStepper


def network_stepper_on(backend: str) -> type[NetworkStepper]:
    """Return the class that steps whole networks on a backend."""
    if backend == PACKETS:
        return NetworkStepper
    from sysgym.envs.congestion.stepping.linux_stepper import LinuxNetworkStepper

    return LinuxNetworkStepper
