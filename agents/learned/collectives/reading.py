"""Conversion of the collectives family's observations to vectors, for learned agents."""

from __future__ import annotations

import numpy as np

from sysgym.agents.learned.choices.reading import Observation, Parts, Reading


def candidate_parts(observation: Observation) -> Parts:
    """Return the candidates as rows, and the system as context.

    Ratios differ by orders of magnitude and are therefore converted to ln(1 + ratio).
    """
    return np.log1p(observation["candidates"]), np.log1p(observation["system"])


READING = Reading(candidate_parts, choice="candidate")
