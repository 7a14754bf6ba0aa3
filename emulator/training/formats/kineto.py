"""Jobs from traces of PyTorch's profiler, a file a rank.

Threads and streams do one thing after another. A kernel follows the call that launched it, a collective of
gloo the operator that started it. Recorded synchronisations (``cuda_sync``) give what streams and threads
wait for; without them, PyTorch's own order of communication is assumed
(:mod:`~sysgym.emulator.training.formats.kineto_edges`). The members of a collective meet.

The time of a thread between two operators, which Python takes, is an operation of its own: it begins when all
that the next operator waits for is done.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.formats.kineto_edges import RankEdges, edges_of_rank
from sysgym.emulator.training.formats.kineto_events import REMEDY, RankEvents, Step, read_rank
from sysgym.emulator.training.formats.kineto_matching import groups_of
from sysgym.emulator.training.formats.kineto_steps import StepCutter, StepPieces
from sysgym.emulator.training.graph import Edge, Graph
from sysgym.emulator.training.job import Job
from sysgym.emulator.training.operations import (
    BETWEEN,
    LATE_START,
    FloatArray,
    IntArray,
    LeftOut,
    Operations,
    TrainingTrace,
)
from sysgym.scenarios.errors import SysgymError


class _RankSteps(NamedTuple):
    """Kept steps of a rank, all with the same pieces.

    Attributes:
        rank: The rank.
        first: Pieces of the first kept step.
        start_s: Start of each piece, float64 [n_steps, n_pieces].
        end_s: End, likewise.
        begin_s: Start of each step, float64 [n_steps].
        stop_s: End of each step, likewise.
    """

    rank: int
    first: StepPieces
    start_s: FloatArray
    end_s: FloatArray
    begin_s: FloatArray
    stop_s: FloatArray


def read_kineto(paths: Sequence[Path], name: str) -> Job:
    """Read traces of PyTorch's profiler.

    Args:
        paths: Files of the ranks, ``.json`` or ``.json.gz``.
        name: Name of the job.

    Raises:
        TraceError: If a file cannot be read, or the files have no step in common.
    """
    ranks = [read_rank(path, default_rank) for default_rank, path in enumerate(paths)]
    ranks.sort(key=lambda one: one.rank)
    twice = [rank for rank, count in Counter(one.rank for one in ranks).items() if count > 1]
    if twice:
        raise TraceError(paths[0].parent, f"two files of rank {twice[0]}", "one file a rank", REMEDY)
    kept, steps, left_out, notes = _common_steps(ranks, paths)
    parts = [
        _operations_of(one, edges_of_rank(events, one.first, one.start_s, one.end_s))
        for events, one in zip(ranks, kept, strict=True)
    ]
    bounds = np.cumsum([0, *(len(part.kind) for part in parts)])
    edges = [
        (a + shift, b + shift)
        for part, shift in zip(parts, bounds.tolist(), strict=False)
        for a, b in part.edges
    ]
    firsts = [one.first for one in kept]
    groups, unmatched = groups_of([one.rank for one in ranks], firsts, bounds.tolist())
    starts = np.concatenate([part.start_s for part in parts], axis=1)
    ends = np.concatenate([part.end_s for part in parts], axis=1)
    try:
        graph = Graph.of(int(bounds[-1]), edges, groups)
    except SysgymError as error:
        raise TraceError(
            paths[0].parent, f"the collectives of the ranks do not fit together: {error}",
            "files of one job with the same steps", REMEDY,
        ) from error  # fmt: skip
    trace = TrainingTrace(
        name,
        _joined([one.rank for one in ranks], parts),
        steps,
        starts,
        ends,
        LeftOut(sum(one.malformed for one in ranks), left_out, unmatched),
    )
    return Job(trace, graph, notes=tuple(notes))


def _common_steps(
    ranks: Sequence[RankEvents], paths: Sequence[Path]
) -> tuple[list[_RankSteps], IntArray, tuple[int, ...], list[str]]:
    """Return the most frequent kind of step that all ranks have, its numbers, the others', and remarks."""
    notes = []
    if not any(one.steps for one in ranks):
        notes.append("no ProfilerStep: the whole trace counts as one step")
        for one in ranks:
            one.steps.append(_whole_trace(one))
    of_rank = [{step.number: step for step in one.steps} for one in ranks]
    common = sorted(set.intersection(*(set(steps) for steps in of_rank)))
    if not common:
        raise TraceError(
            paths[0].parent, "no step that all ranks have", "the same steps in every file", REMEDY
        )
    cutters = [StepCutter(one) for one in ranks]
    pieces = [
        [cutter.cut(steps[number]) for cutter, steps in zip(cutters, of_rank, strict=True)]
        for number in common
    ]
    signatures = [tuple(one.signature() for one in of_step) for of_step in pieces]
    usual = Counter(signatures).most_common(1)[0][0]
    chosen = [place for place, signature in enumerate(signatures) if signature == usual]
    if not any(usual):
        raise TraceError(paths[0].parent, "steps without operators", "operators in steps", REMEDY)
    origin_ns = ranks[0].base_ns
    kept = []
    zero_s = None
    for number, events in enumerate(ranks):
        shift_s = 1e-9 * (events.base_ns - origin_ns)
        mine = [pieces[place][number] for place in chosen]
        begin_s = np.array([one.step.start_s + shift_s for one in mine])
        zero_s = begin_s if zero_s is None else np.minimum(zero_s, begin_s)
        kept.append(
            _RankSteps(
                events.rank,
                mine[0],
                np.array([[piece.start_s + shift_s for piece in one.pieces] for one in mine]),
                np.array([[piece.end_s + shift_s for piece in one.pieces] for one in mine]),
                begin_s,
                np.array([one.step.end_s + shift_s for one in mine]),
            )
        )
    assert zero_s is not None
    kept = [_since(one, zero_s) for one in kept]
    left_out = tuple(number for place, number in enumerate(common) if place not in set(chosen))
    return kept, np.array([common[place] for place in chosen], np.int64), left_out, notes


