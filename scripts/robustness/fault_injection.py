"""Fault injection: disk errors and kills at every point of a benchmark must lose or damage no result.

Usage: fault_injection.py [--every BYTES] [--kills N]

Three kinds of cases, each in its own folder:

- cut: the write of a row ends after any number of bytes; then the disk is full, or the process is killed, or
  the rest is written.
- step: any system call of a run that adds rows, moves some to another file and back fails with EIO, or the
  process is killed before or after it.
- kill: `sysgym bench` gets SIGKILL while rows are being written, and is started again.

After each case the results are opened again: they must have every acknowledged row, and at most the row being
written in addition, each once and complete; and the resumed run must end with all rows.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from sysgym.bench.contenders import Contender
from sysgym.bench.results.rows import ASIDE, RESULTS, ResultsFile, Row, read_rows
from sysgym.bench.results.versions import versions
from sysgym.errors import StorageError
from sysgym.scenarios import load_scenario

CALLS = ("write", "fsync", "ftruncate", "replace", "unlink")
"""System calls that change what is on the disk; where one fails or ends, a process can stop."""

SCENARIO = """\
schema = 1
name = "brief"
family = "congestion"
env_id = "sysgym/DatacenterCC-v0"
title = "Brief"
description = "Two flows over 10 Mb/s, a few decisions: an episode takes milliseconds."

[topology]
kind = "dumbbell"
hosts_per_side = 2
link_rate_bps = 10e6
link_delay_s = 1e-3

[queue]
buffer_bytes = 30_000
ecn_threshold_bytes = 10_000

[workload]
kind = "long_lived"
pairs = "one_to_one"
start_jitter_s = 0.01

[control]
decision_interval_s = 20e-3
episode_steps = 12

[splits.train]
seeds = [0, 99]

[splits.validation]
seeds = [100, 199]

[splits.test]
seeds = [200, 9999]
"""

SUITE = """\
schema = 1
name = "brief-suite"
title = "Brief"
description = "Many short episodes."

[[tasks]]
scenario = "./brief.toml"
contenders = ["dctcp", "reno"]
seeds = { first = 200, count = COUNT }

