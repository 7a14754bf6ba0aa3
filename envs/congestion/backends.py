"""Network backends of the congestion environments: the packet simulator and the Linux kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sysgym.emulator.network import Network
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.neural import NAME as NEURAL
from sysgym.emulator.packets.transports.paced import PACED, PACED_FLOW
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import MissingExtra, SysgymError, UnknownName

PACKETS, LINUX = "packets", "linux"
BACKENDS = (LINUX, PACKETS)


def check_backend(backend: str) -> None:
    """Raise UnknownName unless there is a backend of that name."""
    if backend not in BACKENDS:
        raise UnknownName("backend", backend, BACKENDS)


def law_of_agents(backend: str, transport: Transport, *, multiplied: bool) -> str | Transport:
    """Return the transport of a flow whose pace, or window, an agent sets.

    Args:
        backend: ``"packets"`` or ``"linux"``.
        transport: Its law.
        multiplied: Whether the agent multiplies its window.

    Raises:
        MissingExtra: If the extra ``emulator`` is not installed.
        SysgymError: If the kernel has no such law whose window can be multiplied.
    """
    if backend == PACKETS:
        return transport
    if not multiplied:
        return PACED_FLOW.name if transport == PACED else transport
    try:
        from sysgym.emulator.linux.traffic.congestion_controls import SCALED, SCALED_TRANSPORTS
    except ImportError as error:
        raise MissingExtra("emulator", 'backend="linux"') from error
    if SCALED + transport.name not in SCALED_TRANSPORTS:
        known = ", ".join(name.removeprefix(SCALED) for name in SCALED_TRANSPORTS)
        raise SysgymError(
            f'the window of "{transport.name}" cannot be multiplied on the kernel: use {known}, or'
            ' backend="packets"'
        )
    return SCALED + transport.name


def network_on(
    backend: str,
    scenario: CongestionScenario,
    transport: str | Transport,
    flow_transports: Mapping[int, str | Transport] | None = None,
) -> Network:
    """Return a network: a ``PacketNetwork`` or a ``LinuxNetwork``.

    Args:
        backend: ``"packets"`` or ``"linux"``.
        scenario: What it is like.
        transport: Congestion control of its flows.
        flow_transports: Flow -> its own law.

    Raises:
        MissingExtra: If the extra ``emulator`` is not installed.
        BackendUnavailable: If the kernel, or its service, cannot be had here.
        ScenarioError: If the kernel cannot be what the scenario says.
        UnknownName: If there is no such transport.
        SysgymError: If flows of the law ``neural`` have different networks, and the kernel takes one.
    """
    if backend == PACKETS:
        return PacketNetwork(scenario, transport=transport, flow_transports=flow_transports)
    try:
        from sysgym.emulator.linux.client import LinuxNetwork
    except ImportError as error:
        raise MissingExtra("emulator", 'backend="linux"') from error
    others = flow_transports or {}
    own = {flow_id: _name(law) for flow_id, law in others.items()}
    parameters = _parameters([transport, *others.values()])
    return LinuxNetwork(scenario, transport=_name(transport), flow_transports=own, parameters=parameters)


def _name(transport: str | Transport) -> str:
    return transport if isinstance(transport, str) else transport.name


def _parameters(transports: Iterable[str | Transport]) -> tuple[float, ...]:
    """Of the law ``neural``; other laws have their own on the kernel."""
    found = {law.parameters for law in transports if isinstance(law, Transport) and law.name == NEURAL}
    if len(found) > 1:
        raise SysgymError(
            f'{len(found)} networks of the law "{NEURAL}": a world on the kernel has one for all its flows;'
            ' give them the same, or use backend="packets"'
        )
    return next(iter(found), ())
