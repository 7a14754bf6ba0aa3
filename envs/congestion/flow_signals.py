"""What a flow's sender sees and is paid for, as pure functions: Aurora's way, a datacenter's, Orca's.

Features and terms read one row of :mod:`sysgym.envs.congestion.flow_intervals`. They are compiled, so that a
decision costs microseconds; :mod:`sysgym.envs.congestion.flow_presets` says what they mean.

Sources: Jay et al., A Deep Reinforcement Learning Perspective on Internet Congestion Control (Aurora), ICML
2019, and its simulator PCC-RL; Abbasloo et al., Classic Meets Modern (Orca), SIGCOMM 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

from sysgym.emulator.compiling import compiled
from sysgym.emulator.packets.single_flows import source_digest
from sysgym.envs.congestion.flow_intervals import (
    ARRIVED_BPS,
    BASE_RTT_S,
    BEST_BPS,
    CWND_PACKETS_NOW,
    DURATION_S,
    GOODPUT_BPS,
    IN_FLIGHT_BITS,
    LEAST_RATE_BPS,
    LEAST_RTT_S,
    LINE_RATE_BPS,
    LOSS_FRACTION,
    LOST_BPS,
    MARK_FRACTION,
    PAYLOAD_SHARE,
    RATE_BPS,
    RTT_CHANGE_S,
    RTT_S,
    SAMPLES,
    SENT_BPS,
    SLOWEST_LINK_BPS,
    SRTT_NOW_S,
    measure,
)

AURORA, DATACENTER, ORCA = 0, 1, 2

AURORA_PACKET_BITS = 8 * 1500
AURORA_REWARD_SCALE = 0.001
LARGEST_SEND_RATIO = 1000.0
LARGEST_LATENCY_RATIO = 10_000.0

ORCA_LOSS_WEIGHT = 5.0
ORCA_FREE_DELAY = 1.25
"""Orca: delay up to this multiple of the least RTT costs nothing."""
MOST_TERMS = 3


@njit(forceinline=True)
def clipped(value: float, low: float, high: float) -> float:
    """Returns the value, at least ``low`` and at most ``high``."""
    return min(max(value, low), high)


@njit(forceinline=True)
def aurora_features(values: Any, out: Any) -> None:
    """Sent latency inflation, latency ratio, send ratio; an interval without samples reads 0, 1, 1."""
    out[0] = 0.0
    out[1] = 1.0
    out[2] = 1.0
    if values[DURATION_S] > 0.0:
        out[0] = clipped(values[RTT_CHANGE_S] / values[DURATION_S], -1.0, 10.0)
    if values[SAMPLES] > 0.0 and values[LEAST_RTT_S] > 0.0:
        out[1] = clipped(values[RTT_S] / values[LEAST_RTT_S], 1.0, LARGEST_LATENCY_RATIO)
    if values[ARRIVED_BPS] > 0.0:
        ratio = values[SENT_BPS] / values[ARRIVED_BPS]
        out[2] = ratio if ratio < LARGEST_SEND_RATIO else 1.0


@njit(forceinline=True)
def queueing_delay_s(values: Any) -> float:
    """Mean round trip less that of the empty path; the smoothed one where no ACK came."""
    rtt_s = values[RTT_S] if values[SAMPLES] > 0.0 else values[SRTT_NOW_S]
    return float(max(rtt_s - values[BASE_RTT_S], 0.0))


@njit(forceinline=True)
def datacenter_features(values: Any, out: Any) -> None:
    """Marks, queueing, its trend, rate, throughput, packets in flight, loss; see the preset."""
    delay_s = queueing_delay_s(values)
    line_rate_bps = values[LINE_RATE_BPS]
    in_flight = values[IN_FLIGHT_BITS] / (line_rate_bps * values[BASE_RTT_S])
    span = math.log(line_rate_bps / values[LEAST_RATE_BPS])
    rate = clipped(values[RATE_BPS], values[LEAST_RATE_BPS], line_rate_bps)
    out[0] = values[MARK_FRACTION]
    out[1] = delay_s / (delay_s + values[BASE_RTT_S])
    out[2] = clipped(values[RTT_CHANGE_S] / values[BASE_RTT_S], -1.0, 1.0)
    out[3] = clipped(math.log(rate / values[LEAST_RATE_BPS]) / span, 0.0, 1.0)
    out[4] = clipped(values[ARRIVED_BPS] / line_rate_bps, 0.0, 1.0)
    out[5] = in_flight / (1.0 + in_flight)
    out[6] = values[LOSS_FRACTION]


@njit(forceinline=True)
def orca_delay_metric(values: Any) -> float:
    """1 up to 1.25 times the least RTT; beyond it that over the smoothed RTT."""
    free_s = ORCA_FREE_DELAY * values[LEAST_RTT_S]
    return 1.0 if values[SRTT_NOW_S] <= free_s else free_s / values[SRTT_NOW_S]


@njit(forceinline=True)
def orca_features(values: Any, out: Any) -> None:
    """Orca's seven; 0 where there is nothing to divide by, and 1 for the two that compare round trips."""
    best_bps, srtt_s = values[BEST_BPS], values[SRTT_NOW_S]
    for place in range(5):
        out[place] = 0.0
    if best_bps > 0.0:
        out[0] = values[ARRIVED_BPS] / best_bps
        out[1] = clipped(values[RATE_BPS] / best_bps, 0.0, 10.0)
        out[2] = clipped(ORCA_LOSS_WEIGHT * values[LOST_BPS] / best_bps, 0.0, 10.0)
    if values[CWND_PACKETS_NOW] > 0.0:
        out[3] = clipped(values[SAMPLES] / values[CWND_PACKETS_NOW], 0.0, 10.0)
    if srtt_s > 0.0:
        out[4] = clipped(values[DURATION_S] / srtt_s, 0.0, 10.0)
    out[5] = values[LEAST_RTT_S] / srtt_s if srtt_s > 0.0 else 1.0
    out[6] = orca_delay_metric(values)


