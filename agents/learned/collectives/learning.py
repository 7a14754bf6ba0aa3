"""Interface of the collectives family to learned agents."""

from __future__ import annotations

from sysgym.agents.learned.choices.learning import ChoiceLearning
from sysgym.agents.learned.collectives.reading import READING

LEARNING = ChoiceLearning(READING)
