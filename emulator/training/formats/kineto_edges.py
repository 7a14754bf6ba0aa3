"""Dependencies between the pieces of a rank, as far as the profiler has recorded them.

Certain: the order of threads and streams, from a call to what it launched, recorded synchronisations, and the
buckets of DistributedDataParallel, whose reducer waits for them in the order in which it launched them.

Inferred, where nothing is recorded, and only if it holds in every step: a thread that pauses until a
collective or another thread is done has waited for it; a stream without work likewise. A kernel of NCCL
follows the last kernel that its thread launched before, because PyTorch's process group waits for the current
stream.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from sysgym.emulator.training.formats.kineto_events import RankEvents
from sysgym.emulator.training.formats.kineto_steps import GLOO_STREAM, StepPieces
from sysgym.emulator.training.graph import Edge
from sysgym.emulator.training.operations import FloatArray

BUCKET_COPY = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
"""Operator with which the reducer gives back the gradients of a bucket that was reduced."""

_BUCKET_VIEW = "aten::as_strided"
_BACKWARD = "autograd::engine::"
_CLOCK_S = 1e-6
"""Times of a host and of its devices agree to this, for what is inferred from them."""


@dataclass
class RankEdges:
    """What each piece of a rank waits for.

    Attributes:
        thread: For each piece of a thread, the pieces after which its thread goes on.
        others: Edges between other pieces, and from devices to the calls that wait for them.
        synchronised: For each call that waits for devices, what it waits for.
    """

    thread: dict[int, list[int]] = field(default_factory=dict)
    others: list[Edge] = field(default_factory=list)
    synchronised: dict[int, list[int]] = field(default_factory=dict)


def edges_of_rank(events: RankEvents, step: StepPieces, start_s: FloatArray, end_s: FloatArray) -> RankEdges:
    """Return what the pieces of a rank wait for.

    Args:
        events: Its events.
        step: The pieces of a step.
        start_s: Starts of the pieces in all steps, float64 [n_steps, n].
        end_s: Ends, likewise.
    """
    found = RankEdges()
    for places in step.streams(host=True):
        for before, place in pairwise([None, *places]):
            assert place is not None
            found.thread[place] = [] if before is None else [before]
    for places in step.streams(host=False):
        found.others += pairwise(places)
    found.others += [(piece.launch, place) for place, piece in enumerate(step.pieces) if piece.launch >= 0]
    if events.syncs:
        _recorded_waits(events, step, found)
    else:
        _communication_order(step, found)
    _synchronising_calls(events, step, start_s, end_s, found)
    _forks_and_joins(step, start_s, end_s, found)
    gloo = step.by_stream.get(GLOO_STREAM, [])
    _gloo_threads(gloo, step.n_gloo_threads, start_s, end_s, found)
    waited = _buckets(step, gloo, found)
    rest = [place for place in gloo if place not in waited]
    main = step.by_stream.get(step.main, [])
    for place, before in _pauses(rest, main, found.thread, start_s, end_s):
        found.thread[place].append(before)
    if not events.syncs:
        _stream_pauses(step, start_s, end_s, found)
    return found


def _launches(step: StepPieces) -> list[tuple[float, int]]:
    """Return the start of each launch and the device's piece, in the order of the launches."""
    return sorted(
        (step.pieces[piece.launch].start_s, place)
        for place, piece in enumerate(step.pieces)
        if piece.launch >= 0 and not piece.host and piece.stream != GLOO_STREAM
    )


def _stream_number(step: StepPieces, place: int) -> str:
    return step.pieces[place].event.lane[1]


def _recorded_waits(events: RankEvents, step: StepPieces, found: RankEdges) -> None:
    """Add the waits of streams: what is launched after one follows what was launched before the record."""
    calls = {
        event.correlation: event
        for lane in events.host.values()
        for event in lane
        if event.runtime and event.correlation is not None
    }
    launches = _launches(step)
    times = [time for time, _ in launches]
    for correlation, sync in events.syncs.items():
        wait = calls.get(correlation)
        record = calls.get(sync.args.get("wait_on_cuda_event_record_corr_id", -1))
        if "Stream Wait" not in sync.name or wait is None or record is None:
            continue
        if not step.step.start_s <= wait.start_s < step.step.end_s:
            continue
        source, target = str(sync.args.get("wait_on_stream")), str(sync.args.get("stream"))
        earlier = [
            place
            for _, place in launches[: bisect_left(times, record.start_s)]
            if _stream_number(step, place) == source
        ]
        later = [
            place
            for _, place in launches[bisect_left(times, wait.start_s) :]
            if _stream_number(step, place) == target
            and step.pieces[step.pieces[place].launch].event.lane == wait.lane
        ]
        if earlier and later:
            found.others.append((earlier[-1], later[0]))


def _communication_order(step: StepPieces, found: RankEdges) -> None:
    """Add what kernels of NCCL wait for, as PyTorch's process group orders it."""
    last_computation: dict[str, int] = {}
    for _, place in _launches(step):
        piece = step.pieces[place]
        thread = step.pieces[piece.launch].stream
        if not piece.communicates:
            last_computation[thread] = place
        elif thread in last_computation:
            found.others.append((last_computation[thread], place))


