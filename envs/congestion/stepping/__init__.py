"""Decision stepping of the congestion environments: apply actions, simulate an interval, read counters.

``FlowStepper`` steps flows or hosts that agents control individually; ``NetworkStepper`` steps whole
networks. Both hold a row per agent or network, serve single, vector and parallel environments, and step all
rows in one compiled call. ``linux_stepper`` does the same for one network on the Linux kernel, in wall time.
"""
