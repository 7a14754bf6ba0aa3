"""A congestion control law to begin with: Reno that halves its window at a mark, at most once a window."""

import math

from sysgym.emulator.packets.transports import multiplicative_decrease, reno_increase, restart_from_one

# EVOLVE-BLOCK-START
FACTOR = 0.5


def on_ack(flow, event):
    """Change flow.cwnd at an ACK."""
    if event.marked and flow.una >= flow.state[0]:
        flow.state[0] = flow.nxt
        flow.cwnd = max(math.floor(FACTOR * flow.cwnd), 1.0)
        flow.ssthresh = flow.cwnd
    else:
        reno_increase(flow, event)


def on_loss(flow, event):
    """Change flow.cwnd and flow.ssthresh when packets were lost."""
    multiplicative_decrease(flow, event, FACTOR)


def on_timeout(flow, event):
    """Begin again after a time-out."""
    restart_from_one(flow, event, FACTOR)


# EVOLVE-BLOCK-END
