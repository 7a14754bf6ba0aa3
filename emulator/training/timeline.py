"""Timelines of a step for Perfetto: as traced, and as replayed."""

from __future__ import annotations

from sysgym.emulator import chrome_trace
from sysgym.emulator.training.operations import STREAMS, BoolArray, FloatArray, TrainingTrace
from sysgym.emulator.training.replay import Replayed


def timeline(trace: TrainingTrace, step: int, replayed: Replayed) -> str:
    """Return a step as traced and as replayed, in Chrome's Trace Event Format.

    Every rank is a process, and every stream of it a thread. Spans of the critical path have the argument
    ``critical``.

    Args:
        trace: The trace.
        step: Place of the step in the trace.
        replayed: Its replay.
    """
    events: list[chrome_trace.Event] = []
    critical, begin_s = replayed.critical, float(trace.start_s[step].min())
    traced = (trace.start_s[step] - begin_s, trace.end_s[step] - begin_s)
    for place, rank in enumerate(trace.operations.ranks.tolist()):
        for offset, (name, times) in enumerate(
            (("traced", traced), ("replayed", (replayed.start_s, replayed.end_s)))
        ):
            pid = 2 * place + offset
            events += chrome_trace.named_process(pid, f"rank {rank}, {name}")
            streams = _streams(trace, rank)
            events += [chrome_trace.named_thread(pid, tid, stream) for tid, stream in enumerate(streams)]
            marked = critical if name == "replayed" else critical & False
            events += _spans(trace, pid, rank, streams, times, marked)
    return chrome_trace.trace_text(events, trace=trace.name, step=int(trace.steps[step]))


def _streams(trace: TrainingTrace, rank: int) -> list[str]:
    """Return the streams of a rank; those of a pipeline in their usual order, others sorted."""
    names = set(trace.operations.stream[trace.operations.rank == rank].tolist())
    return [*(one for one in STREAMS if one in names), *sorted(names.difference(STREAMS))]


def _spans(
    trace: TrainingTrace,
    pid: int,
    rank: int,
    streams: list[str],
    times: tuple[FloatArray, FloatArray],
    critical: BoolArray,
) -> list[chrome_trace.Event]:
    operations, found = trace.operations, []
    tid = {stream: number for number, stream in enumerate(streams)}
    for one in (operations.rank == rank).nonzero()[0].tolist():
        about = {"index": int(operations.index[one]), "critical": bool(critical[one])}
        start_s, end_s = float(times[0][one]), float(times[1][one])
        name = f"{operations.kind[one]} {operations.index[one]}"
        stream = str(operations.stream[one])
        found.append(chrome_trace.complete(pid, tid[stream], name, start_s, end_s, about))
    return found
