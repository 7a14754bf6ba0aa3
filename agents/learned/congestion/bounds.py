"""Bounds of measurement errors in networks, for each kind of feature."""

from __future__ import annotations

from sysgym.agents.learned.trust.bound import KNOWN, Bound

RTT = 0.02
"""Relative error of a round-trip time."""
LOSS = 0.001
"""Absolute error of a loss fraction: 0.1 percentage points."""
BUFFER = 0.01
"""Absolute error of a queue, as a share of the buffer."""

_SQUASHED_RTT = Bound("RTT ±2 %", rest=RTT)
_RATIO_RTT = Bound("RTT ±2 %", relative=RTT)
_QUEUE = Bound("queue ±1 % of the buffer", absolute=BUFFER)
_LOSS = Bound("loss ±0.1 point", absolute=LOSS)
_MARKS = Bound("marks ±1 point", absolute=0.01)
_RATE = Bound("±1 % of the rate", absolute=0.01)

OF_CONTROLLERS = {
    "queue": _QUEUE,
    "queue_mean": _QUEUE,
    "queue_max": _QUEUE,
    "queue_delay": _SQUASHED_RTT,
    "mark_fraction": _MARKS,
    "drop_fraction": _LOSS,
    "utilization": _RATE,
    "rate": KNOWN,
    "goodput": _RATE,
    "rtt": _SQUASHED_RTT,
    "active": KNOWN,
    "path_queue_delay": _SQUASHED_RTT,
    "path_mark_fraction": _MARKS,
    "path_utilization": _RATE,
    "fair_rate": KNOWN,
    "ideal": KNOWN,
}
OF_FLOWS = {
    # Preset aurora.
    "latency_gradient": Bound("RTT ±2 % an interval", absolute=RTT),
    "latency_ratio": _RATIO_RTT,
    "send_ratio": Bound("rate ±1 %", relative=0.01),
    # Preset datacenter.
    "mark_fraction": _MARKS,
    "queueing": _SQUASHED_RTT,
    "rtt_trend": Bound("RTT ±2 %", absolute=RTT),
    "rate": KNOWN,
    "throughput": _RATE,
    "in_flight": KNOWN,
    "loss_fraction": _LOSS,
    # Preset orca, whose feature loss is five times a loss fraction.
    "pacing": KNOWN,
    "loss": Bound("loss ±0.1 point", absolute=5.0 * LOSS),
    "samples": Bound("±1 %", relative=0.01),
    "interval": _RATIO_RTT,
    "latency": _RATIO_RTT,
    "delay_metric": _RATIO_RTT,
}
