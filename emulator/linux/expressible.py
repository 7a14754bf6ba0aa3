"""Check of whether the kernel can run a scenario; errors name the fields that it cannot express."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from sysgym.emulator.linux.kernel import probe
from sysgym.emulator.linux.kernel.delay_lines import OWN_DELAY_S, is_delayed
from sysgym.emulator.linux.kernel.fabric import MOST_HOSTS_A_SWITCH
from sysgym.emulator.packets.topology import Topology
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import Problem, ScenarioError

_LEAST_MAX_RTO_S = 1.0
_ADVICE = 'use backend="packets" for this scenario, or override the field'


def check_expressible(scenario: CongestionScenario, topology: Topology, most_links: int) -> None:
    """Check that the kernel can do what a scenario asks for.

    Args:
        scenario: The scenario.
        topology: Its network.
        most_links: Largest number of ports of this world.

    Raises:
        ScenarioError: If it cannot; names every such field and the accepted values.
    """
    problems = (
        *_topology_problems(scenario, topology, most_links),
        *_queue_problems(scenario),
        *_host_problems(scenario),
    )
    if problems:
        raise ScenarioError(f"{scenario.name} on the Linux backend", problems=problems)


def differences(scenario: CongestionScenario) -> list[str]:
    """Return the differences between the scenario and its emulation on the kernel, a sentence each."""
    ends = scenario.transport
    found = []
    if ends.max_rto_s < _LEAST_MAX_RTO_S:
        found.append(f"transport.max_rto_s = {ends.max_rto_s:g}: the kernel's is never below 1 s")
    if ends.delayed_ack_packets == 2 and ends.delayed_ack_timeout_s < 0.04:
        found.append(
            f"transport.delayed_ack_timeout_s = {ends.delayed_ack_timeout_s:g}: the kernel waits 0.04 s"
        )
    return found


@functools.cache
def kernel_has_netem() -> bool:
    """Return whether the kernel can delay packets (netem); True where this cannot be found out."""
    return probe.ask().get("queue netem", True)


def _topology_problems(
    scenario: CongestionScenario, topology: Topology, most_links: int
) -> Iterator[Problem]:
    spec = scenario.topology
    if is_delayed(topology) and not kernel_has_netem():
        delays_s = {"topology.link_delay_s": spec.link_delay_s} | {
            f"topology.overrides[{index}].delay_s": override.delay_s
            for index, override in enumerate(spec.overrides)
        }
        for key, delay_s in delays_s.items():
            if delay_s is not None and delay_s > OWN_DELAY_S:
                yield Problem(
                    key,
                    delay_s,
                    f"at most {OWN_DELAY_S:g}: longer ones need netem, which this kernel has not"
                    " (CONFIG_NET_SCH_NETEM, the module sch_netem)",
                    _ADVICE,
                )
    if topology.n_links > most_links:
        yield Problem(
            "topology", spec.kind, f"at most {most_links} links; it has {topology.n_links}", "make it smaller"
        )
    crowd = int(np.bincount(topology.host_edge).max(initial=0))
    if crowd > MOST_HOSTS_A_SWITCH:
        yield Problem("topology", spec.kind, f"at most {MOST_HOSTS_A_SWITCH} hosts a switch; one has {crowd}")


def _queue_problems(scenario: CongestionScenario) -> Iterator[Problem]:
    queue, faults, routing = scenario.queue, scenario.faults, scenario.routing
    if queue.pfc_pause_bytes is not None:
        yield Problem(
            "queue.pfc_pause_bytes", queue.pfc_pause_bytes, "none: Linux routers do not pause links", _ADVICE
        )
    if queue.shared_buffer_bytes is not None:
        yield Problem(
            "queue.shared_buffer_bytes",
            queue.shared_buffer_bytes,
            "none: every queue of a Linux router has its own limit",
            _ADVICE,
        )
    if queue.classes > 1:
        yield Problem(
            "queue.classes", queue.classes, "1: queues of the Linux backend do not know classes", _ADVICE
        )
    if faults.links:
        yield Problem("faults.links", [fault.link for fault in faults.links], "no failing links", _ADVICE)
    if faults.rate_changes:
        names = [change.link for change in faults.rate_changes]
        yield Problem("faults.rate_changes", names, "no links whose rate changes", _ADVICE)
    if routing.ecmp != "flow":
        yield Problem("routing.ecmp", routing.ecmp, '"flow": the kernel hashes the 5-tuple', _ADVICE)
    if routing.reordering_packets not in (None, 3):
        yield Problem(
            "routing.reordering_packets",
            routing.reordering_packets,
            "3: the kernel adapts it by itself",
            _ADVICE,
        )


def _host_problems(scenario: CongestionScenario) -> Iterator[Problem]:
    ends = scenario.transport
    if ends.delayed_ack_packets > 2:
        yield Problem(
            "transport.delayed_ack_packets",
            ends.delayed_ack_packets,
            "1 (every packet is acknowledged at once) or 2 (the kernel's own way)",
        )
    if ends.header_bytes not in (40, 52):
        yield Problem(
            "transport.header_bytes", ends.header_bytes, "40 (IPv4 and TCP) or 52 (with TCP's time stamps)"
        )
    for key, jitter_s in (
        ("transport.host_jitter_s", ends.host_jitter_s),
        ("topology.link_jitter_s", scenario.topology.link_jitter_s),
        ("topology.link_batch_s", scenario.topology.link_batch_s),
    ):
        if jitter_s is not None and jitter_s > OWN_DELAY_S:
            yield Problem(
                key,
                jitter_s,
                f"at most {OWN_DELAY_S:g}: real hosts and links have their own delays, and no more is added",
            )
    if ends.loss_detection in ("go_back_n", "selective_repeat"):
        yield Problem(
            "transport.loss_detection",
            ends.loss_detection,
            '"rack", which the kernel does, or "dupack"',
            _ADVICE,
        )
    if ends.receive_window_bytes is not None:
        yield Problem(
            "transport.receive_window_bytes",
            ends.receive_window_bytes,
            "none: the kernel sizes its receive windows by itself",
            _ADVICE,
        )
    if ends.receive_coalescing_s is not None and ends.segmentation_offload_bytes is None:
        yield Problem(
            "transport.receive_coalescing_s",
            ends.receive_coalescing_s,
            "none without segmentation_offload_bytes: virtual links hand up what was handed down",
            _ADVICE,
        )
    if ends.segmentation_offload_bytes is not None and scenario.faults.loss_probability > 0.0:
        yield Problem(
            "transport.segmentation_offload_bytes",
            ends.segmentation_offload_bytes,
            "none with faults.loss_probability: a burst would be lost as a whole",
            _ADVICE,
        )
    if ends.idle_rule == "restart":
        yield Problem(
            "transport.idle_window",
            ends.idle_window,
            '"decay" (tcp_slow_start_after_idle) or "keep": the kernel has no other rule',
            _ADVICE,
        )
    if ends.handshake:
        yield Problem(
            "transport.handshake",
            ends.handshake,
            "false: connections are opened before the episode",
            _ADVICE,
        )
    if ends.slow_start == "hystart++":
        yield Problem(
            "transport.slow_start",
            ends.slow_start,
            '"hystart", which the kernel\'s CUBIC does, or "standard"',
            _ADVICE,
        )
