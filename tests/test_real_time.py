"""What tests in real time know of the processor: that it was away, and that it was there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.real_time import MEASUREMENTS, ProcessorWasAway

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


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGSTOP")
def test_only_failures_without_the_processor_are_measured_again(tmp_path: Path) -> None:
    (tmp_path / "test_fails.py").write_text(FAILS)
    (tmp_path / "conftest.py").write_text("from tests import real_time\nreal_time.PAUSE_S = 0\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  linux: in real time\n")
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.real_time", "-p", "no:cacheprovider", "."],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert f"2 failed, {MEASUREMENTS - 1} rerun" in found.stdout
    assert ProcessorWasAway.__name__ in found.stdout
