"""Incast: many hosts answer one host at the same time, so that their bursts meet in the queue of its link."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads.schedule import MOST_FLOWS, FlowSchedule, make_schedule, nanoseconds
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import IncastWorkload

FIRST_RECEIVER = 0


def incast(
    spec: IncastWorkload, topology: Topology, rng: np.random.Generator, horizon_s: float
) -> FlowSchedule:
    """Draw rounds at times 0, ``period_s``, 2 ``period_s``, ... before the horizon, numbered in ``group``.

    In every round, ``senders`` hosts drawn anew send ``request_bytes`` each to one receiver: host 0, or one
    drawn in each round. Each flow starts at a random time, uniform from 0 to ``jitter_s`` into the round. The
    last round is never cut short, so its flows may start up to ``jitter_s`` after the horizon.

    Raises:
        SysgymError: If there are not enough hosts, or too many flows.
    """
    n_hosts, n_senders = topology.n_hosts, spec.senders
    if n_senders >= n_hosts:
        raise SysgymError(f"incast: {n_senders} senders and a receiver need more than {n_hosts} hosts")
    period_ns = nanoseconds(spec.period_s)
    n_rounds = max(0, -(-nanoseconds(horizon_s) // period_ns))
    if n_rounds * n_senders > MOST_FLOWS:
        raise SysgymError(
            f"incast: {n_rounds} rounds of {n_senders} flows; at most {MOST_FLOWS} flows are possible"
        )
    if spec.receiver == "first":
        receivers = np.full(n_rounds, FIRST_RECEIVER, dtype=np.int64)
    else:
        receivers = rng.integers(0, n_hosts, size=n_rounds)
    senders = np.empty((n_rounds, n_senders), dtype=np.int64)
    for round_ in range(n_rounds):
        senders[round_] = rng.choice(n_hosts - 1, size=n_senders, replace=False)
    senders += senders >= receivers[:, np.newaxis]
    rounds = np.repeat(np.arange(n_rounds), n_senders)
    jitter_ns = rng.integers(0, nanoseconds(spec.jitter_s), size=len(rounds), endpoint=True)
    return make_schedule(
        rng,
        senders.ravel(),
        receivers[rounds],
        size_bytes=spec.request_bytes,
        start_ns=rounds * period_ns + jitter_ns,
        group=rounds,
    )
