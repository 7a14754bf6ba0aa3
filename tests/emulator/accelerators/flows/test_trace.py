"""Traces: Perfetto's fields, no overlap on exclusive resources, and the end at the simulated time."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from sysgym.emulator.accelerators.flows.collective import ProgramRun, simulate_program
from sysgym.emulator.accelerators.flows.trace import VIEWS, write_trace
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.emulator.accelerators.programs import parse_program
from sysgym.scenarios.errors import UnknownName

ROUNDING_US = 1e-6


def _run(algorithm: str = "ring", text: str = "inside:RS across:AR inside:AG") -> ProgramRun:
    hierarchy = get_preset("p2-a100", 2)
    program = parse_program(text, 2)
    return simulate_program(hierarchy, ((2, 8), (1, 2)), Reduction((0,), 1e8), program, algorithm, chunks=4)


def _trace(folder: Path, run: ProgramRun, by: str = "device") -> dict[str, Any]:
    write_trace(folder / "trace.json", run, by)
    trace: dict[str, Any] = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    return trace


def _threads(trace: dict[str, Any]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    threads = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    return threads


@pytest.mark.parametrize("by", VIEWS)
@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "tree"])
@pytest.mark.parametrize("text", ["inside:RS across:AR inside:AG", "all:AR", "inside:R masters:AR inside:B"])
def test_events_of_a_thread_follow_each_other_and_end_at_the_simulated_time(
    tmp_path: Path, text: str, algorithm: str, by: str
) -> None:
    run = _run(algorithm, text)
    trace = _trace(tmp_path, run, by)
    assert trace["displayTimeUnit"] == "ns"
    ends = []
    for (pid, _), events in _threads(trace).items():
        events.sort(key=lambda event: event["ts"])
        for event, following in itertools.pairwise(events):
            assert event["ts"] + event["dur"] <= following["ts"] + ROUNDING_US
        ends.append((pid, max(event["ts"] + event["dur"] for event in events)))
    assert dict(ends)[0] == pytest.approx(run.time_s * 1e6, rel=1e-12)
    assert max(end for _, end in ends) <= run.time_s * 1e6 + ROUNDING_US
    # The last byte arrives one latency after it was sent.
    assert max(end for pid, end in ends if pid) >= run.time_s * 1e6 - 14.0 - ROUNDING_US


@pytest.mark.parametrize("by", VIEWS)
def test_processes_and_threads_have_names(tmp_path: Path, by: str) -> None:
    trace = _trace(tmp_path, _run(), by)
    named: dict[str, dict[Any, str]] = {"process_name": {}, "thread_name": {}}
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] in named:
            key = event["pid"] if event["name"] == "process_name" else (event["pid"], event["tid"])
            assert key not in named[event["name"]]
            named[event["name"]][key] = event["args"]["name"]
    assert set(_threads(trace)) == set(named["thread_name"])
    assert {pid for pid, _ in named["thread_name"]} == set(named["process_name"])
    assert named["process_name"][0] == "program"
    names = set(named["process_name"].values())
    assert {"device": "node 1, gpu 15", "link": "node 1, gpu 15, out"}[by] in names
    if by == "link":
        assert "node 0, in" in names


def test_a_device_has_an_event_for_each_of_its_transfers(tmp_path: Path) -> None:
    run = _run()
    threads = _threads(_trace(tmp_path, run))
    events = [event for (pid, _), thread in threads.items() if pid for event in thread]
    assert len(events) == sum(step.transfers.n_transfers for step in run.steps)
    sent = sum(event["args"]["bytes"] for event in events if event["pid"] == 1)
    # A device sends 7/8 of the vector inside its node, twice, and of its eighth one half across, twice.
    assert sent == pytest.approx((2 * 7 / 8 + 1 / 8) * 1e8)


def test_transfers_that_share_a_link_are_in_threads_of_their_own(tmp_path: Path) -> None:
    run = _run(text="inside:AR across:AR")
    threads = _threads(_trace(tmp_path, run, "link"))
    nic = [run.links.link_name(link) for link in range(run.links.n_links)].index("node 0, out") + 1
    assert len([tid for pid, tid in threads if pid == nic]) == 16


def test_a_view_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="device"):
        write_trace(tmp_path / "trace.json", _run(), "devices")
