"""Functions shared by the family's agents, and the places of values in the observation."""

from __future__ import annotations

from typing import Any, NamedTuple

from sysgym.emulator.failslow.run import Action
from sysgym.envs.failslow.observation import COLUMNS

PLACE = {name: place for place, name in enumerate(COLUMNS)}
"""Place of every value in the observation."""


class Noticed(NamedTuple):
    """Logarithms of slowdown factors, each the lower of the current factor and its short moving mean.

    After the end of a fault, the mean stays high for a while; the current factor does not.

    Attributes:
        worker: Factor of the slowest worker, relative to that of the slowest stage.
        stage: Factor of the slowest stage.
        link: Factor of the exchange.
    """

    worker: float
    stage: float
    link: float


def noticed(observation: Any) -> Noticed:
    """Return the slowdown of workers, stages and the exchange in an observation."""
    worst, stage, link = (
        float(min(observation[PLACE[name]], observation[PLACE[f"{name}_fast"]]))
        for name in ("worst", "stage", "link")
    )
    return Noticed(worst - max(stage, 0.0), stage, link)


def restart(observation: Any) -> Action:
    """Return a restart, or a checkpoint first if it takes less time than the restart would lose."""
    lost = observation[PLACE["since_checkpoint"]] > observation[PLACE["checkpoint_cost"]]
    return Action.CHECKPOINT if lost else Action.RESTART
