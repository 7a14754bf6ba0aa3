"""BBR, version 1: pacing at the bottleneck's rate, with one or two bandwidth-delay products in flight.

Source: Cardwell, Cheng, Gunn, Hassas Yeganeh and Jacobson, ACM Queue 14(5), 2016, and in detail
draft-cardwell-iccrg-bbr-congestion-control-00, whose sections the docstrings cite. The model of the path is
the largest delivery rate of ten round trips and the smallest round trip of ten seconds. Losses only limit the
packets in flight while they are repaired.

``bbr`` allows as many packets in flight as Linux: three send quanta of a millisecond each beyond the product
(4.2.2, 4.2.3.2), rounded up to an even number, plus the packets that ACKs of the last rounds acknowledged
ahead of the bandwidth. If a millisecond is long compared with the round trip, this allowance is most of the
window, and it waits in the queue. ``bbr_ideal`` sends packets one by one, so that its quantum is one packet,
and makes no allowance for ACKs: the algorithm for a network without segmentation offload and aggregated ACKs.

Every flow begins with the base round-trip time as its estimate. The draft uses the round trip of the
handshake (4.3.1), and handshakes of simulated flows and of the kernel's flows meet no queues. A late flow
that measured the queue of other flows would take almost all of the link until the next PROBE_RTT, ten seconds
later. The policer detection of Linux, which is not in the draft, is omitted.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.base import Transport, parameter
from sysgym.emulator.packets.transports.bbr.common import (
    DRAIN,
    EXTRA_ROUNDS,
    FIRST_CWND,
    FIRST_OWN,
    FULL_BANDWIDTH,
    FULL_PIPE_ROUNDS,
    FULL_ROUNDS,
    MIN_CWND,
    MIN_RTT_AT_NS,
    MIN_RTT_NS,
    MIN_RTT_WINDOW_NS,
    MODE,
    PIPE_IS_FULL,
    PROBE_BW,
    PROBE_RTT,
    PROBE_RTT_NS,
    QUANTA,
    REPAIRS,
    ROUND_END,
    STARTUP,
    STARTUP_GROWTH,
    begins_round,
    delivery_rate,
    ends_repairs,
    extra_packets,
    ignore_low_samples,
    in_flight,
    offload_quantum,
    pace_first_window,
    restore_window,
    save_window,
    set_pacing_rate,
    spread,
)
from sysgym.emulator.packets.transports.bbr.common import update_aggregation as update_extra_packets

HIGH_GAIN = 2.0 / math.log(2.0)  # 2.885: doubles the rate each round (4.3.2.1)
PROBE_GAIN = 1.25
DRAIN_GAIN = 0.75
CYCLE_LENGTH = 8  # phases of PROBE_BW: probe, drain, six at the estimated rate (4.3.4.1)
CWND_GAIN = 2.0
BANDWIDTH_ROUNDS = 10  # window of the maximum filter of the bandwidth (4.1.1.2)

# Slots of flow.state, behind those that all versions have. Bandwidths are in packets per ns.
BANDWIDTHS = FIRST_OWN  # one for each of the last ten rounds
ROUND = 25
ROUND_STARTS = 26  # 1: this ACK is the first of its round
MIN_RTT_EXPIRED = 27
CYCLE = 28
CYCLE_AT_NS = 29
PROBE_RTT_UNTIL_NS = 30
PROBE_RTT_ROUND_DONE = 31
CONSERVES_UNTIL = 32  # delivered packets; packet conservation holds until then
PACING_GAIN = 33
WINDOW_GAIN = 34
SAMPLED_ROUND = 35  # round of the last sample that counted

AS_LINUX = 0  # parameter: 1 for the window of Linux, 0 for the ideal one


@njit(forceinline=True)
def bandwidth(flow: Any) -> float:
    """Return BtlBw, the largest bandwidth of the last ten rounds."""
    largest = 0.0
    for slot in range(BANDWIDTHS, BANDWIDTHS + BANDWIDTH_ROUNDS):
        largest = max(largest, flow.state[slot])
    return largest


@njit(forceinline=True)
def quantum(flow: Any, event: Any) -> float:
    """Return the send quantum in packets (4.2.2): one, or the quantum of Linux's segmentation offload."""
    if parameter(event, AS_LINUX) == 0.0:
        return 1.0
    return offload_quantum(flow)


