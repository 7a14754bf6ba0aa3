"""Facts about a congestion control law that the program finds out: what it asks of switches and kernels."""

from __future__ import annotations

from typing import NamedTuple

from sysgym.emulator.packets.transports import Transport
from sysgym.errors import SysgymError

PACKAGE = "sysgym."


class LawFacts(NamedTuple):
    """Facts about a law.

    Attributes:
        marks: Whether its packets may be marked by switches (ECN).
        switches: Whether it needs more of switches than marks: telemetry, trimming or classes.
        kernel: Whether the Linux backend can play it with the same constants, in the kernel itself or by an
            eBPF program of the package.
    """

    marks: bool
    switches: bool
    kernel: bool


def facts_of(transport: Transport) -> LawFacts:
    """Return the facts about a law, from its declaration, by which the simulator treats its packets."""
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
        return False  # constants beyond those that the program can hold
    return True
