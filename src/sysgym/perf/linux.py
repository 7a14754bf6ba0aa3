"""Speed of the kernel backend: overhead of steps, lateness of intervals, and resets.

A step of Iroko took half a second. Here, setting the caps and reading all counters takes about a millisecond,
so that decisions are possible in every round trip.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sysgym.perf.figures import Figure

SCENARIOS = ("linux-dumbbell-100m", "linux-fattree-stride")
STEPS = 200
RESETS = 5
SHORTEST_S = 1e-6
"""Interval so short that a step consists of overhead only."""

INTERVAL_S = 10e-3


def measurements() -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield labels and measurements, which require the Linux backend, an idle machine and about a minute."""
    for scenario in SCENARIOS:
        yield f"linux step {scenario}", _figure("linux_step_s", scenario, step_s)
        yield f"linux lateness {scenario}", _figure("linux_late_s", scenario, late_s)
        yield f"linux reset {scenario}", _figure("linux_reset_s", scenario, reset_s)


def step_s(network: Any) -> float:
    """Return the median wall time of a step without an interval: set all caps and read all counters."""
    from sysgym.emulator.network import Controls

    network.reset(0)
    caps = [Controls(host_caps_bps=share * network.line_rate_bps) for share in (0.5, 0.6)]
    return statistics.median(
        _lasts_s(partial(network.step, caps[turn % 2], SHORTEST_S)) for turn in range(STEPS)
    )


def late_s(network: Any) -> float:
    """Return the median lateness of the end of a 10 ms interval."""
    from sysgym.emulator.network import Controls

    network.reset(0)
    lateness_s: list[float] = [network.step(Controls(), INTERVAL_S).jitter_s for _ in range(STEPS)]
    return statistics.median(lateness_s)


def reset_s(network: Any) -> float:
    """Return the median wall time of a reset: empty queues, new connections, counters at zero."""
    return statistics.median(_lasts_s(partial(network.reset, seed)) for seed in range(RESETS))


def _figure(name: str, scenario: str, measure: Callable[[Any], float]) -> Callable[[], Figure]:
    def made() -> Figure:
        from sysgym.emulator.linux.client import LinuxNetwork
        from sysgym.scenarios import CongestionScenario, load_scenario

        network = LinuxNetwork(load_scenario(scenario, expect=CongestionScenario), transport="cubic")
        try:
            return Figure(name, scenario, measure(network), "s")
        finally:
            network.close()

    return made


def _lasts_s(action: Callable[[], Any]) -> float:
    began_s = time.perf_counter()
    action()
    return time.perf_counter() - began_s
