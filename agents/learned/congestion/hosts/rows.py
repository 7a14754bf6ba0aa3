"""Rearrangement of a controller's observation by hosts: a row for each host, and common features."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.sets.network import SetShape
from sysgym.scenarios.errors import SysgymError

Array = NDArray[np.float32]

_ENTRY = re.compile(r"(?P<feature>\w+)\[(?P<place>[^\]]+)\]")
LEAST_RATE = 1e-4
"""Lower bound of rates in the logarithm, as a fraction of the line rate."""


class HostRows:
    """Rearrangement of ``DatacenterCC`` observations for a network over hosts (see ``sets.network``).

    The row of a host consists of a 1, the host's features and, if the rate is one of them, its logarithm.
    Ports differ between networks, so all hosts share the maximum and the mean of every port feature.

    Args:
        observation_index: Name of every value of the observation, from the environment.

    Attributes:
        shape: Layout of the rearranged observation.
        features: Names of the features of hosts and ports, which one policy requires to be equal.

    Raises:
        SysgymError: If the observation has no features of hosts, or contains several intervals.
    """

    def __init__(self, observation_index: Sequence[str]) -> None:
        found = [_ENTRY.match(entry) for entry in observation_index]
        if not all(found):
            raise SysgymError("one policy for all hosts needs the observation of sysgym/DatacenterCC-v0")
        places: dict[bool, dict[str, list[int]]] = {True: {}, False: {}}
        for index, entry in enumerate(found):
            assert entry is not None
            places["->" not in entry["place"]].setdefault(entry["feature"], []).append(index)
        of_hosts, of_ports = places[True], places[False]
        several = any(", t-" in entry for entry in observation_index)
        if not of_hosts or several or len({len(where) for where in of_hosts.values()}) > 1:
            raise SysgymError("one policy for all hosts needs features of hosts, of a single interval")
        self._hosts = np.array(list(of_hosts.values())).T
        self._ports = [np.array(where) for where in of_ports.values()]
        self._rate = list(of_hosts).index("rate") if "rate" in of_hosts else None
        self.features = [*of_hosts, *of_ports]
        n_hosts, n_features = self._hosts.shape
        row_size = 1 + n_features + (self._rate is not None)
        self.shape = SetShape(n_hosts, row_size, 2 * len(self._ports), 1)

    def __call__(self, observations: Array) -> Array:
        """Rearrange one observation or a batch of them."""
        flat = np.atleast_2d(observations)
        hosts = flat[:, self._hosts]
        parts = [np.ones((*hosts.shape[:2], 1), np.float32), hosts]
        if self._rate is not None:
            rate = np.maximum(hosts[:, :, self._rate, None], LEAST_RATE)
            parts.append(np.log(rate) / np.float32(np.log(LEAST_RATE)))
        rows = np.concatenate(parts, axis=2).reshape(len(flat), -1)
        context = [
            value[:, None]
            for where in self._ports
            for value in (flat[:, where].max(axis=1), flat[:, where].mean(axis=1))
        ]
        together: Array = np.concatenate([rows, *context], axis=1).astype(np.float32)
        return together if np.ndim(observations) > 1 else together[0]
