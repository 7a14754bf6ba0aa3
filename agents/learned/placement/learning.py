"""Interface of the placement family to learned agents."""

from __future__ import annotations

from sysgym.agents.learned.choices.learning import ChoiceLearning
from sysgym.agents.learned.placement.reading import READING

LEARNING = ChoiceLearning(READING)
