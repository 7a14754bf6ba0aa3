"""Flows that never end, between the pairs of a traffic matrix."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads.matrices import traffic_matrix
from sysgym.emulator.packets.workloads.schedule import LONG_LIVED, FlowSchedule, make_schedule, nanoseconds
from sysgym.scenarios.schema.congestion import LongLivedWorkload


def long_lived(spec: LongLivedWorkload, topology: Topology, rng: np.random.Generator) -> FlowSchedule:
    """Draw ``flows_per_pair`` flows for each pair, with starts uniform from 0 to ``start_jitter_s``."""
    pairs = np.repeat(traffic_matrix(spec, topology, rng), spec.flows_per_pair, axis=0)
    start_ns = rng.integers(0, nanoseconds(spec.start_jitter_s), size=len(pairs), endpoint=True)
    return make_schedule(rng, pairs[:, 0], pairs[:, 1], size_bytes=LONG_LIVED, start_ns=start_ns)
