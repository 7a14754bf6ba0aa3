"""Interface of the diagnosis family to learned agents."""

from __future__ import annotations

from sysgym.agents.learned.choices.learning import ChoiceLearning
from sysgym.agents.learned.choices.reading import Observation, Parts, Reading


def job_parts(observation: Observation) -> Parts:
    """Return the parts of the job as rows, and the job as context."""
    return observation["parts"], observation["job"]


READING = Reading(job_parts, choice="part")
LEARNING = ChoiceLearning(READING)
