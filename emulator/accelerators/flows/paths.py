"""Ways through a network, as flat tables that compiled code reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]


class Paths(NamedTuple):
    """Ways through the network: path p has the links ``link[first[p] : first[p + 1]]``.

    A flow may send only a share of its bytes over a link: so one that is spread over parallel links is said.
    """

    first: NDArray[np.int64]
    """int64 [n_paths + 1], ascending from 0."""
    link: IntArray
    """int32 [n_hops]; no link twice on a path."""
    share: FloatArray
    """Of a flow's bytes, what crosses each link, float64 [n_hops], more than 0; 1 where there is one way."""

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return len(self.first) - 1

    def links_of(self, path: int) -> IntArray:
        """Return the links of a path, int32."""
        return self.link[self.first[path] : self.first[path + 1]]

    def shares_of(self, path: int) -> FloatArray:
        """Return the share of the bytes that crosses each link of a path, float64."""
        return self.share[self.first[path] : self.first[path + 1]]
