"""Settings of a scenario in the record of the compiled loop, in its units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.engine.connections.reuse import DECAY, KEEP, RESTART
from sysgym.emulator.packets.engine.discipline import Q31
from sysgym.emulator.packets.engine.forwarding import looks_up_paths
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.schema.congestion.queue import Queue
from sysgym.scenarios.schema.congestion.transport import Transport

Records = NDArray[np.void]

TIMER_TICKS_PER_MIN_RTO = 8
PROBE_TICKS = 2
"""Ticks added to two round trips before a tail loss probe."""

LINUX_SLACK_NS = 2_000_000
"""What Linux adds instead since 6.7 (TCP_TIMEOUT_MIN_US), also to a reordering window."""

HEADER_BYTES_WITHOUT_OPTIONS = 40
"""Headers of IPv4 and TCP; timestamps (RFC 7323) take 12 bytes more."""

COALESCED_BYTES = 65_536
"""Most that a receiver takes for one packet: the largest packet of IPv4 (Linux's GRO)."""

IDLE_WINDOWS = {"keep": KEEP, "decay": DECAY, "restart": RESTART}


def set_hosts(world: Records, ends: Transport) -> None:
    """Set sizes of packets, windows, timers and ACKs of all hosts."""
    tick_s = ends.timer_tick_s or ends.min_rto_s / TIMER_TICKS_PER_MIN_RTO
    world["timer_tick_ns"] = max(round(tick_s * 1e9), 1)
    world["probe_slack_ns"] = PROBE_TICKS * world["timer_tick_ns"]
    if ends.loss_detection == "linux":
        world["as_linux"] = 1
        world["without_timestamps"] = ends.header_bytes <= HEADER_BYTES_WITHOUT_OPTIONS
        world["probe_slack_ns"] = world["reordering_slack_ns"] = LINUX_SLACK_NS
    world["payload_bytes"] = ends.mtu_bytes - ends.header_bytes
    world["header_bytes"] = ends.header_bytes
    world["ack_bytes"] = ends.ack_bytes
    world["min_rto_ns"] = round(ends.min_rto_s * 1e9)
    world["max_rto_ns"] = round(ends.max_rto_s * 1e9)
    world["max_window_packets"] = ends.max_window_packets
    world["initial_window_packets"] = ends.initial_window_packets
    world["receive_window_packets"] = ends.receive_window_packets
    world["handshake"] = ends.handshake
    world["measures_path"] = ends.path_delay == "least_seen"
    world["idle_window"] = IDLE_WINDOWS[ends.idle_rule]
    world["delayed_ack_packets"] = ends.delayed_ack_packets
    world["quick_acks"] = ends.quick_acks
    world["coalescing_ns"] = round((ends.receive_coalescing_s or 0.0) * 1e9)
    world["coalesced_packets"] = max(COALESCED_BYTES // ends.mtu_bytes, 1)
    world["burst_bytes"] = ends.segmentation_offload_bytes or 0
    world["delayed_ack_ns"] = round(ends.delayed_ack_timeout_s * 1e9)


def set_paths(world: Records, scenario: CongestionScenario) -> None:
    """Set how packets choose among paths, and what befalls links."""
    routing, faults = scenario.routing, scenario.faults
    world["duplicate_threshold"] = scenario.duplicate_threshold
    world["sprays"] = routing.ecmp == "packet"
    world["by_flowlet"] = routing.ecmp == "flowlet"
    world["flowlet_gap_ns"] = round((routing.flowlet_gap_s or 0.0) * 1e9)
    world["paths_keep_order"] = routing.ecmp == "flow" and not faults.links
    world["links_fail"] = len(faults.links) > 0
    world["rates_change"] = len(faults.rate_changes) > 0
    world["loses_at_random"] = len(faults.links) > 0 or faults.loss_probability > 0.0
    world["by_table"] = looks_up_paths(scenario)
    world["loss_q31"] = round(faults.loss_probability * Q31)


def set_queues(world: Records, queue: Queue) -> None:
    """Set marks, memory, classes and flow control of all switches."""
    world["red"] = queue.discipline == "red"
    world["red_weight"] = queue.red_weight
    world["red_max_probability"] = queue.red_max_probability
    world["red_gentle"] = queue.red_gentle
    world["red_marks"] = queue.red_action == "mark"
    world["shared_buffer_bytes"] = queue.shared_buffer_bytes or 0
    world["shared_buffer_alpha"] = queue.alpha
    world["n_classes"] = queue.classes if queue.is_list else 0
    world["weighted"] = queue.scheduler == "wrr"
    world["trims"] = queue.trim
    world["lossless_classes"] = sum(1 << number for number in set(queue.lossless_classes))
    world["pause_bytes"] = queue.pfc_pause_bytes or 0
    world["resume_bytes"] = queue.resume_bytes
    world["ingress_bytes"] = queue.buffer_bytes