@njit(forceinline=True)
def with_quanta(flow: Any, event: Any, packets: float) -> float:
    """Return a number of packets in flight with room for the send quanta (4.2.3.2, BBRInflight).

    Linux makes the number even, and two higher in the phase that probes for bandwidth.
    """
    if parameter(event, AS_LINUX) == 0.0:
        return packets + QUANTA
    probes = flow.state[MODE] == PROBE_BW and flow.state[CYCLE] == 0.0
    return 2.0 * math.ceil(0.5 * (packets + QUANTA * quantum(flow, event))) + (2.0 if probes else 0.0)


@njit(forceinline=True)
def target_in_flight(flow: Any, event: Any, gain: float) -> float:
    """Return a multiple of the bandwidth-delay product and the quanta, in packets."""
    return with_quanta(flow, event, gain * bandwidth(flow) * flow.state[MIN_RTT_NS])


@njit(forceinline=True)
def update_aggregation(flow: Any, event: Any) -> None:
    """Update the number of packets that aggregated ACKs acknowledge ahead of the bandwidth (Linux)."""
    if parameter(event, AS_LINUX) != 0.0:
        starts = flow.state[ROUND_STARTS] != 0.0
        update_extra_packets(flow, event, bandwidth(flow), starts, EXTRA_ROUNDS)


@njit(forceinline=True)
def aggregation_packets(flow: Any) -> float:
    """Return the allowance for aggregated ACKs, in packets in flight (Linux); 0 for ``bbr_ideal``."""
    return extra_packets(flow, bandwidth(flow)) if flow.state[PIPE_IS_FULL] else 0.0


@njit(forceinline=True)
def update_round(flow: Any, event: Any) -> None:
    """Begin a new round when a packet sent in the present one is acknowledged (4.1.1.3)."""
    state = flow.state
    state[ROUND_STARTS] = 1.0 if begins_round(flow, event) else 0.0
    state[ROUND] += state[ROUND_STARTS]


@njit(forceinline=True)
def update_bandwidth(flow: Any, event: Any) -> None:
    """Update the bandwidth; app-limited samples count only if they are larger (4.1.1.4, 4.1.1.5).

    Old rounds are discarded only when a sample counts, so an idle flow keeps its estimate.
    """
    state = flow.state
    update_round(flow, event)
    sample = delivery_rate(event)
    if event.delivery_interval_ns <= 0:
        return
    if not event.app_limited or sample >= bandwidth(flow):
        this, sampled = int(state[ROUND]), int(state[SAMPLED_ROUND])
        for ended in range(max(sampled, this - BANDWIDTH_ROUNDS), this):
            state[BANDWIDTHS + (ended + 1) % BANDWIDTH_ROUNDS] = 0.0
        state[SAMPLED_ROUND] = state[ROUND]
        slot = BANDWIDTHS + this % BANDWIDTH_ROUNDS
        state[slot] = max(state[slot], sample)


@njit(forceinline=True)
def set_gains(flow: Any, mode: float, pacing: float, window: float) -> None:
    """Enter a mode, with its gains."""
    flow.state[MODE] = mode
    flow.state[PACING_GAIN] = pacing
    flow.state[WINDOW_GAIN] = window


@njit(forceinline=True)
def begin_phase(flow: Any, cycle: int, now_ns: int) -> None:
    """Begin a phase of PROBE_BW, with gain 1.25, 0.75, or 1 in the six others (4.3.4.1)."""
    flow.state[CYCLE] = cycle
    flow.state[CYCLE_AT_NS] = now_ns
    flow.state[PACING_GAIN] = PROBE_GAIN if cycle == 0 else (DRAIN_GAIN if cycle == 1 else 1.0)


