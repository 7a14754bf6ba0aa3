"""Topologies, routing and max-min fair rates."""

from sysgym.emulator.packets.topology.graph import Cable, Topology
from sysgym.emulator.packets.topology.kinds import build_topology

__all__ = ["Cable", "Topology", "build_topology"]