@njit(forceinline=True)
def features_of(preset: int, values: Any, out: Any) -> None:
    """Writes a preset's features."""
    if preset == AURORA:
        aurora_features(values, out)
    elif preset == DATACENTER:
        datacenter_features(values, out)
    else:
        orca_features(values, out)


@njit(forceinline=True)
def terms_of(reward: int, values: Any, weights: Any, out: Any) -> None:
    """Writes a reward's terms, in the order that its table names."""
    if reward == AURORA:
        out[0] = AURORA_REWARD_SCALE * weights[0] * values[ARRIVED_BPS] / AURORA_PACKET_BITS
        out[1] = -AURORA_REWARD_SCALE * weights[1] * values[RTT_S]
        out[2] = -AURORA_REWARD_SCALE * weights[2] * values[LOSS_FRACTION]
    elif reward == DATACENTER:
        delay_s = queueing_delay_s(values)
        out[0] = weights[0] * values[GOODPUT_BPS] / (values[SLOWEST_LINK_BPS] * values[PAYLOAD_SHARE])
        out[1] = -weights[1] * delay_s / (delay_s + values[BASE_RTT_S])
        out[2] = -weights[2] * values[LOSS_FRACTION]
    else:
        share = orca_delay_metric(values) / values[BEST_BPS] if values[BEST_BPS] > 0.0 else 0.0
        # The delay metric multiplies all that Orca pays; it is no term of its own.
        out[0] = weights[0] * values[ARRIVED_BPS] * share
        out[1] = -weights[1] * values[LOST_BPS] * share


@njit(forceinline=True)
def conclude(
    before: Any,
    middle: Any,
    after: Any,
    duration_s: float,
    values: Any,
    preset: int,
    history: Any,
    n_features: int,
    reward: int,
    weights: Any,
    terms: Any,
) -> None:
    """Ends an interval: measures it, puts its features before the older ones, works out the terms."""
    measure(before, middle, after, duration_s, values)
    for place in range(len(history) - 1, n_features - 1, -1):
        history[place] = history[place - n_features]
    features_of(preset, values, history)
    terms_of(reward, values, weights, terms)
    for place in range(len(before)):
        before[place] = after[place]


def _compiled(digest: str) -> Callable[..., Any]:
    @compiled
    def conclude_all(
        before: Any,
        middle: Any,
        after: Any,
        duration_s: float,
        values: Any,
        preset: int,
        history: Any,
        n_features: int,
        reward: int,
        weights: Any,
        terms: Any,
    ) -> None:
        """Ends an interval of flows or hosts whose counters have been read, a row each."""
        digest  # noqa: B018  (part of the cache key)
        for row in range(len(before)):
            conclude(
                before[row],
                middle[row],
                after[row],
                duration_s,
                values[row],
                preset,
                history[row],
                n_features,
                reward,
                weights,
                terms[row],
            )

    return conclude_all


conclude_all = _compiled(source_digest(Path(__file__), Path(__file__).with_name("flow_intervals.py")))
