"""Network backends of the congestion environments: the packet simulator and the Linux kernel."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from sysgym.emulator.linux.laws import SCALED, SCALED_TRANSPORTS
from sysgym.emulator.network import Network
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.paced import PACED, PACED_FLOW
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import MissingExtra, SysgymError, UnknownName

PACKETS, LINUX = "packets", "linux"
BACKENDS = (LINUX, PACKETS)


def check_backend(backend: str) -> None:
    """Raise UnknownName unless a backend of that name exists."""
    if backend not in BACKENDS:
        raise UnknownName("backend", backend, BACKENDS)


def law_of_agents(backend: str, transport: Transport, *, multiplied: bool) -> str | Transport:
    """Return the transport of a flow whose rate or window an agent sets.

    Args:
        backend: ``"packets"`` or ``"linux"``.
        transport: Congestion control law of the flow.
        multiplied: Whether the agent multiplies the window of the flow.

    Raises:
        SysgymError: If the kernel has no version of the law whose window can be multiplied.
    """
    if backend == PACKETS:
        return transport
    if not multiplied:
        return PACED_FLOW.name if transport == PACED else transport
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
    """Return a new network: a ``PacketNetwork`` or a ``LinuxNetwork``.

    Args:
        backend: ``"packets"`` or ``"linux"``.
        scenario: Scenario of the network.
        transport: Congestion control law of all flows.
        flow_transports: Mapping from flows to laws that differ from ``transport``.

    Raises:
        MissingExtra: If the extra ``emulator`` is not installed.
        BackendUnavailable: If the kernel or its service is not available.
        ScenarioError: If the kernel cannot emulate the scenario.
        UnknownName: If there is no such transport.
        SysgymError: If flows of one law have different parameters; the kernel supports one set.
    """
    if backend == PACKETS:
        return PacketNetwork(scenario, transport=transport, flow_transports=flow_transports)
    try:
        from sysgym.emulator.linux.client import LinuxNetwork
        from sysgym.emulator.linux.kernel.parameters import PARAMETERS
    except ImportError as error:
        raise MissingExtra("emulator", 'backend="linux"') from error
    others = flow_transports or {}
    own = {flow_id: _name(law) for flow_id, law in others.items()}
    parameters = _parameters([transport, *others.values()], PARAMETERS)
    return LinuxNetwork(scenario, transport=_name(transport), flow_transports=own, parameters=parameters)


def _name(transport: str | Transport) -> str:
    return transport if isinstance(transport, str) else transport.name


def _parameters(transports: Iterable[str | Transport], laws: Container[str]) -> dict[str, tuple[float, ...]]:
    """Return the parameters of the laws that have parameters on the kernel."""
    found: dict[str, tuple[float, ...]] = {}
    for transport in transports:
        if isinstance(transport, str) or transport.name not in laws:
            continue
        if found.setdefault(transport.name, transport.parameters) != transport.parameters:
            raise SysgymError(
                f'flows of the law "{transport.name}" have different parameters: a world on the kernel has'
                ' one set for all of them; give them the same, or use backend="packets"'
            )
    return found
