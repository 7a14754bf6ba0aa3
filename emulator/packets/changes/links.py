"""New marking thresholds and propagation delays of a running network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.build import Assembly
from sysgym.emulator.packets.changes.running import Running
from sysgym.emulator.packets.memory.records import NEVER_NS, NOBODY

Records = NDArray[np.void]


def set_thresholds(running: Running, assembly: Assembly) -> None:
    """Set the new marking thresholds, which apply from the next packet on.

    Args:
        running: Network with the links to change, in place.
        assembly: The network with the new scenario, at time 0.
    """
    links, initial = running.state.links, assembly.state.links
    # Limits are drain times, so they depend on changes of the link's rate since the start.
    ratio = links["ns_per_byte_q20"] / np.maximum(initial["ns_per_byte_q20"], 1)
    marks = initial["mark_above_ns"] < NEVER_NS
    links["mark_above_ns"] = initial["mark_above_ns"]
    links["mark_above_ns"][marks] = np.rint(initial["mark_above_ns"][marks] * ratio[marks])


def set_delays(running: Running, assembly: Assembly) -> None:
    """Set the new propagation delays, which apply to packets sent from now on.

    Packets on the cable arrive as before, and packets do not overtake each other: if the delay has become
    shorter, packets arrive together until the new delay is reached. The base round-trip time, which some laws
    read, changes too, unless flows have measured it.

    Args:
        running: Network with the links and flows to change, in place.
        assembly: The network with the new scenario and the same flows, at time 0.
    """
    links = running.state.links
    shorter = assembly.state.links["delay_ns"] < links["delay_ns"]
    links["delay_ns"] = assembly.state.links["delay_ns"]
    # The loop enforces the order of packets only on links with jitter. A jitter below 1 ns adds no delay.
    without_order = shorter & (links["jitter_ns"] == 0)
    links["jitter_ns"][without_order] = 1
    busy = without_order & (links["head"] != NOBODY)
    last_ns = running.state.packets["arrival_ns"][links["tail"][busy]]
    links["last_arrival_ns"][busy] = np.maximum(last_ns, links["last_arrival_ns"][busy])
    tell_path(running.state.flows, assembly.state.flows["base_rtt_ns"], running.state.world)


def tell_path(flows: Records, base_rtt_ns: NDArray[np.int64], world: Records) -> None:
    """Set the base round-trip time of all flows except those that have measured it."""
    measured = (flows["rtt_samples"] > 0) & bool(world["measures_path"][0])
    flows["base_rtt_ns"] = np.where(measured, flows["base_rtt_ns"], base_rtt_ns)
