"""Metrics of an interval and of an episode, in absolute units. Inapplicable metrics are omitted.

Queues and drops are those of switch ports unless stated otherwise. In an episode, counters exclude the
warm-up; metrics of flows and percentiles of queues include it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.counters.statistics import FlowTable
from sysgym.envs.congestion.datacenter.measurement import Interval
from sysgym.envs.congestion.datacenter.rewards import jain_index
from sysgym.scenarios.schema.congestion.traffic import drains

FloatArray = NDArray[np.float64]

SMALL_FLOW_BYTES = 100_000
LARGE_FLOW_BYTES = 1_000_000
HUGE_FLOW_BYTES = 10_000_000

INTERVAL_METRICS: dict[str, str] = {
    "goodput_bps": "payload delivered in order, all hosts, bit/s",
    "ideal_goodput_bps": "goodput at max-min fair rates of the flows active at the beginning, bit/s",
    "queue_mean_bytes": "mean queue of the switch port where it was longest, bytes",
    "queue_max_bytes": "largest queue of a switch port, bytes",
    "queueing_delay_s": "mean wait in switch queues of a byte that left the network, s (absent: none left)",
    "drop_fraction": "bytes dropped of those that left the network, anywhere",
    "mark_fraction": "ACKs that echoed a mark, of all",
    "rtt_mean_s": "mean round trip, s (absent: no ACK came back)",
    "active_flows": "flows with something left to send, at the end",
    "jain_index": "Jain's index of goodput over fair share, hosts with demand (absent: fewer than two)",
}
"""Meaning of every interval metric."""

EPISODE_METRICS: dict[str, str] = {
    "goodput_bps": "payload delivered in order, all hosts, bit/s",
    "offered_bps": "payload of the flows that started, bit/s (flows that end)",
    "utilization": "share of its rate that the busiest switch port sent, headers and ACKs included",
    "queue_mean_bytes": "mean queue of the switch port where it was longest, bytes",
    "queue_p99_bytes": (
        "99th percentile over time of the queue of the port where it is largest, in bytes (warm-up included;"
        " exact to 3 %)"
    ),
    "queue_delay_mean_s": "mean wait in switch queues of a byte that left the network, s",
    "queue_delay_p99_s": (
        "99th percentile over time of the drain time of the queue of the port where it is largest, in s"
        " (warm-up included; exact to 3 %)"
    ),
    "drop_fraction": "bytes dropped of those that left the network, anywhere",
    "mark_fraction": "ACKs that echoed a mark, of all",
    "rtt_mean_s": "mean round trip, s",
    "retransmitted_fraction": "packets sent again, of all data packets sent",
    "timeouts": "retransmission time-outs",
    "jain_index": "Jain's index of goodput, flow by flow (long-lived flows)",
    "offered_flows": "flows that started (flows that end)",
    "completed_flows": "flows that finished (flows that end)",
    "fct_slowdown_p50": "median of flow completion time over that on an empty network, see fct_slowdowns",
    "fct_slowdown_p99": "99th percentile of flow completion time over that on an empty network",
    "fct_slowdown_p50_small": "median FCT slowdown of flows below 100 kB",
    "fct_slowdown_p99_small": "99th percentile of the FCT slowdown of flows below 100 kB",
    "fct_slowdown_p50_medium": "median FCT slowdown of flows of 100 kB to 1 MB",
    "fct_slowdown_p99_medium": "99th percentile of the FCT slowdown of flows of 100 kB to 1 MB",
    "fct_slowdown_p50_large": "median FCT slowdown of flows of 1 MB and more",
    "fct_slowdown_p99_large": "99th percentile of the FCT slowdown of flows of 1 MB and more",
    "fct_slowdown_p50_huge": (
        "median FCT slowdown of flows of 10 MB and more, where arrivals end before the episode"
    ),
    "fct_slowdown_p99_huge": (
        "99th percentile of the FCT slowdown of flows of 10 MB and more, where arrivals end before the"
        " episode"
    ),
    "round_completion_mean_s": "incast: from a round's first start to its last byte, mean of the rounds, s",
    "round_completion_p99_s": (
        "incast: from a round's first start to its last byte, 99th percentile of the rounds, s"
    ),
}
"""Meaning of every episode metric."""


def interval_metrics(interval: Interval) -> dict[str, float]:
    """Return the metrics of one network's interval; see :data:`INTERVAL_METRICS`."""
    return {name: value for name, value in interval_values(interval).items() if not math.isnan(value)}


def interval_values(interval: Interval) -> dict[str, Any]:
    """Return the metrics of one network, or of many, each of shape (n,); NaN where inapplicable."""
    totals = interval.derived.totals
    delay_s = totals.queueing_delay_s
    return {
        "goodput_bps": totals.goodput_bps,
        "ideal_goodput_bps": totals.ideal_goodput_bps,
        "queue_mean_bytes": totals.queue_mean_bytes,
        "queue_max_bytes": totals.queue_max_bytes,
        "drop_fraction": totals.loss_fraction,
        "active_flows": totals.active_flows,
        "queueing_delay_s": _nan_for_infinite(delay_s),
        "mark_fraction": totals.mark_fraction,
        "rtt_mean_s": totals.rtt_mean_s,
        "jain_index": totals.jain_index,
    }


def _nan_for_infinite(delay_s: Any) -> Any:
    if isinstance(delay_s, float):
        return delay_s if math.isfinite(delay_s) else math.nan
    return np.where(np.isfinite(delay_s), delay_s, np.nan)


