"""Base class of the family's agents: the environment, and names for observations."""

from __future__ import annotations

from typing import Any, NamedTuple

from sysgym.emulator.failslow.run import Action
from sysgym.envs.failslow.observation import COLUMNS

PLACE = {name: place for place, name in enumerate(COLUMNS)}
"""Place of every value in the observation."""


class Noticed(NamedTuple):
    """Logarithms of factors: the lower of the current one and its short moving mean.

    After a fault is gone, the mean stays high for a while; the current factor does not.

    Attributes:
        worker: Of the slowest worker, beyond that of the slowest stage.
        stage: Of the slowest stage.
        link: Of the exchange.
    """

    worker: float
    stage: float
    link: float


def noticed(observation: Any) -> Noticed:
    """Return the slow parts."""
    worst, stage, link = (
        float(min(observation[PLACE[name]], observation[PLACE[f"{name}_fast"]]))
        for name in ("worst", "stage", "link")
    )
    return Noticed(worst - max(stage, 0.0), stage, link)


def restart(observation: Any) -> Action:
    """Return a restart, or a checkpoint first if it takes less time than the restart would lose."""
    lost = observation[PLACE["since_checkpoint"]] > observation[PLACE["checkpoint_cost"]]
    return Action.CHECKPOINT if lost else Action.RESTART
