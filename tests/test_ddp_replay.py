"""scripts/training/ddp_replay.py trains on two processes, replays the recording, and leaves no process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "training" / "ddp_replay.py"
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


def recorded(folder: Path) -> str:
    """Train four steps, keep their profiles in a folder, and return what the script prints."""
    command = [sys.executable, str(SCRIPT), *SMALL, "4", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def mean_error(printed: str, prediction: str) -> float:
    """Mean error of a prediction of all steps, percent."""
    error = re.search(rf"{prediction}, all steps: mean error ([\d.]+)%", printed)
    assert error is not None, printed
    return float(error[1])


@pytest.mark.slow
def test_what_was_recorded_is_replayed(tmp_path: Path) -> None:
    printed = recorded(tmp_path)
    found = re.search(r"^(\d+) steps of (\d+) operations, (\d+) collectives matched$", printed, re.MULTILINE)
    assert found is not None, printed
    assert 1 <= int(found[1]) <= 4
    assert int(found[3]) >= 3
    assert "no replay: mean of earlier steps" in printed or found[1] == "1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.json", "rank1.json"]
    assert mean_error(printed, "durations and gaps of the step") < 0.01
    # A process that had to wait for its processor between two operations makes one recording unlike its
    # replay; a graph that lacks dependencies, or has wrong ones, makes all of them so.
    errors = [mean_error(printed, "durations of the step")]
    while errors[-1] >= 10.0 and len(errors) < 5:
        errors.append(mean_error(recorded(tmp_path), "durations of the step"))
    assert errors[-1] < 10.0, errors


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
