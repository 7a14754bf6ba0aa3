"""Description of a compression scenario in words, and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sysgym.emulator.compression.times import FloatArray, Job, job_of
from sysgym.envs.compression.render import LABELS, curves, draw_times
from sysgym.envs.pictures import new_figure, write_picture
from sysgym.scenarios.schema.compression import METHODS, CompressionScenario

_BANDWIDTHS_BPS = np.geomspace(1e8, 1e12, 4001)


def in_words(scenario: CompressionScenario) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of each paragraph."""
    job, network, workers = scenario.job, scenario.network, scenario.workers
    yield (
        "Job",
        f"{job.iterations} iterations with gradients of {job.gradient_bytes / 1e6:g} MB at 32 bits per value,"
        f" sent with {16 if job.half_precision else 32} bits; backward pass {1e3 * job.backward_s:g} ms.",
    )
    drift = (
        f"drifts around {network.median_bps / 1e9:g} Gbit/s between {network.least_bps / 1e9:g} and"
        f" {network.most_bps / 1e9:g}, correlated over {network.correlation_s:g} s"
        if network.log_sd
        else f"is {network.median_bps / 1e9:g} Gbit/s"
    )
    background = (
        f"; background traffic takes {100 * network.background_share:g} % of it for"
        f" {network.background_on_s:g} s every {network.background_on_s + network.background_off_s:g} s"
        if network.background_share
        else ""
    )
    yield "Network", f"The bandwidth of a worker's link {drift}{background}."
    change = (
        f"doubles or halves every {workers.change_s:g} s, from {workers.least} to {workers.most}"
        if workers.change_s
        else "never changes"
    )
    yield "Workers", f"{workers.count} at the start; the number {change}."
    yield "Best method", best_methods(scenario) + "."
    yield (
        "Decisions",
        f"One every {scenario.control.decision_interval_s:g} s, at most"
        f" {scenario.control.episode_steps} in an episode.",
    )


def best_methods(scenario: CompressionScenario) -> str:
    """Return the method with the most progress per second outside critical phases, by bandwidth, in words."""
    loss = np.array([0.0, *(getattr(scenario.loss, method) for method in METHODS[1:])])
    parts = best_by_bandwidth(job_of(scenario), scenario.workers.count, scenario.job.backward_s, loss)
    words = []
    for number, (method, from_bps) in enumerate(parts):
        above = f" from {from_bps / 1e9:.3g} Gbit/s" if number else ""
        words.append(f"{LABELS[method]}{above}")
    return f"With {scenario.workers.count} workers: " + ", ".join(words)


def best_by_bandwidth(job: Job, workers: int, backward_s: float, loss: FloatArray) -> list[tuple[int, float]]:
    """Return the methods with the most progress per second, and the bandwidth from which each leads, bit/s.

    Bandwidths from 0.1 to 1,000 Gbit/s are tried in steps of 0.23 %.
    """
    best = (curves(job, workers, backward_s, _BANDWIDTHS_BPS) / (1.0 - loss)).argmin(axis=1)
    starts = [0, *(np.flatnonzero(np.diff(best)) + 1).tolist()]
    return [(int(best[at]), float(_BANDWIDTHS_BPS[at])) for at in starts]


def draw(scenario: CompressionScenario, path: Path) -> None:
    """Draw the time of an iteration against the bandwidth into a file.

    Raises:
        SysgymError: If the format is unknown, or the file cannot be written.
    """
    figure = new_figure(7.0, 5.0, dpi=120)
    axes = figure.subplots()
    ends = (min(0.5 * scenario.network.least_bps, 1e9), max(1.5 * scenario.network.most_bps, 30e9))
    draw_times(axes, job_of(scenario), scenario.workers.count, scenario.job.backward_s, ends)
    write_picture(figure, path)
