"""Interface of the pipelines family to learned agents."""

from __future__ import annotations

from sysgym.agents.learned.choices.learning import ChoiceLearning
from sysgym.agents.learned.choices.reading import Observation, Parts, Reading


def plan_parts(observation: Observation) -> Parts:
    """Return the stages and ranks as rows, and the job as context."""
    return observation["rows"], observation["job"]


READING = Reading(plan_parts, choice="change")
LEARNING = ChoiceLearning(READING)
