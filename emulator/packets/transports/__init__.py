"""Transports by name.

To add a transport, write a module with a :class:`Transport` and add a line to the list below and its
name to ``src/sysgym/cli/completion.py``, or call :func:`register_transport` from your own program.
"""

from __future__ import annotations

from sysgym.emulator.packets.transports.base import (
    Receiver,
    Transport,
    multiplicative_decrease,
    parameter,
    reno_increase,
    restart_from_one,
    round_trip_packets,
    slow_line_stretch,
)
from sysgym.emulator.packets.transports.bbr.bbr import BBR, BBR_IDEAL
from sysgym.emulator.packets.transports.bbr.bbr3 import BBR3, BBR3_ECN
from sysgym.emulator.packets.transports.constants import Constant
from sysgym.emulator.packets.transports.cubic import CUBIC
from sysgym.emulator.packets.transports.dcqcn import DCQCN
from sysgym.emulator.packets.transports.dctcp import DCTCP
from sysgym.emulator.packets.transports.hpcc import HPCC
from sysgym.emulator.packets.transports.newvegas import NEWVEGAS
from sysgym.emulator.packets.transports.paced import PACED
from sysgym.emulator.packets.transports.receiver_driven.eqds import EQDS
from sysgym.emulator.packets.transports.receiver_driven.homa import HOMA
from sysgym.emulator.packets.transports.receiver_driven.ndp import NDP
from sysgym.emulator.packets.transports.reno import RENO
from sysgym.emulator.packets.transports.slow_start import slow_start
from sysgym.emulator.packets.transports.swift import SWIFT
from sysgym.emulator.packets.transports.timely import TIMELY, TIMELY_PATCHED
from sysgym.scenarios.errors import SysgymError, UnknownName

__all__ = [
    "Constant",
    "Receiver",
    "Transport",
    "get_transport",
    "list_transports",
    "multiplicative_decrease",
    "parameter",
    "register_transport",
    "reno_increase",
    "restart_from_one",
    "round_trip_packets",
    "slow_line_stretch",
    "slow_start",
]

_TRANSPORTS = {
    transport.name: transport
    for transport in (
        RENO,
        CUBIC,
        DCTCP,
        NEWVEGAS,
        BBR,
        BBR_IDEAL,
        BBR3,
        BBR3_ECN,
        SWIFT,
        TIMELY,
        TIMELY_PATCHED,
        DCQCN,
        HPCC,
        EQDS,
        NDP,
        HOMA,
        PACED,
    )
}


def register_transport(transport: Transport) -> Transport:
    """Register a transport by its name, in this process.

    Raises:
        SysgymError: If another transport already has that name.
    """
    known = _TRANSPORTS.get(transport.name)
    if known is not None and known != transport:
        raise SysgymError(f"transport {transport.name!r} exists already; choose another name")
    _TRANSPORTS[transport.name] = transport
    return transport


def get_transport(name: str) -> Transport:
    """Return the transport with a given name.

    Raises:
        UnknownName: If there is no such transport; the message lists the nearest names.
    """
    try:
        return _TRANSPORTS[name]
    except KeyError:
        raise UnknownName("transport", name, list_transports()) from None


def list_transports() -> list[str]:
    """Return all names, in the order of registration."""
    return list(_TRANSPORTS)
