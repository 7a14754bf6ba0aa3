"""A congestion control law to begin with: it keeps a fixed number of its own packets in queues.

    sysgym bench contest --plugin examples/contest_baseline.py --contender baseline

A window W over an empty path of delay D, whose ACKs take R, has W (1 - D / R) packets in queues. Once in a
round trip the law sets the window with which these would be QUEUED, as FAST TCP does (Wei et al., IEEE/ACM
Transactions on Networking 14(6), 2006). It uses delays and losses only. Its queues are short, and it starves
beside laws that fill them. docs/contest.md says how to enter one of your own.
"""

from sysgym.emulator.packets.transports import Transport, register_transport

QUEUED = 2.0  # packets of a flow that wait in queues, at any rate
FASTEST = 1.5  # largest growth of the window in a round trip
SLOWEST = 0.5  # and its largest reduction

# Slots of flow.state.
ROUND_ENDS = 0  # packet whose ACK ends the round trip
LEAST_RTT_NS = 1  # in this round trip


def on_start(flow, event):
    """Begin the first round trip."""
    flow.state[LEAST_RTT_NS] = 1e18


def on_ack(flow, event):
    """Set the window at the end of a round trip, from the least delay in it."""
    flow.state[LEAST_RTT_NS] = min(flow.state[LEAST_RTT_NS], event.rtt_ns)
    if flow.una < flow.state[ROUND_ENDS] or flow.in_recovery:
        return
    wanted = flow.cwnd * flow.base_rtt_ns / flow.state[LEAST_RTT_NS] + QUEUED
    if event.window_limited or wanted < flow.cwnd:
        flow.cwnd = max(min(wanted, FASTEST * flow.cwnd), SLOWEST * flow.cwnd, 1.0)
    flow.state[ROUND_ENDS] = flow.nxt
    flow.state[LEAST_RTT_NS] = 1e18


def on_loss(flow, event):
    """Halve the window."""
    flow.cwnd = max(SLOWEST * flow.cwnd, 1.0)
    flow.ssthresh = flow.cwnd


def on_timeout(flow, event):
    """Begin again with one packet."""
    flow.cwnd = 1.0
    flow.ssthresh = 1.0


register_transport(
    Transport(
        "baseline",
        "keeps two of its packets in queues",
        on_ack,
        on_loss,
        on_timeout,
        on_start,
        reference="after Wei et al. 2006",
    )
)