[[metrics]]
name = "goodput_bps"
direction = "higher"
label = "Goodput"
"""


class Killed(BaseException):
    """The process is gone: nothing of it runs on, not even what would tidy up."""


class Fault(NamedTuple):
    """What goes wrong at one system call.

    Attributes:
        call: Number of the call, from 0.
        how: ``full`` or ``error``, that the call fails; ``kill``, that the process ends; ``short``, that a
            write takes a part and the next the rest.
        n_bytes: How much of a write is done before; None: all that the call does.
    """

    call: int
    how: str
    n_bytes: int | None = 0


class Disk:
    """Counts the system calls that change the disk, and lets one go wrong; use as a context.

    Attributes:
        n_calls: How many there were.
    """

    def __init__(self, fault: Fault | None = None) -> None:
        self.n_calls = 0
        self._fault, self._full, self._dead = fault, False, False
        self._true = {name: getattr(os, name) for name in CALLS}

    def __enter__(self) -> Self:
        for name in CALLS:
            setattr(os, name, self._instead(name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, function in self._true.items():
            setattr(os, name, function)

    def _instead(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self._dead:
                raise Killed
            if self._full and name == "write":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            number, self.n_calls = self.n_calls, self.n_calls + 1
            if self._fault is None or number != self._fault.call:
                return self._true[name](*arguments, **options)
            return self._fail(name, self._fault, arguments, options)

        return call

    def _fail(self, name: str, fault: Fault, arguments: Any, options: Any) -> Any:
        done = None
        if fault.n_bytes is None:
            done = self._true[name](*arguments, **options)
        elif name == "write" and fault.n_bytes:
            done = self._true[name](arguments[0], arguments[1][: fault.n_bytes])
        if fault.how == "kill":
            self._dead = True
            raise Killed
        if fault.how == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._full = fault.how == "full"
        if not done:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return done


def some_rows(count: int) -> list[Row]:
    """Return rows of one contender that differ in seed and metric."""
    scenario = load_scenario("iroko-dumbbell-10m")
    row = Row(
        env_id=scenario.env_id,
        scenario=scenario.name,
        scenario_sha256=scenario.sha256(),
        scenario_resolved=scenario.resolved(),
        split="test",
        contender=Contender("dctcp", "dctcp", "max"),
        seed=0,
        metrics={},
        total_reward=1.5,
        versions=versions(),
        wall_s=0.1,
        steps=12,
    )
    return [replace(row, seed=20_000 + one, metrics={"goodput_bps": 1e6 * one}) for one in range(count)]


class Run:
    """A run of a few rows that the benchmark's own file keeps, and what it was told is kept.

    Args:
        folder: Empty.
        rows: What to add: the first half before some move aside, the rest after.
        moves: Whether any move at all.
    """

    def __init__(self, folder: Path, rows: Sequence[Row], moves: bool) -> None:
        self.folder, self.rows, self.moves = folder, rows, moves
        self.acknowledged: list[Row] = []
        self.in_flight: Row | None = None

    def go(self) -> None:
        """Add all rows."""
        half = len(self.rows) // 2
        with ResultsFile(self.folder) as results:
            self._append(results, self.rows[:half])
            if self.moves:
                results.keep_only([row.key for row in self.rows[1:]])
            self._append(results, self.rows[half:])
            if self.moves:
                results.keep_only([row.key for row in self.rows])

    def _append(self, results: ResultsFile, rows: Sequence[Row]) -> None:
        for row in rows:
            self.in_flight = row
            results.append(row)
            self.acknowledged.append(row)
            self.in_flight = None

    def check(self) -> None:
        """Open the results again, go on, and raise AssertionError where they are not what they have to be."""
        with ResultsFile(self.folder) as results:
            here = list(results.rows)
            aside = _lines(self.folder / ASIDE)
            for place, found in (("results", here), ("aside", aside)):
                assert len({row.key for row in found}) == len(found), f"a row is doubled in {place}"
            known = [*self.acknowledged, *([self.in_flight] if self.in_flight is not None else [])]
            strange = [row for row in [*here, *aside] if row not in known]
            assert not strange, f"rows that nobody added: {strange}"
            lost = [row for row in self.acknowledged if row not in here and row not in aside]
            assert not lost, f"lost: {[row.label for row in lost]}"
            results.keep_only([row.key for row in self.rows])
            for row in self.rows:
                if row not in results.rows:
                    results.append(row)
        found = read_rows(self.folder)
        assert len(found) == len(self.rows), "doubled or lost after going on"
        assert all(row in found for row in self.rows), "changed"


def _lines(path: Path) -> list[Row]:
    return [Row.from_line(line) for line in path.read_bytes().splitlines()] if path.is_file() else []


def play(folder: Path, rows: Sequence[Row], moves: bool, fault: Fault) -> None:
    """Play one case.

    Args:
        folder: Empty.
        rows: As for :class:`Run`.
        moves: As there.
        fault: What goes wrong.

    Raises:
        AssertionError: A row is lost, doubled or torn.
    """
    run = Run(folder, rows, moves)
    try:
        with Disk(fault):
            run.go()
    except (StorageError, Killed):
        pass
    else:
        assert fault.how == "short", f"nothing was noticed of {fault}"
    run.check()


def cut_faults(rows: Sequence[Row], every: int) -> Iterator[Fault]:
    """Yield faults in which the write of each row ends after so many bytes.

    Args:
        rows: As for :class:`Run`, none of which moves.
        every: Step from one number of bytes to the next; 1: each.
    """
    # The folder is flushed first; then each row is a write and a flush.
    for number, row in enumerate(rows):
        length = len(row.to_line())
        for n_bytes in sorted({*range(0, length, every), 1, length - 1}):
            for how in ("full", "kill", "short") if n_bytes else ("full", "kill"):
                yield Fault(1 + 2 * number, how, n_bytes)


def step_faults(folder: Path, rows: Sequence[Row]) -> Iterator[Fault]:
    """Yield faults at each system call of a run.

    Args:
        folder: Empty; for a run without faults, which is counted.
        rows: As for :class:`Run`, some of which move.
    """
    with Disk() as disk:
        Run(folder, rows, moves=True).go()
    for number in range(disk.n_calls):
        yield Fault(number, "error")
        yield Fault(number, "kill")
        yield Fault(number, "kill", None)


@dataclass
class Tally:
    """How many cases there were, and how they ended."""

    kind: str
    tried: int = 0
    failed: int = 0

    def note(self, case: object, work: Callable[[], None]) -> None:
        """Carry a case out and count it; a failure is printed."""
        self.tried += 1
        try:
            work()
        except Exception as error:
            self.failed += 1
            print(f"FAILED {self.kind} {case}: {error}", flush=True)

    def __str__(self) -> str:
        """Return the line that is printed."""
        return f"{self.kind}: tried {self.tried}, passed {self.tried - self.failed}, failed {self.failed}"


def kill_bench(folder: Path, n_kills: int, count: int, seed: int = 0) -> int:
    """Kill ``sysgym bench`` again and again while rows are in flight, and let it finish then.

    Args:
        folder: Empty.
        n_kills: How often, at most.
        count: Seeds of each of two contenders.
        seed: Of the moments.

    Returns:
        How often it was killed.

    Raises:
        AssertionError: A row is lost, doubled, changed or torn.
    """
    rng, out = random.Random(seed), folder / "out"
    (folder / "brief.toml").write_text(SCENARIO)
    suite = folder / "brief-suite.toml"
    suite.write_text(SUITE.replace("COUNT", str(count)))
    command = [sys.executable, "-c", "from sysgym.cli import main; main()", "bench", str(suite)]
    command += ["--jobs", "2", "--out", str(out)]
    kept: list[Row] = []
    killed = 0
    while killed < n_kills and len(kept) < 2 * count:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while _n_lines(out) <= len(kept) and process.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.03))
        process.kill()
        process.wait()
        killed += 1
        rows = read_rows(out)
        assert rows[: len(kept)] == kept, "a row that was there is gone or another"
        kept = rows
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_rows(out)
    assert rows[: len(kept)] == kept, "a row that was there is gone or another"
    cells = {(row.contender.name, row.seed) for row in rows}
    assert len(rows) == len(cells) == 2 * count, "a row is lost or doubled"
    return killed


def _n_lines(out: Path) -> int:
    path = out / RESULTS
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def main() -> None:
    """Play all cases; exit code 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1, help="bytes from one cut to the next")
    parser.add_argument("--kills", type=int, default=20, help="of the benchmark's process")
    given = parser.parse_args()
    tallies = [Tally("cut"), Tally("step"), Tally("kill")]
    cut, step, kill = tallies
    with tempfile.TemporaryDirectory() as name:
        folders = (Path(name) / str(number) for number in range(10**9))
        rows = some_rows(3)
        for fault in cut_faults(rows, given.every):
            cut.note(fault, lambda fault=fault: play(next(folders), rows, False, fault))  # type: ignore[misc]
        print(cut, flush=True)
        rows = some_rows(4)
        for fault in step_faults(next(folders), rows):
            step.note(fault, lambda fault=fault: play(next(folders), rows, True, fault))  # type: ignore[misc]
        print(step, flush=True)

        def killing() -> None:
            folder = next(folders)
            folder.mkdir()
            kill.tried += kill_bench(folder, given.kills, 40 * given.kills) - 1

        if given.kills:
            kill.note("bench", killing)
            print(kill)
    sys.exit(any(tally.failed for tally in tallies))


if __name__ == "__main__":
    main()
