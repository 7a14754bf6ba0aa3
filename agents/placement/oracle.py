"""Oracle: the best candidate, read from the hidden state. A privileged reference."""

from __future__ import annotations

from sysgym.agents.placement.base import Choice, JointView, Placer
from sysgym.envs.placement.joint import JointPlacement


class OracleAgent(Placer):
    """Immediate commitment to the candidate with the lowest true cost."""

    name = "oracle"
    privileged = True

    def choose(self, view: JointView) -> Choice:
        """Return the best candidate by true cost."""
        assert isinstance(self._world, JointPlacement)
        return Choice(int(self._world.truth.times_s.argmin()), commit=True)
