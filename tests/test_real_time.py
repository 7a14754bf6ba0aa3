"""Tests in real time: detection of whether the processor was available."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.real_time import MEASUREMENTS, Disturbed

ROOT = Path(__file__).resolve().parents[1]

WATCH = """
import sys
from tests.real_time import Metronome
with Metronome() as metronome:
    print("ready", flush=True)
    sys.stdin.readline()
print(metronome.away_s)
"""

FAILS = """
import os, signal, subprocess, sys, time, pytest

@pytest.mark.linux
@pytest.mark.parametrize("stops", [True, False])
def test_fails(stops):
    if stops:
        continues = f"import os, time; time.sleep(0.2); os.kill({os.getpid()}, 18)"
        subprocess.Popen([sys.executable, "-c", continues])
        os.kill(os.getpid(), signal.SIGSTOP)
    raise AssertionError("too slow")
"""

TAKES_TURNS = """
import pathlib, time, pytest

HERE = pathlib.Path(__file__).parent

def spent(name):
    begun = time.monotonic()
    time.sleep(0.05)
    (HERE / f"{name}.times").write_text(f"{begun} {time.monotonic()}")

@pytest.mark.linux
def test_measured():
    first = not (HERE / "measured.times").exists()
    spent("measured")
    assert not first, "slow beside others"

@pytest.mark.parametrize("number", range(40))
def test_other(number):
    spent(f"other{number}")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGSTOP")
def test_a_metronome_knows_how_long_a_process_stood_still() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WATCH], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGCONT)
    away_s = float(process.communicate("stop\n")[0])
    assert away_s > 0.25


def run_tests(folder: Path, source: str, *options: str) -> str:
    """Return what pytest prints of a file of tests in a folder of its own."""
    (folder / "test_it.py").write_text(source)
    (folder / "conftest.py").write_text("from tests import real_time\nreal_time.PAUSE_S = 0\n")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  linux: in real time\n")
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.real_time", "-p", "no:cacheprovider", *options, "."],
        env={**mine, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return found.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGSTOP")
def test_a_failure_is_measured_again_only_where_the_processor_was_away(tmp_path: Path) -> None:
    printed = run_tests(tmp_path, FAILS)
    assert f"2 failed, {MEASUREMENTS - 1} rerun" in printed
    assert Disturbed.__name__ in printed


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks")
def test_a_failure_beside_other_tests_is_measured_again_while_they_wait(tmp_path: Path) -> None:
    doors = {name: tmp_path / name for name in ("_DOOR", "_ROOM")}  # this session's tests hold the usual ones
    patch = "from tests import real_time\nfrom pathlib import Path\n"
    for name, file in doors.items():
        file.touch()
        patch += f"real_time.{name} = Path({str(file)!r})\n"
    printed = run_tests(tmp_path, patch + TAKES_TURNS, "-n", "2", "--dist", "loadgroup")
    assert "41 passed, 1 rerun" in printed, printed
    times = {file.stem: [float(at) for at in file.read_text().split()] for file in tmp_path.glob("*.times")}
    begun, ended = times.pop("measured")
    assert len(times) == 40
    assert all(end <= begun or ended <= start for start, end in times.values())
