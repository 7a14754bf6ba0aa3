"""Packet-level network simulator: `network.PacketNetwork` runs a scenario under one of the `transports`."""
