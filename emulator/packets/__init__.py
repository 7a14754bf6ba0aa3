"""Packet-level network simulator: `network.PacketNetwork` runs a scenario; `transports` are the laws it can run."""
