"""Measurement errors: half widths of a box around an observation, in physical terms.

Round-trip times are known to 2 %, losses to 0.1 percentage points, queues to 1 % of the buffer; values set by
the controller and flags are exact. The bounds on marks, rates, progress and counters are our own assumptions.
Features are scale-free, so a bound on a round-trip time is converted to one on a feature by the feature's
formula.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.learning import learning_of
from sysgym.agents.learned.trust.bound import Bound, FloatArray
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.families import families


def group_of(name: str) -> str:
    """Return the kind of feature in the name of a value, such as ``rtt`` for ``rtt[h1] (...)``."""
    return re.split(r"[\[,:]", name, maxsplit=1)[0].strip()


@dataclass(frozen=True)
class Bounds:
    """Bounds of every feature of an observation.

    Attributes:
        groups: Kind of feature of every index.
        table: Bound of each kind that occurs.
        factor: Factor of all half widths.
    """

    groups: tuple[str, ...]
    table: dict[str, Bound]
    factor: float = 1.0

    @classmethod
    def of(cls, env_id: str, index: Sequence[str], factor: float = 1.0) -> Bounds:
        """Return the bounds for an environment's observation.

        Args:
            env_id: Id of the environment.
            index: Name of every value of the observation.
            factor: Factor of all half widths, positive.

        Raises:
            SysgymError: If there is no bound for the environment or a feature, or the factor is not positive.
        """
        if not factor > 0.0:
            raise SysgymError(f"a factor of the bounds has to be positive, got {factor!r}")
        playing = [family.name for family in families().values() if family.environment(env_id) is not None]
        known = learning_of(playing[0]).bounds(env_id) if playing else None
        if known is None:
            raise SysgymError(
                f"{env_id}: its observations are exact (sizes, masks, counts): no bound on an error is stated"
            )
        groups = tuple(group_of(name) for name in index)
        if unknown := sorted(set(groups) - set(known)):
            raise SysgymError(f"{env_id}: no bound is stated for the feature {unknown[0]}")
        return cls(groups, {group: known[group] for group in dict.fromkeys(groups)}, factor)

    def half_widths(self, observations: NDArray[Any]) -> FloatArray:
        """Return the half widths of the boxes around observations, shape (n, size) like the observations."""
        values = np.asarray(observations, dtype=np.float64)
        widths = np.zeros_like(values)
        for group, bound in self.table.items():
            columns = [index for index, found in enumerate(self.groups) if found == group]
            widths[:, columns] = bound.half_width(values[:, columns])
        return self.factor * widths
