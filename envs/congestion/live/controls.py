"""Controls for the settings of a network that can change while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sysgym.emulator.packets.changes.laws import check_law
from sysgym.emulator.packets.changes.running import (
    ECN_THRESHOLD,
    LINK_DELAY,
    changeable_keys,
    draws_its_flows,
)
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import get_transport, list_transports
from sysgym.envs.live import Control
from sysgym.scenarios.errors import SysgymError

LAW = "law"
MOST_LONG_LIVED = 16
"""Largest number of long-lived flows per pair that the control offers."""

_LABELS = {
    "senders": ("Senders in a round", ""),
    "period_s": ("Time between rounds", "s"),
    "request_bytes": ("Bytes of each answer", "bytes"),
    "flows_per_pair": ("Flows of each pair", ""),
    "load": ("Load", ""),
    "rate_bps": ("Rate while busy", "bit/s"),
}


def controls_of(network: PacketNetwork) -> tuple[Control, ...]:
    """Return the controls of a network at its beginning."""
    return (*_of_law(network), *_of_scenario(network))


def _of_scenario(network: PacketNetwork) -> Iterator[Control]:
    scenario, may_draw = network.scenario, draws_its_flows(network.running)
    for key, acts in changeable_keys(scenario).items():
        if key.startswith("workload.") and not may_draw:
            continue
        last = key.rpartition(".")[2]
        if key == ECN_THRESHOLD:
            threshold = scenario.queue.ecn_threshold_bytes
            assert threshold is not None
            low, high = 2 * scenario.transport.mtu_bytes, scenario.queue.buffer_bytes
            yield _number(key, "ECN threshold K", acts, threshold, (low, high), unit="bytes", whole=True)
        elif key == LINK_DELAY:
            delay_s = scenario.topology.link_delay_s
            yield _number(key, "Delay of a link", acts, delay_s, (delay_s / 20, delay_s * 20), unit="s")
        else:
            value = _value(scenario, key)
            label, unit = _LABELS[last]
            part = key.split(".")[-2]
            label = label if part == "workload" else f"{label} ({part})"
            ends = _ends(last, value, network)
            whole, linear = isinstance(value, int), last in ("load", "senders", "flows_per_pair")
            yield _number(key, label, acts, value, ends, unit=unit, whole=whole, logarithmic=not linear)


def _number(
    key: str,
    label: str,
    acts: str,
    value: float,
    ends: tuple[float, float],
    *,
    unit: str = "",
    whole: bool = False,
    logarithmic: bool = True,
) -> Control:
    low, high = min(ends[0], value), max(ends[1], value)
    return Control(key, label, acts, value, low, high, unit=unit, whole=whole, logarithmic=logarithmic)


def _ends(last: str, value: float, network: PacketNetwork) -> tuple[float, float]:
    """Return the least and the largest value of a workload's setting."""
    if last == "senders":
        return 1, network.n_hosts - 1
    if last == "flows_per_pair":
        return 1, MOST_LONG_LIVED
    if last == "load":
        return 0.05, 0.95
    if last == "rate_bps":
        return value / 4, float(network.line_rate_bps.max())
    # Rounds that take longer than their period are refused, so larger answers have little room.
    if last == "request_bytes":
        return max(value / 8, 1), value * 1.2
    return value * 0.85, value * 4


def _value(scenario: Any, key: str) -> float:
    """Return the value of a dotted key."""
    place = scenario
    for name in key.split("."):
        place = place[name] if isinstance(place, dict) else getattr(place, name)
    return place  # type: ignore[no-any-return]


def _of_law(network: PacketNetwork) -> Iterator[Control]:
    """Yield the control of the congestion control law, with the laws to which running flows can change."""
    present = network.law
    if network.flow_transports:
        return
    possible = []
    for name in list_transports():
        law = get_transport(name)
        try:
            check_law(network.running, law)
        except SysgymError:
            continue
        if network.scenario.queue.ecn_threshold_bytes is not None or not law.ecn_capable:
            possible.append(name)
    if present.name not in possible and not _may_come_back(network):
        return
    choices = possible if present.name in possible else [present.name, *possible]
    if len(choices) > 1:
        acts = "at once; windows stay"
        yield Control(LAW, "Law", acts, present.name, choices=choices, own=True)


def _may_come_back(network: PacketNetwork) -> bool:
    """Return whether flows can change back to the present law, which is not registered."""
    try:
        check_law(network.running, network.law)
    except SysgymError:
        return False
    return True
