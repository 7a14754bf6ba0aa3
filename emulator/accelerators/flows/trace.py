"""Traces of programs for Perfetto and Chrome: JSON in the Trace Event Format.

Times are microseconds. A transfer is drawn while it sends, without its latency, so that its successor on the
same connection does not overlap it. Events are complete and metadata events of Google's document "Trace Event
Format"; Perfetto reads them at ui.perfetto.dev.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from sysgym.emulator.accelerators.flows.collective import ProgramRun, StepRun
from sysgym.emulator.chrome_trace import US, Event, complete, named_process, named_thread, trace_text
from sysgym.scenarios.errors import UnknownName
from sysgym.scenarios.files import write_atomically

View = Literal["device", "link"]
VIEWS: tuple[View, ...] = get_args(View)

_PROGRAM_PID = 0


def write_trace(path: str | PathLike[str], run: ProgramRun, by: str = "device") -> None:
    """Write a program's trace to a JSON file that Perfetto and Chrome open.

    The first process is the program, with its steps. The others are one for each sending device, with a
    thread for each connection, or one for each used link, with as many threads as transfers that share it at
    a time.

    Args:
        path: Path of the file.
        run: The run of the program.
        by: ``device`` or ``link``.

    Raises:
        UnknownName: There is no such view.
        StorageError: The file cannot be written.
    """
    if by not in VIEWS:
        raise UnknownName("view of a trace", by, VIEWS)
    events = [*named_process(_PROGRAM_PID, "program"), named_thread(_PROGRAM_PID, 0, "steps")]
    for number, step in enumerate(run.steps, start=1):
        args = {"step": number, "transfers": step.transfers.n_transfers}
        events.append(complete(_PROGRAM_PID, 0, step.label, step.start_s, step.start_s + step.time_s, args))
    events += _by_device(run) if by == "device" else _by_link(run)
    text = trace_text(events, hierarchy=run.links.hierarchy.name, time_us=run.time_s * US)
    write_atomically(Path(path), text.encode())


def _by_device(run: ProgramRun) -> Iterator[Event]:
    name = run.links.hierarchy.device_name
    threads: dict[int, dict[tuple[int, int], int]] = {}
    for number, step in enumerate(run.steps, start=1):
        schedule = step.transfers.schedule
        for index in range(step.transfers.n_transfers):
            device, peer = int(step.transfers.src[index]), int(step.transfers.dst[index])
            channel = int(schedule.channel[index % schedule.n_transfers])
            if device not in threads:
                threads[device] = {}
                yield from named_process(1 + device, name(device))
            known = threads[device]
            if (peer, channel) not in known:
                known[peer, channel] = len(known)
                suffix = f", channel {channel}" if channel else ""
                yield named_thread(1 + device, known[peer, channel], f"to {name(peer)}{suffix}")
            yield _transfer(1 + device, known[peer, channel], step, number, index, f"to {name(peer)}")


def _by_link(run: ProgramRun) -> Iterator[Event]:
    name = run.links.hierarchy.device_name
    n_threads: dict[int, int] = {}
    for number, step in enumerate(run.steps, start=1):
        flows, timeline = step.transfers.flows, step.timeline
        # Time at which each thread of each link is free again, the earliest first.
        busy: dict[int, list[tuple[float, int]]] = {}
        for index in timeline.start_s.argsort(kind="stable").tolist():
            start_s, sent_s = float(timeline.start_s[index]), float(timeline.sent_s[index])
            label = f"{name(int(step.transfers.src[index]))} to {name(int(step.transfers.dst[index]))}"
            for link in flows.paths.links_of(int(flows.path[index])).tolist():
                threads = busy.setdefault(link, [])
                thread = len(threads)
                if threads and threads[0][0] <= start_s:
                    thread = heapq.heapreplace(threads, (sent_s, threads[0][1]))[1]
                else:
                    heapq.heappush(threads, (sent_s, thread))
                if link not in n_threads:
                    n_threads[link] = 0
                    yield from named_process(1 + link, run.links.link_name(link))
                if thread >= n_threads[link]:
                    n_threads[link] = thread + 1
                    yield named_thread(1 + link, thread, f"transfer {thread}")
                yield _transfer(1 + link, thread, step, number, index, label)


def _transfer(pid: int, tid: int, step: StepRun, number: int, index: int, label: str) -> Event:
    flows, timeline, schedule = step.transfers.flows, step.timeline, step.transfers.schedule
    args = {
        "step": number,
        "round": int(schedule.round[index % schedule.n_transfers]),
        "bytes": float(flows.size_bytes[index]),
        "latency_us": float(flows.latency_s[index]) * US,
    }
    start_s, sent_s = float(timeline.start_s[index]), float(timeline.sent_s[index])
    name = f"{step.instruction.collective} {label}"
    return complete(pid, tid, name, step.start_s + start_s, step.start_s + sent_s, args)
