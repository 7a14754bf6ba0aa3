"""Tasks of synthesis: a collective on a network, with the times of its chunks on every hop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sysgym.emulator.collectives.collective import Collective, Phase
from sysgym.emulator.collectives.hops import NO_LINK, Hops
from sysgym.emulator.collectives.network import FloatArray, IntArray, Network


@dataclass(frozen=True, eq=False)
class SynthesisTask:
    """A collective on a network.

    Attributes:
        hops: Ways between devices.
        collective: What is communicated.
    """

    hops: Hops
    collective: Collective

    @property
    def network(self) -> Network:
        """The network."""
        return self.hops.network

    @property
    def n_devices(self) -> int:
        """Number of devices of the network."""
        return self.network.n_devices

    @cached_property
    def durations_s(self) -> FloatArray:
        """Time from the start of a chunk's transfer to its arrival, float64 [n_hops]."""
        return self.hops.durations_s(self.collective.chunk_bytes)

    @cached_property
    def mean_duration_s(self) -> float:
        """Mean of :attr:`durations_s` over the hops."""
        return float(self.durations_s.mean())

    @cached_property
    def latency_share(self) -> float:
        """Mean latency of the hops over their mean duration."""
        return float(self.hops.latencies_s.mean()) / self.mean_duration_s

    @cached_property
    def duration_spread(self) -> float:
        """Longest duration of a hop over the shortest."""
        return float(self.durations_s.max() / self.durations_s.min())

    @cached_property
    def intake_per_s(self) -> FloatArray:
        """Chunks that the hops into each device carry in a second, as if none shared links, [n_devices]."""
        return self._per_s(self.hops.targets)

    @cached_property
    def output_per_s(self) -> FloatArray:
        """Chunks that the hops out of each device carry in a second, as if none shared links, [n_devices]."""
        return self._per_s(self.hops.sources)

    def _per_s(self, ends: IntArray) -> FloatArray:
        per_s = np.zeros(self.n_devices)
        np.add.at(per_s, ends, 1.0 / (self.durations_s - self.hops.latencies_s))
        return per_s

    @cached_property
    def occupancies_s(self) -> FloatArray:
        """Time for which a chunk occupies each link of a hop, float64 [n_hops, longest path]."""
        times_s = np.append(self.collective.chunk_bytes / self.network.bandwidths_bytes_per_s, 0.0)
        occupied: FloatArray = times_s[self.hops.paths]
        return np.where(self.hops.paths == NO_LINK, 0.0, occupied)

    @cached_property
    def distances_s(self) -> FloatArray:
        """Least time of a chunk from device to device, float64 [n_devices, n_devices]."""
        return self.hops.distances_s(self.collective.chunk_bytes)

    def ends(self, phase: Phase) -> tuple[IntArray, IntArray]:
        """Return senders and receivers of all hops as a plan sees them.

        A plan spreads chunks from their owners. Reductions are planned backwards in time: the reversed plan
        collects what the plan would spread, so senders and receivers change places.
        """
        hops = self.hops
        return (hops.sources, hops.targets) if phase is Phase.COPY else (hops.targets, hops.sources)

    def plan_hops(self, phase: Phase) -> dict[tuple[int, int], int]:
        """Return the widest hop from device to device as a plan of the phase sees them."""
        fastest = self.hops.fastest
        if phase is Phase.COPY:
            return fastest
        return {(target, source): hop for (source, target), hop in fastest.items()}

    def plan_distances_s(self, phase: Phase) -> FloatArray:
        """Return :attr:`distances_s` as a plan of the phase sees them."""
        return self.distances_s if phase is Phase.COPY else np.ascontiguousarray(self.distances_s.T)
