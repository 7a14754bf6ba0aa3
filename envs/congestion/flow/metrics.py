"""Metrics of the agent's flow over an interval and over an episode, in absolute units."""

from __future__ import annotations

from operator import itemgetter
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.counters.rows import FLOW_COUNTERS
from sysgym.envs.congestion.datacenter.metrics import EPISODE_METRICS as NETWORK_EPISODE_METRICS
from sysgym.envs.congestion.datacenter.metrics import flow_metrics
from sysgym.envs.congestion.flow.intervals import FLOW_INTERVAL, IntervalArray
from sysgym.scenarios.schema.congestion.traffic import drains

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

_FIELDS = (
    "duration_s",
    "goodput_bps",
    "sent_bps",
    "rate_bps",
    "rtt_s",
    "loss_fraction",
    "mark_fraction",
    "in_flight_bits",
)
"""Fields of an interval that the metrics report, in their order."""

_NUMBERS = Struct(f"{len(FLOW_INTERVAL.names or ())}d")
"""Accessor of an interval's fields as plain numbers, faster than through the record."""

_measured = itemgetter(*((FLOW_INTERVAL.names or ()).index(name) for name in _FIELDS))

EPISODE_METRICS: dict[str, str] = {
    "goodput_bps": "payload of the agent's flow delivered in order, bit/s",
    "utilization": "share of its nominal rate that the slowest link on the flow's path sent, all traffic",
    "queue_mean_bytes": "mean queue of the port of the slowest link on the flow's path, bytes",
    "rtt_mean_s": "mean round trip of the flow, s",
    "queue_delay_mean_s": "mean round trip of the flow less that of the empty path, s",
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


def interval_metrics(interval: np.void) -> dict[str, float]:
    """Return the metrics of an interval, a ``FLOW_INTERVAL`` record; see :data:`INTERVAL_METRICS`."""
    numbers = _NUMBERS.unpack(interval.tobytes())
    metrics: dict[str, float] = dict(zip(INTERVAL_METRICS, _measured(numbers), strict=True))
    metrics["in_flight_bytes"] *= 0.125
    return metrics


def metrics_of_many(intervals: IntervalArray) -> dict[str, FloatArray]:
    """Return the metrics of many intervals, shape (n,) each, as views of the intervals."""
    metrics = {name: intervals[field] for name, field in zip(INTERVAL_METRICS, _FIELDS, strict=True)}
    metrics["in_flight_bytes"] = 0.125 * metrics["in_flight_bytes"]
    return metrics


class EpisodeMeter:
    """Metrics of a flow over an episode, from one moment on.

    Args:
        network: The network at the beginning.
        counters: Counters of the flow at the beginning, a ``FLOW_COUNTERS`` record.
        interval: Newest interval of the flow, which supplies the constants.
        slowest_link: Slowest link on the path of the flow.
    """

    def __init__(self, network: Network, counters: np.void, interval: np.void, slowest_link: int) -> None:
        self._network, self._began, self._began_s = network, counters.copy(), network.now_s
        self._packet_bits = float(interval["packet_bits"])
        self._payload_share = float(interval["payload_share"])
        self._base_rtt_s, self._link = float(interval["base_rtt_s"]), slowest_link
        ports = network.ports()
        self._sent_bytes = float(ports.sent_bytes[slowest_link])
        self._queue_byte_s = float(ports.queue_byte_s[slowest_link])

    def metrics(self, counters: np.void, fair_bps: float | None) -> dict[str, float]:
        """Return the metrics up to now; see :data:`EPISODE_METRICS`.

        Args:
            counters: Current counters of the flow.
            fair_bps: Max-min fair share of the flow, headers included; None: it varies over time.
        """
        network = self._network
        duration_s = network.now_s - self._began_s
        change = {name: counters[name] - self._began[name] for name in FLOW_COUNTERS.names or ()}
        acked, lost = change["acked_packets"], max(change["lost_packets"], 0.0)
        payload_bits = self._packet_bits * self._payload_share
        goodput_bps = change["delivered_packets"] * payload_bits / duration_s
        ports = network.ports()
        sent_bits = 8.0 * (float(ports.sent_bytes[self._link]) - self._sent_bytes)
        metrics = {
            "goodput_bps": goodput_bps,
            "utilization": sent_bits / duration_s / network.topology.link_rate_bps[self._link],
            "queue_mean_bytes": (ports.queue_byte_s[self._link] - self._queue_byte_s) / duration_s,
            "timeouts": change["timeouts"],
        }
        if acked + lost > 0.0:
            metrics["loss_fraction"] = lost / (acked + lost)
        if acked > 0.0:
            metrics["mark_fraction"] = change["marked_packets"] / acked
        if change["rtt_samples"] > 0.0:
            rtt_s = change["rtt_sum_s"] / change["rtt_samples"]
            metrics["rtt_mean_s"] = rtt_s
            metrics["queue_delay_mean_s"] = max(rtt_s - self._base_rtt_s, 0.0)
        if fair_bps is not None:
            metrics["fair_share"] = goodput_bps / (fair_bps * self._payload_share)
        drained = drains(network.scenario.workload)
        metrics |= flow_metrics(network.flows(), network.now_s, drained=drained)
        return {name: float(value) for name, value in metrics.items()}
