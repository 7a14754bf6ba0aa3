"""Random early detection at a port, in the fixed-point arithmetic of the port program."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sysgym.scenarios.schema.congestion.queue import Queue

_Q30 = 2**30
_LONGEST_HALF_LIFE_NS = 2**47  # a day and a half, the limit of the program's arithmetic


@dataclass(frozen=True)
class EarlyDetection:
    """A port that marks or drops at random before its buffer is full (Floyd and Jacobson, ToN 1993).

    The algorithm is the simulator's, :func:`sysgym.emulator.packets.engine.discipline.red_verdict`:
    independent draws, based on an average of the queue length that every packet finds.

    Attributes:
        min_bytes: Average below which no packet is marked or dropped.
        max_bytes: Average at which ``max_probability`` is reached.
        max_probability: Probability of a mark at that average.
        gentle: Whether the probability then rises to 1 at twice ``max_bytes``, or jumps.
        weight: Weight of a new sample in the average.
        drops: Whether packets are dropped, or marked where they are ECN capable.
        packet_bytes: A full packet. While the queue is empty, the average falls as if packets of this size
            were arriving.
    """

    min_bytes: int
    max_bytes: int
    max_probability: float = 0.1
    gentle: bool = True
    weight: float = 0.002
    drops: bool = False
    packet_bytes: int = 1500

    @classmethod
    def of_queue(cls, queue: Queue, mtu_bytes: int) -> EarlyDetection | None:
        """Return the early detection of a scenario's queues; None for tail drop and step marking."""
        if queue.discipline != "red" or queue.red_min_bytes is None or queue.red_max_bytes is None:
            return None
        return cls(
            min_bytes=queue.red_min_bytes,
            max_bytes=queue.red_max_bytes,
            max_probability=queue.red_max_probability,
            gentle=queue.red_gentle,
            weight=queue.red_weight,
            drops=queue.red_action == "drop",
            packet_bytes=mtu_bytes,
        )

    def record(self, rate_bps: float) -> dict[str, int]:
        """Return the fields of the record of a port, see ``PORT_RECORD`` in ``bpf_programs.py``.

        Args:
            rate_bps: The port's line rate, which sets how fast the average of an empty queue falls.
        """
        return {
            "red_max_bytes": self.max_bytes,
            "red_min_bytes": self.min_bytes,
            "red_max_probability_q30": round(self.max_probability * _Q30),
            "red_weight_q30": max(round(self.weight * _Q30), 1),
            "red_half_life_ns": self._half_life_ns(rate_bps),
            "red_gentle": int(self.gentle),
            "red_drops": int(self.drops),
        }

    def _half_life_ns(self, rate_bps: float) -> int:
        """Return the time in which the weight of an old sample falls by half at an idle port."""
        if self.weight >= 1.0:  # the average is the queue itself
            return 0
        packet_ns = self.packet_bytes * 8e9 / rate_bps
        half_life_ns = packet_ns * math.log(0.5) / math.log1p(-self.weight)
        return round(min(max(half_life_ns, 1.0), _LONGEST_HALF_LIFE_NS))


NO_EARLY_DETECTION = dict.fromkeys(EarlyDetection(0, 1).record(1.0), 0)
"""The same fields for a port without early detection."""
