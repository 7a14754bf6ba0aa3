"""Changes of a running network: thresholds, delays, the flows to come, and the congestion control law.

:meth:`sysgym.emulator.packets.network.PacketNetwork.change` is the interface. A change takes effect at the
present simulated time and depends on nothing but the world and the new values, so a run with the same changes
at the same times is the same run.
"""
