"""Topologies, the routes through them, and the rates that are fair on them."""

from sysgym.emulator.packets.topology.graph import Cable, Topology, build_topology

__all__ = ["Cable", "Topology", "build_topology"]