def episode_metrics(episode: Interval, network: Network) -> dict[str, float]:
    """Return the metrics of a whole episode; see :data:`EPISODE_METRICS`.

    Args:
        episode: Interval from the end of the warm-up to now.
        network: The network at the end, for percentiles of queues and flows, which include the warm-up.
    """
    fabric, duration_s, totals = episode.fabric, float(episode.duration_s), episode.derived.totals
    before, after = episode.before.hosts, episode.after.hosts
    p99_bytes = network.queue_quantile_bytes(0.99)[fabric.port_links]
    metrics = {
        "goodput_bps": float(episode.delivered_bytes.sum()) * 8.0 / duration_s,
        "utilization": float((episode.sent_bytes * 8.0 / fabric.port_rate_bps).max()) / duration_s,
        "queue_mean_bytes": float(episode.queue_mean_bytes.max()),
        "queue_p99_bytes": float(p99_bytes.max()),
        "queue_delay_p99_s": float((p99_bytes * 8.0 / fabric.port_rate_bps).max()),
        "drop_fraction": totals.loss_fraction,
        "timeouts": float((after.timeouts - before.timeouts).sum()),
    }
    if math.isfinite(totals.queueing_delay_s):
        metrics["queue_delay_mean_s"] = totals.queueing_delay_s
    of_acks = {"mark_fraction": totals.mark_fraction, "rtt_mean_s": totals.rtt_mean_s}
    metrics |= {name: value for name, value in of_acks.items() if not math.isnan(value)}
    sent = float((after.sent_packets - before.sent_packets).sum())
    if sent > 0.0:
        again = float((after.retransmitted_packets - before.retransmitted_packets).sum())
        metrics["retransmitted_fraction"] = again / sent
    drained = drains(network.scenario.workload)
    return metrics | flow_metrics(network.flows(), network.now_s, drained=drained)


def flow_metrics(flows: FlowTable, now_s: float, *, drained: bool = False) -> dict[str, float]:
    """Return the metrics of all flows of the schedule, from time 0 on.

    Args:
        flows: The flows.
        now_s: The time.
        drained: Whether arrivals ended long before, so that the largest flows are not cut off.
    """
    metrics = {}
    endless = flows.started & (flows.size_bytes < 0)
    if endless.any():
        age_s = now_s - flows.start_s[endless]
        goodput = np.divide(
            flows.delivered_bytes[endless], age_s, out=np.zeros(len(age_s)), where=age_s > 0.0
        )
        metrics["jain_index"] = jain_index(goodput)
    finite = flows.started & (flows.size_bytes >= 0)
    if finite.any():
        metrics["offered_bps"] = float(flows.size_bytes[finite].sum()) * 8.0 / now_s
        metrics["offered_flows"] = float(finite.sum())
        metrics["completed_flows"] = float((finite & ~np.isnan(flows.finish_s)).sum())
        metrics |= slowdown_quantiles(*fct_slowdowns(flows, now_s), drained=drained)
    rounds_s = round_completions_s(flows, now_s)
    if len(rounds_s):
        metrics["round_completion_mean_s"] = float(rounds_s.mean())
        metrics["round_completion_p99_s"] = float(np.quantile(rounds_s, 0.99))
    return metrics


def fct_slowdowns(flows: FlowTable, now_s: float) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return slowdown and size of every flow that could have finished.

    The slowdown is the completion time divided by that on an empty network. An unfinished flow counts with
    its age, a lower bound, if it is older than its completion time on an empty network. Omitting such flows
    would reward controllers that starve some flows.
    """
    unfinished = np.isnan(flows.finish_s)
    age_s = np.where(unfinished, now_s, flows.finish_s) - flows.start_s
    counted = flows.started & (flows.size_bytes >= 0) & (~unfinished | (age_s >= flows.ideal_fct_s))
    return (age_s / flows.ideal_fct_s)[counted], flows.size_bytes[counted]


def slowdown_quantiles(
    slowdown: FloatArray, size_bytes: NDArray[np.int64], *, drained: bool
) -> dict[str, float]:
    """Return median and 99th percentile of slowdowns, by metric, of all flows and by size.

    Args:
        slowdown: Slowdown of each flow, shape (n_flows,).
        size_bytes: Payload of each flow, shape (n_flows,).
        drained: Whether flows of 10 MB and more are not cut off at the end; else they are left out.
    """
    small, large = size_bytes < SMALL_FLOW_BYTES, size_bytes >= LARGE_FLOW_BYTES
    huge = drained & (size_bytes >= HUGE_FLOW_BYTES)
    metrics = {}
    for suffix, chosen in (
        ("", np.ones_like(small)),
        ("_small", small),
        ("_medium", ~small & ~large),
        ("_large", large),
        ("_huge", huge),
    ):
        if chosen.any():
            median, tail = np.quantile(slowdown[chosen], [0.5, 0.99])
            metrics[f"fct_slowdown_p50{suffix}"] = float(median)
            metrics[f"fct_slowdown_p99{suffix}"] = float(tail)
    return metrics


def round_completions_s(flows: FlowTable, now_s: float) -> FloatArray:
    """Return the duration of every incast round, from its first start to its last byte.

    An unfinished round counts with its age if it is older than its flows would take one after another on an
    empty network; otherwise it is omitted.
    """
    durations = []
    for group in np.unique(flows.group[flows.started & (flows.group >= 0)]):
        of_round = flows.group == group
        if not flows.started[of_round].all():
            continue
        began_s = flows.start_s[of_round].min()
        finish_s = flows.finish_s[of_round]
        if not np.isnan(finish_s).any():
            durations.append(finish_s.max() - began_s)
        elif now_s - began_s >= len(finish_s) * flows.ideal_fct_s[of_round].max():
            durations.append(now_s - began_s)
    return np.asarray(durations, dtype=np.float64)
