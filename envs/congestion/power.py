"""Power of a law in an episode, the basis of scores of laws: goodput over p99 queue and p99 slowdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

LEAST_QUEUE_BYTES = 3_000.0
"""Queue of two packets, below which queues count as equal."""

NONE_ENDED = 1e4
"""p99 slowdown assigned to an episode in which no flow ends."""


def power(goodput_bps: Any, queue_p99_bytes: Any, fct_slowdown_p99: Any = 1.0) -> Any:
    """Return the power of one or many episodes: goodput over the product of p99 queue and p99 slowdown.

    Kleinrock's power is throughput over delay (Power and Deterministic Rules of Thumb, ICC 1979); here the
    delays are tail delays, which users notice.

    Args:
        goodput_bps: Goodput, a number or an array.
        queue_p99_bytes: p99 of the queue, of the same shape.
        fct_slowdown_p99: p99 of the slowdowns, of the same shape; 1 for long-lived flows.
    """
    return goodput_bps / (np.maximum(queue_p99_bytes, LEAST_QUEUE_BYTES) * fct_slowdown_p99)


def parts_of_power(metrics: Mapping[str, float]) -> tuple[float, float, float]:
    """Return goodput, p99 queue and p99 slowdown of an episode with finite flows, within their bounds."""
    queue_bytes = max(metrics["queue_p99_bytes"], LEAST_QUEUE_BYTES)
    return max(metrics["goodput_bps"], 1.0), queue_bytes, metrics.get("fct_slowdown_p99", NONE_ENDED)
