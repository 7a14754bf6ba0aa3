"""Changes of a running network: thresholds, delays, future flows, and the congestion control law.

:meth:`sysgym.emulator.packets.network.PacketNetwork.change` is the interface. A change takes effect at the
present simulated time and depends only on the world and the new values, so a run with the same changes at the
same times gives the same results.
"""
