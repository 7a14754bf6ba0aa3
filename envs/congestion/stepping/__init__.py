"""Decisions of the congestion environments: act, let an interval pass, read what happened.

``FlowStepper`` moves the flows, or hosts, that agents steer one by one; ``NetworkStepper`` moves whole
networks. Both hold many worlds at once, a row each, for single, vector and parallel environments alike, and
take a decision of all of them in one compiled call. ``linux_stepper`` does the same with one network of the
kernel, in wall time.
"""
