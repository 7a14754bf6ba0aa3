"""How long a command will take, said before it begins where that is longer than one waits."""

from __future__ import annotations

from collections.abc import Iterable

from sysgym.cli.terminal import console
from sysgym.scenarios import Scenario

WORTH_SAYING_S = 60.0
"""Shorter ones are over before the sentence has been read."""


def say_how_long(episodes: Iterable[tuple[Scenario, float]], n_workers: int = 1) -> None:
    """Print how long episodes take, if it is more than a minute; only networks are estimated.

    Args:
        episodes: Scenarios, and how many episodes of each; parts of an episode count as such.
        n_workers: Processes that share them.
    """
    from sysgym.emulator.packets.sizing.estimate import duration, estimate
    from sysgym.scenarios.schema.congestion import CongestionScenario

    total_s = hops = 0.0
    for scenario, count in episodes:
        if isinstance(scenario, CongestionScenario):
            one = estimate(scenario)
            total_s += count * one.wall_s
            hops += count * one.packet_hops
    if total_s / n_workers > WORTH_SAYING_S:
        on = f" on {n_workers} cores" if n_workers > 1 else ""
        console(stderr=True).print(
            f"about {duration(total_s / n_workers)}{on} of simulation, {hops:.2g} packet-hops (an estimate)"
        )