@njit(forceinline=True)
def enter_probe_bw(flow: Any, now_ns: int) -> None:
    """Begin the cycle anywhere but in the drain phase, so that flows do not probe together (4.3.4.2)."""
    set_gains(flow, PROBE_BW, 1.0, CWND_GAIN)
    cycle = int(spread(flow, now_ns) * (CYCLE_LENGTH - 1))
    begin_phase(flow, cycle if cycle == 0 else cycle + 1, now_ns)


@njit(forceinline=True)
def check_cycle(flow: Any, event: Any) -> None:
    """Begin the next phase of PROBE_BW if it is due (4.3.4.3)."""
    state = flow.state
    if state[MODE] != PROBE_BW:
        return
    over = event.now_ns - state[CYCLE_AT_NS] > state[MIN_RTT_NS]
    if state[PACING_GAIN] > 1.0:
        over = over and (
            event.lost_packets > 0
            or in_flight(flow, event) >= target_in_flight(flow, event, state[PACING_GAIN])
        )
    elif state[PACING_GAIN] < 1.0:
        over = over or in_flight(flow, event) <= target_in_flight(flow, event, 1.0)
    if over:
        begin_phase(flow, (int(state[CYCLE]) + 1) % CYCLE_LENGTH, event.now_ns)


@njit(forceinline=True)
def check_full_pipe(flow: Any, event: Any) -> None:
    """Declare the pipe full after three rounds in which the bandwidth grew by less than 25 % (4.3.2.2)."""
    state = flow.state
    if state[PIPE_IS_FULL] or not state[ROUND_STARTS] or event.app_limited:
        return
    if bandwidth(flow) >= STARTUP_GROWTH * state[FULL_BANDWIDTH]:
        state[FULL_BANDWIDTH] = bandwidth(flow)
        state[FULL_ROUNDS] = 0.0
        return
    state[FULL_ROUNDS] += 1.0
    if state[FULL_ROUNDS] >= FULL_PIPE_ROUNDS:
        state[PIPE_IS_FULL] = 1.0


@njit(forceinline=True)
def check_drain(flow: Any, event: Any) -> None:
    """Move from STARTUP to DRAIN when the pipe is full, and on when its queue has drained (4.3.3)."""
    state = flow.state
    if state[MODE] == STARTUP and state[PIPE_IS_FULL]:
        set_gains(flow, DRAIN, 1.0 / HIGH_GAIN, HIGH_GAIN)
    if state[MODE] == DRAIN and in_flight(flow, event) <= target_in_flight(flow, event, 1.0):
        enter_probe_bw(flow, event.now_ns)


@njit(forceinline=True)
def update_min_rtt(flow: Any, event: Any) -> None:
    """Update RTprop, which expires after ten seconds (4.1.2.3)."""
    state = flow.state
    expired = event.now_ns > state[MIN_RTT_AT_NS] + MIN_RTT_WINDOW_NS
    state[MIN_RTT_EXPIRED] = 1.0 if expired else 0.0
    if event.rtt_sampled and (event.rtt_ns <= state[MIN_RTT_NS] or expired):
        state[MIN_RTT_NS] = event.rtt_ns
        state[MIN_RTT_AT_NS] = event.now_ns


@njit(forceinline=True)
def check_probe_rtt(flow: Any, event: Any) -> None:
    """Run PROBE_RTT, four packets in flight for 200 ms and a round, when RTprop has expired (4.3.5)."""
    state = flow.state
    if state[MODE] != PROBE_RTT:
        if not state[MIN_RTT_EXPIRED]:
            return
        set_gains(flow, PROBE_RTT, 1.0, 1.0)
        save_window(flow)
        state[PROBE_RTT_UNTIL_NS] = 0.0
    ignore_low_samples(flow, event)
    if state[PROBE_RTT_UNTIL_NS] == 0.0:
        if in_flight(flow, event) <= MIN_CWND:
            state[PROBE_RTT_UNTIL_NS] = event.now_ns + PROBE_RTT_NS
            state[PROBE_RTT_ROUND_DONE] = 0.0
            state[ROUND_END] = event.delivered_packets
        return
    if state[ROUND_STARTS]:
        state[PROBE_RTT_ROUND_DONE] = 1.0
    if state[PROBE_RTT_ROUND_DONE] and event.now_ns > state[PROBE_RTT_UNTIL_NS]:
        state[MIN_RTT_AT_NS] = event.now_ns
        restore_window(flow)
        if state[PIPE_IS_FULL]:
            enter_probe_bw(flow, event.now_ns)
        else:
            set_gains(flow, STARTUP, HIGH_GAIN, HIGH_GAIN)


