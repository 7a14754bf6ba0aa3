"""Requirements of a congestion control law on switches and kernels, derived from its declaration."""

from __future__ import annotations

from typing import NamedTuple

from sysgym.emulator.packets.transports import Transport
from sysgym.errors import SysgymError

PACKAGE = "sysgym."


class LawFacts(NamedTuple):
    """Facts about a law.

    Attributes:
        marks: Whether switches may mark its packets (ECN).
        switches: Whether it requires more of switches than marks: telemetry, trimming or classes.
        kernel: Whether the Linux backend can run it with the same constants, in the kernel itself or by an
            eBPF program of the package.
    """

    marks: bool
    switches: bool
    kernel: bool


def facts_of(transport: Transport) -> LawFacts:
    """Return the facts about a law, from the declaration that determines its packets in the simulator."""
    switches = transport.needs_int or transport.needs_trimming or transport.needs_classes > 1
    return LawFacts(transport.ecn_capable, switches, _is_on_kernel(transport))


def _is_on_kernel(transport: Transport) -> bool:
    from sysgym.emulator.linux.kernel.parameters import PARAMETERS, in_fixed_point
    from sysgym.emulator.linux.laws import KERNEL_TRANSPORTS

    if not transport.on_ack.__module__.startswith(PACKAGE):
        return False  # a law of a user's file, whatever its name
    if transport.name not in PARAMETERS:
        return transport.name in KERNEL_TRANSPORTS
    try:
        in_fixed_point(transport.name, transport.parameters)
    except SysgymError:
        return False  # constants outside the range of the eBPF program
    return True
