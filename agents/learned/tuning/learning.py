"""Interface of the tuning family to learned agents."""

from __future__ import annotations

from sysgym.agents.learned.choices.learning import ChoiceLearning
from sysgym.agents.learned.choices.reading import Observation, Parts, Reading


def bucket_parts(observation: Observation) -> Parts:
    """Return the buckets as rows, and the job as context."""
    return observation["buckets"], observation["job"]


READING = Reading(bucket_parts, choice="change")
LEARNING = ChoiceLearning(READING)
