"""Oracle: the best candidate, read off what the environment hides. A bound, not a competitor."""

from __future__ import annotations

from sysgym.agents.placement.base import Choice, JointView, Placer
from sysgym.envs.placement.joint import JointPlacement


class OracleAgent(Placer):
    """Commits to the candidate with the least true cost, at once."""

    name = "oracle"
    privileged = True

    def choose(self, view: JointView) -> Choice:
        """Read the truth."""
        assert isinstance(self._world, JointPlacement)
        return Choice(int(self._world.truth.times_s.argmin()), commit=True)
