"""What happened on chosen links and to chosen flows, kept in memory for pictures and trace files."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.state import State
from sysgym.emulator.packets.statistics import FlowTable, PortCounters

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Samples(NamedTuple):
    """Readings at regular times."""

    time_s: FloatArray
    """Shape (n_samples,)."""
    queue_bytes: FloatArray
    """Of the recorded links, shape (n_samples, n_links)."""
    cwnd_packets: FloatArray
    """Of the recorded flows, shape (n_samples, n_flows); this and the next one."""
    delivered_bytes: FloatArray


class Recording:
    """A bounded recording: every packet of some links, and samples of their queues and of some flows.

    Args:
        links: Ids of links.
        flows: Ids of flows.
        sample_interval_s: Simulated time between samples.
        max_samples: After so many nothing more is sampled.

    Attributes:
        links: Recorded links, ascending.
        flows: Recorded flows, ascending.
    """

    def __init__(
        self, links: IntArray, flows: IntArray, *, sample_interval_s: float, max_samples: int
    ) -> None:
        self.links, self.flows = links, flows
        self.sample_ns = max(round(sample_interval_s * 1e9), 1)
        self._max_samples = max_samples
        self._rows: list[tuple[float, FloatArray, FloatArray, FloatArray]] = []
        self._state: State
        self.missed_samples = 0

    @property
    def packets(self) -> NDArray[np.void]:
        """Packets in the order in which they were queued, records as ``layout.CAPTURED``; a copy."""
        return self._state.captured[: int(self._state.world["n_captured"][0])].copy()

    @property
    def missed_packets(self) -> int:
        """Packets that found the recording full."""
        return int(self._state.world["n_missed"][0])

    def samples(self) -> Samples:
        """All samples so far."""
        n_links, n_flows = len(self.links), len(self.flows)
        time_s, queues, windows, delivered = zip(*self._rows, strict=True) if self._rows else ((), (), (), ())
        return Samples(
            np.array(time_s, dtype=np.float64),
            np.array(queues, dtype=np.float64).reshape(len(time_s), n_links),
            np.array(windows, dtype=np.float64).reshape(len(time_s), n_flows),
            np.array(delivered, dtype=np.float64).reshape(len(time_s), n_flows),
        )

    def bind(self, state: State) -> None:
        """Follows a state whose arrays have been replaced."""
        self._state = state

    def next_ns(self, after_ns: int) -> int:
        """Time of the first sample after a time."""
        return (after_ns // self.sample_ns + 1) * self.sample_ns

    def take(self, now_s: float, ports: PortCounters, flows: FlowTable) -> None:
        """Adds a sample."""
        if len(self._rows) >= self._max_samples:
            self.missed_samples += 1
            return
        windows = self._state.flows["cwnd"][self.flows]
        delivered = flows.delivered_bytes[self.flows].astype(np.float64)
        self._rows.append((now_s, ports.queue_bytes[self.links], windows, delivered))
