"""Cost estimate of simulating a congestion scenario."""

from __future__ import annotations

from sysgym.emulator.packets.sizing.estimate import estimate
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.family import Work


def estimate_work(scenario: CongestionScenario, episodes: float, steps: float) -> Work:
    """Return the cost of whole episodes and of single steps.

    Args:
        scenario: The scenario.
        episodes: Number of episodes.
        steps: Number of steps, counted as fractions of an episode.
    """
    one = estimate(scenario)
    count = episodes + steps / scenario.control.episode_steps
    return Work(count * one.wall_s, count * one.packet_hops, "packet-hops")