def _synchronising_calls(
    events: RankEvents, step: StepPieces, start_s: FloatArray, end_s: FloatArray, found: RankEdges
) -> None:
    """Add what calls wait for that synchronise a thread with devices."""
    launches = _launches(step)
    times = [time for time, _ in launches]
    for place, piece in enumerate(step.pieces):
        if not piece.host or not piece.synchronises:
            continue
        last_of: dict[str, int] = {}
        for _, device in launches[: bisect_left(times, piece.start_s)]:
            last_of[step.pieces[device].stream] = device
        candidates = list(last_of.values())
        sync = events.syncs.get(piece.event.correlation) if piece.event.correlation is not None else None
        if sync is not None and "Stream" in sync.name:
            stream = str(sync.args.get("stream"))
            candidates = [one for one in candidates if _stream_number(step, one) == stream]
        # Whatever was recorded: nobody waits for what ended later.
        waited = [one for one in candidates if (end_s[:, one] <= end_s[:, place] + _CLOCK_S).all()]
        if waited:
            found.synchronised[place] = waited
            found.others += [(device, place) for device in waited]


def _forks_and_joins(step: StepPieces, start_s: FloatArray, end_s: FloatArray, found: RankEdges) -> None:
    """Add that the main thread starts autograd's threads, and waits for them."""
    main = step.by_stream.get(step.main, [])
    main_starts = [step.pieces[place].start_s for place in main]
    for places in step.streams(host=True):
        first = step.pieces[places[0]]
        if first.stream == step.main or not main or not first.kind.startswith(_BACKWARD):
            continue
        # A burst is what the thread does while the main thread does nothing.
        turns = [bisect_left(main_starts, step.pieces[place].start_s) for place in places]
        for number, place in enumerate(places):
            if turns[number] and (not number or turns[number - 1] != turns[number]):
                before = main[turns[number] - 1]
                if (end_s[:, before] <= start_s[:, place] + _CLOCK_S).all():
                    found.thread[place].append(before)
            if turns[number] < len(main) and (
                number + 1 == len(places) or turns[number + 1] != turns[number]
            ):
                after = main[turns[number]]
                if (end_s[:, place] <= start_s[:, after] + _CLOCK_S).all():
                    found.thread[after].append(place)


def _gloo_threads(
    gloo: list[int], n_threads: int, start_s: FloatArray, end_s: FloatArray, found: RankEdges
) -> None:
    """Add that a collective of gloo waits for a free thread, where it has done so in all steps."""
    for before, place in zip(gloo, gloo[n_threads:], strict=False):
        if (end_s[:, before] <= start_s[:, place] + _CLOCK_S).all():
            found.others.append((before, place))


def _buckets(step: StepPieces, gloo: list[int], found: RankEdges) -> set[int]:
    """Add the waits of the reducer for its buckets; return the collectives that it waits for."""
    main = step.by_stream.get(step.main, [])
    runs: list[int] = []
    copying = False
    for number, place in enumerate(main):
        copies = step.pieces[place].kind == BUCKET_COPY
        if copies and not copying:
            first = number
            while first and step.pieces[main[first - 1]].kind == _BUCKET_VIEW:
                first -= 1
            runs.append(main[first])
        copying = copies
    if not runs or len(runs) != len(gloo):
        return set()
    for before, place in zip(gloo, runs, strict=True):
        found.thread[place].append(before)
    return set(gloo)


def _pauses(
    sources: list[int],
    targets: list[int],
    before: dict[int, list[int]],
    start_s: FloatArray,
    end_s: FloatArray,
) -> list[Edge]:
    """Return which of the targets, one after another, has waited for each source, as (target, source).

    It is the first one that never started before the source had ended, if in some step the source was the
    last to end of all that this target waits for.
    """
    edges = []
    starts = start_s[:, targets]
    for source in sources:
        never_before = (starts + _CLOCK_S >= end_s[:, [source]]).all(axis=0)
        if not never_before.any():
            continue
        target = targets[int(np.argmax(never_before))]
        known = before.get(target, [])
        if known and (end_s[:, source] > end_s[:, known].max(axis=1)).any():
            edges.append((target, source))
    return edges


def _stream_pauses(step: StepPieces, start_s: FloatArray, end_s: FloatArray, found: RankEdges) -> None:
    """Add that streams wait for communication on other streams, where they have paused for it."""
    before: dict[int, list[int]] = {}
    for source, target in found.others:
        before.setdefault(target, []).append(source)
    streams = step.streams(host=False)
    for sources in streams:
        communications = [place for place in sources if step.pieces[place].communicates]
        for targets in streams:
            computations = [place for place in targets if not step.pieces[place].communicates]
            if targets is sources or not communications or not computations:
                continue
            edges = _pauses(communications, computations, before, start_s, end_s)
            found.others += [(source, target) for target, source in edges]
