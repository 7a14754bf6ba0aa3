"""Commands with endless compiled code can be interrupted, and a benchmark stops such an episode."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sysgym.bench.report import write
from sysgym.bench.results.rows import read_rows
from sysgym.bench.run.runner import RUN
from sysgym.cli import interrupts

StartCommand = Callable[..., subprocess.Popen[bytes]]
CommandLine = Callable[..., subprocess.CompletedProcess[str]]
WriteSuite = Callable[..., Path]


def _wait_until(holds: Callable[[], bool], within_s: float = 150.0) -> None:
    end_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end_s, "it has not come"
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _wait_until_in_the_loop(law: Path) -> None:
    """The law is compiled, and what is left to do before its first ACK is over."""
    _wait_until(lambda: any(law.with_name("__pycache__").glob("own_laws.on_ack*.nbc")))
    time.sleep(2.0)


@pytest.mark.slow
def test_the_second_ctrl_c_ends_an_endless_law(
    tiny: Path, laws_file: Path, tmp_path: Path, start_command: StartCommand
) -> None:
    process = start_command("run", tiny, "--plugin", laws_file, "-c", "endless")
    _wait_until_in_the_loop(laws_file)
    process.send_signal(signal.SIGINT)
    _wait_until(lambda: b"a second Ctrl-C ends the process" in (tmp_path / "stderr").read_bytes())
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == interrupts.EXIT_CODE


@pytest.mark.slow
def test_a_benchmark_goes_on_without_the_episode_that_does_not_end(
    write_suite: WriteSuite, laws_file: Path, tmp_path: Path, command_line: CommandLine
) -> None:
    suite, out = write_suite('"dctcp"', n_seeds=1), tmp_path / "out"
    words = ("--out", out, "-j", "1", "--plugin", laws_file, "-c", "endless", "--timeout", "5")
    done = command_line("bench", suite, *words)
    assert done.returncode == 1, done.stderr
    assert "1 job failed (1 exceeded 5 s)" in done.stdout
    assert {(row.contender.name, row.seed) for row in read_rows(out)} == {("dctcp", 200)}
    failures = json.loads((out / RUN).read_bytes())["sittings"][-1]["failures"]
    assert failures == [
        {
            "job": "tiny / endless / test seed 200",
            "reason": "exceeded the time limit of 5 s; its process was ended",
        }
    ]
    assert "tiny / endless / test seed 200: exceeded the time limit of 5 s" in (
        write(out).markdown.read_text()
    )


@pytest.mark.slow
def test_ctrl_c_ends_workers_in_an_endless_law(
    write_suite: WriteSuite, laws_file: Path, tmp_path: Path, start_command: StartCommand
) -> None:
    suite = write_suite('"dctcp"', n_seeds=1)
    words = ("--out", tmp_path / "out", "-j", "1", "--plugin", laws_file, "-c", "endless")
    process = start_command("bench", suite, *words)
    _wait_until_in_the_loop(laws_file)
    workers = _children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=20) == interrupts.EXIT_CODE
    _wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_a_row_that_is_not_played_again_in_time_differs(played: Path, command_line: CommandLine) -> None:
    done = command_line("validate", played, "-j", "1", "--sample", "1", "--timeout", "0.001")
    assert done.returncode == 1
    assert "differs  tiny / " in done.stdout
    assert (
        "steps: recorded 12, replayed 'exceeded the time limit of 0.001 s; its process was ended'"
        in done.stderr
    )


def test_what_a_wrapper_passes_on_is_no_second_press(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with interrupts.second_interrupt_ends():
        for pause_s in (0.0, 0.0, interrupts.SAME_PRESS_S + 0.1):
            time.sleep(pause_s)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            time.sleep(0.02)
            assert ended == ([] if pause_s == 0.0 else [interrupts.EXIT_CODE])
    signal.signal(signal.SIGINT, before)
    assert signal.set_wakeup_fd(-1) == -1