@njit(forceinline=True)
def set_window(flow: Any, event: Any) -> None:
    """Move the window towards its target, with packet conservation while losses are repaired (4.2.3.6)."""
    state = flow.state
    product = state[WINDOW_GAIN] * bandwidth(flow) * state[MIN_RTT_NS]
    target = with_quanta(flow, event, product + aggregation_packets(flow))
    if state[CONSERVES_UNTIL] > event.delivered_packets:
        flow.cwnd = max(flow.cwnd, in_flight(flow, event))
    elif state[PIPE_IS_FULL]:
        flow.cwnd = min(flow.cwnd + event.acked_packets, target)
    elif flow.cwnd < target or event.delivered_packets < state[FIRST_CWND]:
        flow.cwnd += event.acked_packets
    flow.cwnd = max(flow.cwnd, MIN_CWND)
    if state[MODE] == PROBE_RTT:
        flow.cwnd = min(flow.cwnd, MIN_CWND)


def on_start(flow: Any, event: Any) -> None:
    """Enter STARTUP with the first window paced over the round trip of the handshake (4.2.1, 4.3.1)."""
    state = flow.state
    state[FIRST_CWND] = flow.cwnd
    state[MIN_RTT_NS] = flow.base_rtt_ns
    state[MIN_RTT_AT_NS] = event.now_ns
    set_gains(flow, STARTUP, HIGH_GAIN, HIGH_GAIN)
    pace_first_window(flow, HIGH_GAIN)


def on_ack(flow: Any, event: Any) -> None:
    """Update the model, then the mode, then rate and window (3.5.2)."""
    update_bandwidth(flow, event)
    update_aggregation(flow, event)
    check_cycle(flow, event)
    check_full_pipe(flow, event)
    check_drain(flow, event)
    update_min_rtt(flow, event)
    check_probe_rtt(flow, event)
    if ends_repairs(flow):
        flow.state[CONSERVES_UNTIL] = 0.0
    set_pacing_rate(flow, flow.state[PACING_GAIN], bandwidth(flow))
    set_window(flow, event)


def on_loss(flow: Any, event: Any) -> None:
    """Begin a round of packet conservation (4.2.3.4)."""
    save_window(flow)
    flow.state[REPAIRS] = 1.0
    flow.state[CONSERVES_UNTIL] = event.delivered_packets + max(in_flight(flow, event), 1.0)
    flow.cwnd = max(in_flight(flow, event), MIN_CWND)


def on_timeout(flow: Any, event: Any) -> None:
    """Start again from one packet, but keep the model of the path (4.2.3.4)."""
    save_window(flow)
    flow.state[REPAIRS] = 1.0
    flow.state[CONSERVES_UNTIL] = 0.0
    flow.cwnd = 1.0


BBR = Transport(
    name="bbr",
    summary="BBR v1, as in Linux: paces at the largest delivery rate, with room for offload",
    reference="Cardwell et al., ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00; Linux",
    on_start=on_start,
    on_ack=on_ack,
    on_loss=on_loss,
    on_timeout=on_timeout,
    sets_window_in_recovery=True,
    parameters=(1.0,),
)

BBR_IDEAL = replace(
    BBR,
    name="bbr_ideal",
    summary="BBR v1 without offload: two bandwidth-delay products and three packets at most in flight",
    reference="Cardwell et al., ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00",
    parameters=(0.0,),
)
