"""Time of a training step, compiled: backward pass, ring all-reduces of buckets, the next forward pass.

The computing stream runs the backward pass layer by layer, then the forward pass of the next step. A bucket
may be sent when the gradients of its last layer are ready, and a layer's forward pass waits for its bucket.
One transfer is under way at a time; after each chunk the bucket with the lowest number among those that are
ready goes on.

Chunks, the time to launch a transfer, jitter, others' traffic and the slowdown of computing while gradients
are sent make the true time; the profile's time is without them. The order of transfers is after Peng et al.,
ByteScheduler, SOSP 2019.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost.ring import ALL_REDUCE, ring_phases, ring_sent
from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.tuning.job import FloatArray, Profile, Truth

IntArray = NDArray[np.int64]


class Plan(NamedTuple):
    """Buckets of consecutive layers.

    Attributes:
        ends: Index after the last layer of each bucket, ascending; the last is the number of layers.
        order: Number of each bucket; of buckets that are ready, the lowest goes first.
    """

    ends: tuple[int, ...]
    order: tuple[int, ...]


class Step(NamedTuple):
    """Times of a step.

    Attributes:
        time_s: From the first gradient's computation to the end of the next forward pass.
        ready_s: When each bucket may be sent, shape (n_buckets,).
        start_s: When its first byte is sent, likewise.
        end_s: When it has arrived, likewise.
        wanted_s: When the next forward pass would begin with its first layer if it did not wait for it.
        stall_s: How long computing waits for it.
    """

    time_s: float
    ready_s: FloatArray
    start_s: FloatArray
    end_s: FloatArray
    wanted_s: FloatArray
    stall_s: FloatArray


def step_of(plan: Plan, profile: Profile, truth: Truth) -> Step:
    """Return the times of a step under a plan.

    Args:
        plan: The plan.
        profile: The job.
        truth: What the network and the accelerators do beyond that; nothing if it is
            :func:`~sysgym.emulator.tuning.job.as_thought`.
    """
    ends = np.array(plan.ends, np.int64)
    order = np.array(plan.order, np.int64)
    starts = np.concatenate([[0], ends[:-1]])
    sizes = np.add.reduceat(profile.gradient_bytes, starts)
    n = profile.n_workers
    seconds_a_byte = ring_sent(ALL_REDUCE, n) / profile.bandwidth_bytes_per_s
    latency_s = ring_phases(ALL_REDUCE) * (n - 1) * profile.latency_s
    times = np.zeros((5, len(ends)))
    time_s = _run(
        ends, order, sizes, profile.backward_s, profile.forward_s, seconds_a_byte, latency_s,
        truth.chunk_bytes, truth.launch_s, truth.overlap_slowdown, truth.jitter, truth.background,
        truth.phase_s, times,
    )  # fmt: skip
    return Step(float(time_s), *times)


@cached_kernel("sysgym.emulator.accelerators")
def _run(
    ends: Any, order: Any, sizes: Any, backward_s: Any, forward_s: Any, seconds_a_byte: Any, latency_s: Any,
    chunk_bytes: Any, launch_s: Any, slowdown: Any, jitter: Any, background: Any, phase_s: Any, times: Any,
) -> Any:  # fmt: skip
    """Set ready, start, end, wanted and stall times of buckets; return the time of the step.

    Two streams advance together: computing, at a rate that falls while gradients are sent, and sending, at a
    rate that falls while others send.
    """
    n_layers = len(backward_s)
    left_bytes = sizes.copy()
    now, n_chunks = 0.0, 0
    place, work_s = 0, backward_s[0]  # the piece that is computed: backward passes, then forward passes
    filled = 0  # buckets whose gradients are ready
    sending, wire_s = -1, 0.0
    while place < 2 * n_layers:
        layer = place if place < n_layers else 2 * n_layers - 1 - place
        needed = -1
        if place >= n_layers:
            needed = int(np.searchsorted(ends, layer, side="right"))
            if times[3, needed] == 0.0:
                times[3, needed] = now
        waits = needed >= 0 and times[2, needed] == 0.0
        if sending < 0:
            for bucket in range(filled):
                if left_bytes[bucket] > 0.0 and (sending < 0 or order[bucket] < order[sending]):
                    sending = bucket
            if sending >= 0:
                chunk = min(left_bytes[sending], chunk_bytes)
                wire_s = chunk * seconds_a_byte * jitter[n_chunks % len(jitter)]
                n_chunks += 1
                if left_bytes[sending] == sizes[sending]:
                    wire_s += latency_s
                    times[1, sending] = now
                left_bytes[sending] -= chunk
        compute_rate = 0.0 if waits else 1.0 / (1.0 + (slowdown if sending >= 0 else 0.0))
        phase = int(now / phase_s)
        if (phase + 1) * phase_s <= now:  # the quotient was rounded down
            phase += 1
        wire_rate = 1.0 - background[phase % len(background)]
        ahead_s = (phase + 1) * phase_s - now if len(background) > 1 else np.inf
        if not waits:
            ahead_s = min(ahead_s, work_s / compute_rate)
        if sending >= 0:
            ahead_s = min(ahead_s, wire_s / wire_rate)
        now += ahead_s
        if waits:
            times[4, needed] += ahead_s
        else:
            work_s -= ahead_s * compute_rate
        if sending >= 0:
            wire_s -= ahead_s * wire_rate
            if wire_s <= 1e-15:
                if left_bytes[sending] <= 0.0:
                    times[2, sending] = now
                sending = -1
        if not waits and work_s <= 1e-15:
            if place < n_layers and place + 1 == ends[filled]:
                times[0, filled] = now
                filled += 1
            place += 1
            if place < n_layers:
                work_s = backward_s[place]
                if place == ends[filled - 1]:
                    work_s += launch_s
            elif place < 2 * n_layers:
                work_s = forward_s[2 * n_layers - 1 - place]
                if place == n_layers:
                    work_s += launch_s
    return now
