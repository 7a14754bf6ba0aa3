"""Metrics of one flow among others, in absolute units: of an interval and of a whole episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.counters.single_flows import (
    ACKED_PACKETS,
    DELIVERED_PACKETS,
    LOST_PACKETS,
    MARKED_PACKETS,
    RTT_SAMPLES,
    RTT_SUM_S,
    TIMEOUTS,
)
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.envs.congestion import flow_intervals as at
from sysgym.envs.congestion.metrics import EPISODE_METRICS as NETWORK_EPISODE_METRICS
from sysgym.envs.congestion.metrics import flow_metrics

FloatArray = NDArray[np.float64]

INTERVAL_METRICS: dict[str, str] = {
    "interval_s": "length of the interval, s",
    "goodput_bps": "payload of the flow delivered in order, bit/s",
    "sent_bps": "sent by the flow, headers and retransmissions included, bit/s",
    "rate_bps": "send rate in force, of a window the window a smoothed round trip, bit/s",
    "rtt_mean_s": "mean round trip, s (0: no ACK came back)",
    "loss_fraction": "packets that the sender took for lost, of lost or acknowledged",
    "mark_fraction": "ACKs that echoed a mark, of all",
    "in_flight_bytes": "under way at the end, bytes",
}
"""Meaning of every interval metric."""

_PLACES = (
    at.DURATION_S,
    at.GOODPUT_BPS,
    at.SENT_BPS,
    at.RATE_BPS,
    at.RTT_S,
    at.LOSS_FRACTION,
    at.MARK_FRACTION,
    at.IN_FLIGHT_BITS,
)

EPISODE_METRICS: dict[str, str] = {
    "goodput_bps": "payload of the agent's flow delivered in order, bit/s",
    "utilization": "share of its nominal rate that the slowest link on the flow's path sent, all traffic",
    "queue_mean_bytes": "mean queue of that link's port, bytes",
    "rtt_mean_s": "mean round trip of the flow, s",
    "queue_delay_mean_s": "the same less the round trip of the empty path, s",
    "loss_fraction": "packets of the flow that its sender took for lost, of lost or acknowledged",
    "mark_fraction": "ACKs of the flow that echoed a mark, of all",
    "timeouts": "retransmission time-outs of the flow",
    "fair_share": "goodput over the flow's max-min fair share (absent where flows end or links change)",
} | {
    name: NETWORK_EPISODE_METRICS[name]
    for name in NETWORK_EPISODE_METRICS
    if name.startswith(("fct_", "offered_", "completed_", "round_", "jain"))
}
"""Meaning of every episode metric; those of completion times and fairness are over all flows, from time 0."""


Value = TypeVar("Value", float, FloatArray)


def interval_metrics(values: Sequence[Value]) -> dict[str, Value]:
    """Return the metrics of a row of values, or of many if each value is an array; see INTERVAL_METRICS."""
    metrics = dict(zip(INTERVAL_METRICS, [values[place] for place in _PLACES], strict=True))
    metrics["in_flight_bytes"] = 0.125 * metrics["in_flight_bytes"]
    return metrics


class EpisodeMeter:
    """Measures a flow's episode from one moment on.

    Args:
        network: The world, at the beginning.
        counters: The flow's, at the beginning, shape (N_COUNTERS,).
        values: Its row of values, of which the constants are read.
        slowest_link: Of the flow's path.
    """

    def __init__(
        self, network: PacketNetwork, counters: FloatArray, values: FloatArray, slowest_link: int
    ) -> None:
        self._network, self._began, self._began_s = network, counters.copy(), network.now_s
        self._values, self._link = values, slowest_link
        ports = network.ports()
        self._sent_bytes = float(ports.sent_bytes[slowest_link])
        self._queue_byte_s = float(ports.queue_byte_s[slowest_link])

    def metrics(self, counters: FloatArray, fair_bps: float | None) -> dict[str, float]:
        """Return the metrics up to now; see :data:`EPISODE_METRICS`.

        Args:
            counters: The flow's, now.
            fair_bps: Its max-min fair share of the links, headers included; None: there is none for all time.
        """
        network, values = self._network, self._values
        duration_s = network.now_s - self._began_s
        change = counters - self._began
        acked, lost = change[ACKED_PACKETS], max(change[LOST_PACKETS], 0.0)
        payload_bits = values[at.PACKET_BITS] * values[at.PAYLOAD_SHARE]
        goodput_bps = change[DELIVERED_PACKETS] * payload_bits / duration_s
        ports = network.ports()
        sent_bits = 8.0 * (float(ports.sent_bytes[self._link]) - self._sent_bytes)
        metrics = {
            "goodput_bps": goodput_bps,
            "utilization": sent_bits / duration_s / network.topology.link_rate_bps[self._link],
            "queue_mean_bytes": (ports.queue_byte_s[self._link] - self._queue_byte_s) / duration_s,
            "timeouts": change[TIMEOUTS],
        }
        if acked + lost > 0.0:
            metrics["loss_fraction"] = lost / (acked + lost)
        if acked > 0.0:
            metrics["mark_fraction"] = change[MARKED_PACKETS] / acked
        if change[RTT_SAMPLES] > 0.0:
            rtt_s = change[RTT_SUM_S] / change[RTT_SAMPLES]
            metrics["rtt_mean_s"] = rtt_s
            metrics["queue_delay_mean_s"] = max(rtt_s - values[at.BASE_RTT_S], 0.0)
        if fair_bps is not None:
            metrics["fair_share"] = goodput_bps / (fair_bps * values[at.PAYLOAD_SHARE])
        metrics |= flow_metrics(network.flows(), network.now_s)
        return {name: float(value) for name, value in metrics.items()}
