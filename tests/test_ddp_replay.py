"""scripts/ddp_replay.py trains on two processes, replays what was recorded, and leaves no process behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "ddp_replay.py"
SMALL = ("--width", "8", "--batch", "4", "--steps")

pytest.importorskip("torch")


def processes_of(session: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if entry.name.isdigit() and int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


@pytest.mark.slow
def test_what_was_recorded_is_replayed(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), *SMALL, "4", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = re.search(
        r"^(\d+) steps of (\d+) operations, (\d+) collectives matched$", done.stdout, re.MULTILINE
    )
    assert found is not None, done.stdout
    assert 1 <= int(found[1]) <= 4
    assert int(found[3]) >= 3
    # The replay of a step with its own durations; not a prediction, which a busy machine would spoil.
    error = re.search(r"durations of the step, all steps: mean error ([\d.]+)%", done.stdout)
    assert error is not None
    assert float(error[1]) < 10.0
    assert "no replay: mean of earlier steps" in done.stdout or found[1] == "1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.json", "rank1.json"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_stopping_it_stops_its_processes(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), *SMALL, "1000000", "--out", str(tmp_path)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        deadline_s = time.monotonic() + 120.0
        while not (tmp_path / "store").exists():
            assert time.monotonic() < deadline_s
            assert started.poll() is None
            time.sleep(0.1)
        os.killpg(started.pid, signal.SIGINT)
        started.communicate(timeout=60.0)
        assert started.returncode == 1
        # The helper of multiprocessing that holds semaphores ends by itself, a little later.
        while left := processes_of(started.pid):
            assert time.monotonic() < deadline_s, left
            time.sleep(0.1)
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
            started.communicate()
