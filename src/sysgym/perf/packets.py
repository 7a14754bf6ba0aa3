"""Profile of the packet simulator: cost of hops and packet ends, and how it grows with size."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sysgym.emulator.packets.network import PacketNetwork
    from sysgym.emulator.packets.transports import Transport

MEASURED_S = 0.5
"""Processor time of one repetition, which other programs hardly affect."""

SETTLE_PACKETS = 4_000
"""Warm-up before a measurement, in packets at line rate."""

PATHS: dict[str, dict[str, Any]] = {
    "single_switch": {"kind": "single_switch", "hosts": 2},
    "dumbbell": {"kind": "dumbbell", "hosts_per_side": 1},
    "fat_tree": {"kind": "fat_tree", "k": 4},
}
"""Networks in which packets and ACKs of one flow cross 2, 3 and 6 links."""

CURVE: dict[str, dict[str, Any]] = {
    **{f"{2 * n} hosts": {"topology.hosts_per_side": n} for n in (2, 8, 32, 128)},
    **{f"{16 * n} flows": {"topology.hosts_per_side": 16, "workload.flows_per_pair": n} for n in (1, 8, 64)},
    **{
        f"{rate:g} Gb/s": {
            "topology.hosts_per_side": 16,
            "topology.link_rate_bps": rate * 1e9,
            "queue.ecn_threshold_bytes": int(max(rate / 10, 0.3) * 97_500),
            "queue.buffer_bytes": int(max(rate / 10, 1.0) * 1_000_000),
        }
        for rate in (0.1, 1.0, 10.0, 100.0)
    },
}
"""Dumbbells that differ in one property: hosts, flows between 32 hosts, link rate."""

_LARGEST = """
import resource
from sysgym.perf.packets import network_of
network = network_of({"topology": {"kind": "fat_tree", "k": 16, "link_rate_bps": 10e9, "link_delay_s": 1e-5}})
network.advance(5e-3)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def network_of(overrides: dict[str, Any], transport: str | Transport = "dctcp") -> PacketNetwork:
    """Return the dumbbell at 10 Gb/s with some keys replaced."""
    from sysgym.emulator.packets.network import PacketNetwork
    from sysgym.scenarios import CongestionScenario, load_scenario

    scenario = load_scenario("dumbbell-10g", overrides=overrides, expect=CongestionScenario)
    return PacketNetwork(scenario, transport=transport)


def hop_cost_s(overrides: dict[str, Any], transport: str | Transport = "dctcp") -> float:
    """Return the processor time of a packet-hop including all overheads, s."""
    network = network_of(overrides, transport)
    packet_s = 12_000 / network.line_rate_bps[0]
    network.advance(4e-3 + SETTLE_PACKETS * packet_s)
    hops, began_s = network.packet_hops, time.process_time()
    while (elapsed_s := time.process_time() - began_s) < MEASURED_S:
        network.advance(8_000 * packet_s)
    return elapsed_s / (network.packet_hops - hops)


def costs_of_hop_and_ends_s() -> tuple[float, float]:
    """Return the processor time of a hop, and of a packet's ends (send, receive, acknowledge), in seconds.

    A packet and its ACK cost ``hops * hop + ends``. The two costs are fitted by least squares to measurements
    of one flow on paths of three lengths.
    """
    import numpy as np

    hops = np.array([4.0, 6.0, 12.0])
    costs_s = [
        n * hop_cost_s(_one_flow(topology), _constant_window())
        for n, topology in zip(hops, PATHS.values(), strict=True)
    ]
    hop_s, ends_s = np.polyfit(hops, costs_s, 1)
    return float(hop_s), float(ends_s)


def cost_of_transport_s() -> float:
    """Return the processor time of DCTCP's callbacks per packet: its cost minus that of a constant window."""
    overrides = {"topology.hosts_per_side": 1, "topology.core_rate_bps": 5e9}
    dctcp_s, constant_s = (hop_cost_s(overrides, law) for law in ("dctcp", _constant_window()))
    return 6.0 * (dctcp_s - constant_s)


def memory_bytes() -> float:
    """Return the peak memory of a precompiled simulation of a fat-tree with 1,024 hosts, one flow each."""
    network_of({}).advance(1e-3)  # compile in this process if necessary
    done = subprocess.run([sys.executable, "-P", "-c", _LARGEST], check=True, capture_output=True, text=True)
    return float(done.stdout) * (1 if sys.platform == "darwin" else 1024)


def measurements() -> list[tuple[str, str, Callable[[], float], str]]:
    """Return figure, workload, function and unit of every measurement."""
    costs: list[tuple[str, str, Callable[[], float], str]] = [
        ("hop_s", "one flow, paths of 2, 3, 6 links", lambda: costs_of_hop_and_ends_s()[0], "s"),
        ("packet_ends_s", "one flow, paths of 2, 3, 6 links", lambda: costs_of_hop_and_ends_s()[1], "s"),
        ("transport_s", "dctcp minus a constant window", cost_of_transport_s, "s"),
        ("memory_bytes", "fat-tree k=16, 1,024 hosts", memory_bytes, "bytes"),
    ]
    costs += [
        ("cost_per_hop_s", name, lambda overrides=overrides: hop_cost_s(overrides), "s")  # type: ignore[misc]
        for name, overrides in CURVE.items()
    ]
    return costs


def _one_flow(topology: dict[str, Any]) -> dict[str, Any]:
    """Return scenario overrides for a single flow from the first host to the last."""
    workload = {"kind": "incast", "senders": 1, "request_bytes": 2**40, "period_s": 7_000.0}
    rates = {"link_rate_bps": 10e9, "link_delay_s": 1e-5}
    return {"topology": {**topology, **rates}, "workload": workload}


def _constant_window() -> Transport:
    from sysgym.emulator.packets.transports import Transport
    from sysgym.emulator.packets.transports.base import do_nothing

    return Transport("constant", "a constant window", do_nothing, do_nothing, do_nothing, _fifty_packets)


def _fifty_packets(flow: Any, event: Any) -> None:
    flow.cwnd = 50.0