def _whole_trace(events: RankEvents) -> Step:
    """Return a step of everything that a rank did; its main thread is the one with the most operators."""
    lanes = events.host or events.device
    main = max(lanes, key=lambda lane: len(lanes[lane]))
    spans = [event for lane in (*events.host.values(), *events.device.values()) for event in lane]
    first_s, last_s = min(one.start_s for one in spans), max(one.end_s for one in spans)
    return Step(0, first_s, np.nextafter(last_s, np.inf), main)


def _since(one: _RankSteps, zero_s: FloatArray) -> _RankSteps:
    """Return the steps with times since their starts."""
    return one._replace(
        start_s=one.start_s - zero_s[:, None],
        end_s=one.end_s - zero_s[:, None],
        begin_s=one.begin_s - zero_s,
        stop_s=one.stop_s - zero_s,
    )


class _Part(NamedTuple):
    """Operations of one rank: its pieces, and what its threads do between them."""

    kind: list[str]
    stream: list[str]
    computes: list[bool]
    start_s: FloatArray
    end_s: FloatArray
    edges: list[Edge]


def _operations_of(one: _RankSteps, found: RankEdges) -> _Part:
    """Return the operations of a rank with its edges."""
    pieces = one.first.pieces
    start_s, end_s = one.start_s.copy(), one.end_s.copy()
    # A call that waits for a device takes its own time only from when that is done.
    for place, devices in found.synchronised.items():
        done_s = end_s[:, devices].max(axis=1)
        start_s[:, place] = np.clip(done_s, start_s[:, place], end_s[:, place])
    more = _More(one, [piece.kind for piece in pieces], [piece.stream for piece in pieces])
    # What a call starts may run before the call returns: the rest of it is an operation of its own.
    for place, started in _started_inside(one).items():
        issued_s = np.clip(one.start_s[:, started].min(axis=1), start_s[:, place], end_s[:, place])
        rest = more.add(pieces[place].kind, pieces[place].stream, issued_s, one.end_s[:, place], [place])
        end_s[:, place] = issued_s
        more.last_of[place] = rest
    late = more.add(LATE_START, one.first.main, np.zeros(len(start_s)), one.begin_s, [])
    for place, before in found.thread.items():
        # Up to the traced start: what a call waits for is no time of Python.
        thread = pieces[place].stream
        gap = more.add(BETWEEN, thread, None, one.start_s[:, place], before or [late])
        more.edges.append((gap, place))
    main = one.first.by_stream.get(one.first.main, [])
    if main:
        more.add(BETWEEN, one.first.main, None, one.stop_s, main[-1:])
    return _Part(
        more.kind,
        more.stream,
        [not piece.communicates for piece in pieces] + [True] * len(more.start_s),
        np.column_stack([start_s, *more.start_s]),
        np.column_stack([end_s, *more.end_s]),
        [*found.others, *more.edges],
    )


def _started_inside(one: _RankSteps) -> dict[int, list[int]]:
    """Return the calls that have not returned, in some step, when what they start runs, and what that is."""
    found: dict[int, list[int]] = defaultdict(list)
    for place, piece in enumerate(one.first.pieces):
        if piece.launch >= 0 and (one.start_s[:, place] < one.end_s[:, piece.launch]).any():
            found[piece.launch].append(place)
    return found


class _More:
    """Operations of a rank that no event tells of: what happens until its pieces begin, and after them."""

    def __init__(self, one: _RankSteps, kind: list[str], stream: list[str]) -> None:
        self.kind, self.stream = kind, stream
        self.start_s: list[FloatArray] = []
        self.end_s: list[FloatArray] = []
        self.edges: list[Edge] = []
        self.last_of: dict[int, int] = {}
        self._one = one

    def add(
        self, kind: str, stream: str, start_s: FloatArray | None, end_s: FloatArray, before: list[int]
    ) -> int:
        """Add an operation that starts when those before it have ended, and return its number."""
        if start_s is None:
            known = [place for place in before if place < len(self._one.first.pieces)]
            start_s = self._one.end_s[:, known].max(axis=1) if known else self._one.begin_s
        self.start_s.append(np.minimum(start_s, end_s))
        self.end_s.append(end_s)
        self.kind.append(kind)
        self.stream.append(stream)
        number = len(self.kind) - 1
        self.edges.extend((self.last_of.get(place, place), number) for place in before)
        return number


def _joined(ranks: Sequence[int], parts: Sequence[_Part]) -> Operations:
    """Return the operations of all ranks. The same work: the same stream, kind and index on every rank."""
    rank, index, work = [], [], []
    numbers: dict[tuple[str, str, int], int] = {}
    for number, part in zip(ranks, parts, strict=True):
        seen: dict[tuple[str, str], int] = defaultdict(int)
        for key in zip(part.stream, part.kind, strict=True):
            rank.append(number)
            index.append(seen[key])
            work.append(numbers.setdefault((*key, seen[key]), len(numbers)))
            seen[key] += 1
    own_rank = np.array(rank, np.int64)
    return Operations(
        own_rank,
        np.zeros(len(rank), np.int64),
        own_rank,
        np.array([kind for part in parts for kind in part.kind]),
        np.array(index, np.int64),
        np.array([one for part in parts for one in part.computes]),
        np.array([stream for part in parts for stream in part.stream]),
        np.array(work, np.int64),
    )
