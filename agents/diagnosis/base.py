"""Base class of rules that ask about some parts, one after another, and then name one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.protocol import world_of
from sysgym.envs.diagnosis.observation import NOT_ASKED, PART_COLUMNS
from sysgym.envs.diagnosis.training_diagnosis import TrainingDiagnosis

FloatArray = NDArray[np.float64]
PLACE = {name: place for place, name in enumerate(PART_COLUMNS)}
"""Place of every column of the parts."""


class PartTable:
    """Table of the parts of a job in an observation.

    Args:
        observation: The observation.

    Attributes:
        allowed: Whether each part may be asked about, and may be named, bool [2, rows].
    """

    def __init__(self, observation: Any) -> None:
        table = np.asarray(observation["parts"], np.float64)
        self._table = table[table[:, PLACE["exists"]] > 0.0]
        self.n_rows = len(table)
        self.allowed = np.asarray(observation["action_mask"]).reshape(2, -1)[:, : len(self._table)] > 0.0

    def column(self, name: str) -> FloatArray:
        """Return a column, float64 [n_parts]."""
        return self._table[:, PLACE[name]]

    def rows(self, what: str) -> list[int]:
        """Return the rows of stages, kinds, data-parallel ranks or ranks: ``is_stage``, ..."""
        return np.flatnonzero(self.column(what) > 0.0).tolist()

    def nameable(self) -> list[int]:
        """Return the rows of parts that may be named."""
        return np.flatnonzero(self.allowed[1]).tolist()

    def answers(self) -> FloatArray:
        """Return the answers, -infinity for parts that were not asked about, float64 [n_parts]."""
        share = self.column("share")
        return np.where(share == NOT_ASKED, -np.inf, share)


class Questioner:
    """Agent that asks some questions and names a part.

    Attributes:
        name: Name of the agent.
    """

    name = "questioner"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check the environment.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        self._world = world_of(env, self.name, TrainingDiagnosis)

    def act(self, observation: Any) -> int:
        """Ask the next question, or name a part."""
        parts = PartTable(observation)
        for row in self.questions(parts):
            if parts.allowed[0, row]:
                return int(row)
        return parts.n_rows + int(self.culprit(parts))

    def questions(self, parts: PartTable) -> Sequence[int]:
        """Return the rows to ask about, in order; rows that were asked about before are skipped."""
        return ()

    @abstractmethod
    def culprit(self, parts: PartTable) -> int:
        """Return the row to name."""
