"""Print regret to the lower bound against seconds of synthesis, on systems of growing size.

python scripts/placement/collectives_at_scale.py
python scripts/placement/collectives_at_scale.py torus-8x16 --agent tacos:runs=1 --agent ring

Seconds are processor time of this machine with compiled code, without the bound. An agent that needs more
than ``--limit-s`` of it for a system is ended, and its cell says so.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import signal
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import sysgym
from sysgym.agents.registry import make_agent
from sysgym.bench.tables import markdown_table
from sysgym.emulator.collectives.bounds import lower_bound_s
from sysgym.emulator.collectives.checking import check_schedule
from sysgym.emulator.collectives.collective import Kind
from sysgym.emulator.collectives.draws import draw_collective, read_network
from sysgym.emulator.collectives.faults import with_faults
from sysgym.emulator.collectives.hops import hops_of
from sysgym.emulator.collectives.task import SynthesisTask
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.collectives import CollectiveTable, Faults, SystemLinks

SYSTEMS = ("torus-4x4", "torus-8x8", "torus-8x16", "rails-4x4", "rails-8x8", "rails-16x8")
AGENTS = ("ring", "tacos:runs=1", "tacos:runs=16", "restarts:runs=5", "annealing", "milp")
SLOW_SHARE = 0.1
"""Share of the cables that have a quarter of their bandwidth."""


def main() -> None:
    """Synthesise, check, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", default=SYSTEMS, help="named topologies")
    parser.add_argument("--agent", action="append", help="agent, or agent:runs=NUMBER; repeatable")
    parser.add_argument("--operation", default="all_gather", choices=[kind.value for kind in Kind])
    parser.add_argument("--size-bytes", type=float, default=64e6)
    parser.add_argument("--limit-s", type=int, default=120, help="limit of a cell, seconds of processor time")
    given = parser.parse_args()
    agents = given.agent or AGENTS
    warm = task_of("ring-4", given.operation, given.size_bytes)
    for agent in agents:
        synthesizer(agent).synthesize(warm)
    rows = []
    for system in given.systems:
        task = task_of(system, given.operation, given.size_bytes)
        began_s = time.process_time()
        bound_s = lower_bound_s(task)
        cells = [f"`{system}`", str(task.n_devices), f"{time.process_time() - began_s:.2f} s"]
        for agent in agents:
            cells.append(cell(agent, task, bound_s, given.limit_s))
        rows.append(cells)
        print(" ".join(cells), flush=True)
    told = f"{given.operation} of {given.size_bytes:g} bytes: regret and seconds"
    print(f"\nsysgym {sysgym.__version__}, {told}\n")
    print(markdown_table(["system", "devices", "bound", *agents], rows))


def cell(agent: str, task: SynthesisTask, bound_s: float, limit_s: int) -> str:
    """Return regret and seconds of an agent, in a process that is ended at the limit."""
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)
    worker = multiprocessing.get_context("fork").Process(
        target=synthesize, args=(agent, task, bound_s, limit_s, there)
    )
    worker.start()
    there.close()
    try:
        return str(here.recv())
    except EOFError:
        worker.join()
        if worker.exitcode != -signal.SIGXCPU:
            raise RuntimeError(f"{agent}: see the error above") from None
        return f"more than {limit_s} s"
    finally:
        worker.join()


def synthesize(agent: str, task: SynthesisTask, bound_s: float, limit_s: int, there: Connection) -> None:
    """Synthesise, check, and send regret and seconds as text; the system ends the process at the limit."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 1))
    began_s = time.process_time()
    try:
        schedule = synthesizer(agent).synthesize(task)
    except SysgymError as refusal:
        if agent != "milp":
            raise
        print(refusal)
        there.send("too large")
        return
    took_s = time.process_time() - began_s
    check_schedule(schedule)
    there.send(f"{math.log(schedule.time_s / bound_s):.3f} in {took_s:.2f} s")


def task_of(topology: str, operation: str, size_bytes: float) -> SynthesisTask:
    """Return a task on a system some of whose cables are slow."""
    sound = read_network(SystemLinks(topology=topology))
    faults = Faults(slow_cables=round(SLOW_SHARE * len(sound.cables)))
    rng = np.random.default_rng(0)
    hops = hops_of(with_faults(sound, faults, rng))
    table = CollectiveTable(operation=operation, size_bytes=size_bytes)  # type: ignore[arg-type]
    return SynthesisTask(hops, draw_collective(table, sound.n_devices, rng))


def synthesizer(name: str) -> Any:
    """Return an agent that makes whole schedules, such as ``tacos:runs=4``."""
    agent, _, runs = name.partition(":runs=")
    parameters: dict[str, Any] = {"runs": int(runs)} if runs else {}
    return make_agent(agent, family="collectives", **parameters)


if __name__ == "__main__":
    main()
