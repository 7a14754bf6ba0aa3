"""Estimates of a command's duration, printed before long commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sysgym.cli.terminal import console
from sysgym.scenarios import Scenario, get_family

WORTH_SAYING_S = 60.0
"""No estimate is printed for shorter commands."""


def say_how_long(
    episodes: Iterable[tuple[Scenario, float]] = (),
    n_workers: int = 1,
    *,
    steps: Iterable[tuple[Scenario, float]] = (),
) -> None:
    """Print the estimated simulation time of a command if it exceeds a minute and the family has estimates.

    Args:
        episodes: Scenarios, each with its number of episodes.
        n_workers: Number of processes.
        steps: Scenarios, each with its number of training steps.
    """
    total_s = 0.0
    amounts: defaultdict[str, float] = defaultdict(float)
    counts = [*((scenario, count, 0.0) for scenario, count in episodes)]
    counts += [(scenario, 0.0, count) for scenario, count in steps]
    for scenario, n_episodes, n_steps in counts:
        work = get_family(scenario.family).estimate_work(scenario, episodes=n_episodes, steps=n_steps)
        if work is not None:
            total_s += work.wall_s
            amounts[work.unit] += work.amount
    if total_s / n_workers > WORTH_SAYING_S:
        from sysgym.emulator.packets.sizing.estimate import duration

        on = f" on {n_workers} cores" if n_workers > 1 else ""
        listed = ", ".join(f"{amount:.2g} {unit}" for unit, amount in amounts.items())
        console(stderr=True).print(
            f"about {duration(total_s / n_workers)}{on} of simulation, {listed} (an estimate)"
        )
