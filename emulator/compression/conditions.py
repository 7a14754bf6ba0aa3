"""Conditions of an episode, drawn before it begins: bandwidth, other traffic, workers, backward passes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.schema.compression import Bandwidth, CompressionScenario, WorkerTable

FloatArray = NDArray[np.float64]

_STREAM = 0xC0DEC


class Conditions(NamedTuple):
    """Conditions of each window, arrays [n windows].

    Every policy meets the same ones: they depend on the time, not on what the policy does.

    Attributes:
        bandwidth_bps: Bandwidth of a worker's link.
        goodput_bps: What background traffic leaves of it.
        workers: Number of workers.
        backward_s: Backward pass of the slowest worker.
        measured_bps: Goodput as it would be measured in the window.
    """

    bandwidth_bps: FloatArray
    goodput_bps: FloatArray
    workers: NDArray[np.int64]
    backward_s: FloatArray
    measured_bps: FloatArray


def draw_conditions(scenario: CompressionScenario, episode_seed: int) -> Conditions:
    """Return the conditions of an episode, one window before its first included.

    Args:
        scenario: The drawn scenario.
        episode_seed: Seed of the episode.
    """
    n, interval_s = scenario.control.episode_steps + 1, scenario.control.decision_interval_s
    # A stream for each part, so that a key of one does not change what is drawn for another.
    links, background, workers, backward, noise = (
        np.random.default_rng(child) for child in np.random.SeedSequence([_STREAM, episode_seed]).spawn(5)
    )
    bandwidth_bps = draw_bandwidth(scenario.network, n, interval_s, links)
    busy = draw_background(scenario.network, n, interval_s, background)
    goodput_bps = bandwidth_bps * np.where(busy, 1.0 - scenario.network.background_share, 1.0)
    slowest = np.exp(scenario.workers.straggler_log_sd * backward.standard_normal(n))
    return Conditions(
        bandwidth_bps,
        goodput_bps,
        draw_workers(scenario.workers, n, interval_s, workers),
        scenario.job.backward_s * slowest,
        goodput_bps * np.exp(scenario.measuring.noise_log_sd * noise.standard_normal(n)),
    )


def draw_bandwidth(network: Bandwidth, n: int, interval_s: float, rng: np.random.Generator) -> FloatArray:
    """Return a bandwidth for each of n windows: an Ornstein-Uhlenbeck process in its logarithm, clipped.

    The process begins in its stationary distribution.
    """
    kept = math.exp(-interval_s / network.correlation_s)
    normal = rng.standard_normal(n)
    deviation = np.empty(n)
    deviation[0] = normal[0]
    for window in range(1, n):
        deviation[window] = kept * deviation[window - 1] + math.sqrt(1.0 - kept * kept) * normal[window]
    bandwidth_bps = network.median_bps * np.exp(network.log_sd * deviation)
    return np.clip(bandwidth_bps, network.least_bps, network.most_bps)


def draw_background(
    network: Bandwidth, n: int, interval_s: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return for each of n windows whether background traffic is on: a Markov chain of two states."""
    uniform = rng.random(n)
    begins = -math.expm1(-interval_s / network.background_off_s)
    ends = -math.expm1(-interval_s / network.background_on_s)
    busy = np.empty(n, np.bool_)
    share_on = network.background_on_s / (network.background_on_s + network.background_off_s)
    busy[0] = uniform[0] < share_on
    for window in range(1, n):
        busy[window] = uniform[window] >= ends if busy[window - 1] else uniform[window] < begins
    return busy


def draw_workers(
    workers: WorkerTable, n: int, interval_s: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the number of workers in each of n windows; changes double or halve it where that is allowed."""
    counts = np.full(n, workers.count, np.int64)
    if workers.change_s == 0.0:
        return counts
    probability = -math.expm1(-interval_s / workers.change_s)
    changes, up = rng.random(n) < probability, rng.random(n) < 0.5
    for window in range(1, n):
        before = int(counts[window - 1])
        after = before * 2 if up[window] else before // 2
        allowed = changes[window] and workers.least <= after <= workers.most
        counts[window] = after if allowed else before
    return counts
