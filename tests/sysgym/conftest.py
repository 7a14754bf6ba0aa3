"""A small fast world, suites of it, rows made by hand, and the command line as users start it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sysgym.bench.contenders import Contender
from sysgym.bench.plan import make_plan
from sysgym.bench.results.rows import Row
from sysgym.bench.results.versions import versions
from sysgym.bench.run.runner import run_plan
from sysgym.cli import main
from sysgym.scenarios import load_scenario, load_suite
from tests.commands import Commands

TINY = """\
schema = 1
name = "tiny"
family = "congestion"
env_id = "sysgym/DatacenterCC-v0"
title = "Tiny"
description = "Two long-lived flows over 10 Mb/s, a few decisions."

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
seeds = [200, 299]
"""

METRICS = """
[[metrics]]
name = "goodput_bps"
direction = "higher"
label = "Goodput"

[[metrics]]
name = "queue_delay_p99_s"
direction = "lower"
label = "Queueing delay, p99"
"""

AGENTS = '''\
"""Agents that take their time or fail, and leave a note of the process they play in."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from sysgym.agents import register_agent


class Half:
    def begin(self, env):
        self.space = env.action_space
        self.seed = env.unwrapped.np_random_seed
        with Path(__file__).with_name("pids").open("a") as file:
            file.write(f"{os.getpid()}\\\\n")

    def act(self, observation):
        return np.full(self.space.shape, 0.5, np.float32)


@register_agent("sleepy")
class Sleepy(Half):
    name = "sleepy"

    def begin(self, env):
        super().begin(env)
        time.sleep(0.3)


@register_agent("fragile")
class Fragile(Half):
    name = "fragile"

    def act(self, observation):
        if self.seed == 201:
            raise ArithmeticError("too much for me")
        return super().act(observation)


@register_agent("deadly")
class Deadly(Half):
    name = "deadly"

    def act(self, observation):
        if self.seed == 201:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(observation)
'''.replace("\\\\n", "\\n")

LAWS = """\
from sysgym.emulator.packets.transports import Transport, get_transport, register_transport

reno = get_transport("reno")


def on_ack(flow, event):
    while flow.cwnd > 0.0:
        flow.state[0] += 1.0


register_transport(Transport("endless", "", on_ack, reno.on_loss, reno.on_timeout))
"""

MakeRow = Callable[..., Row]
WriteSuite = Callable[..., Path]
CommandLine = Callable[..., subprocess.CompletedProcess[str]]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Write the scenario tiny."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def agents_file(tmp_path: Path) -> Path:
    """Write agents of a user's own; for other processes, as names stay registered."""
    path = tmp_path / "own_agents.py"
    path.write_text(AGENTS)
    return path


@pytest.fixture
def laws_file(tmp_path: Path) -> Path:
    """Write a law that never comes back from the first ACK."""
    path = tmp_path / "own_laws.py"
    path.write_text(LAWS)
    return path


def _write_suite(folder: Path, contenders: str, n_seeds: int, training: str = "") -> Path:
    task = (
        f'[[tasks]]\nscenario = "./tiny.toml"\ncontenders = [{contenders}]\n'
        f"seeds = {{ first = 200, count = {n_seeds} }}\n"
    )
    head = 'schema = 1\nname = "small"\ntitle = "Small"\ndescription = "A suite for tests."\n\n'
    path = folder / "small.toml"
    path.write_text(head + training + task + METRICS)
    return path


@pytest.fixture
def write_suite(tiny: Path) -> WriteSuite:
    """Write a suite of one task on the scenario tiny."""

    def write(contenders: str = '"dctcp", "reno"', n_seeds: int = 2, training: str = "") -> Path:
        return _write_suite(tiny.parent, contenders, n_seeds, training)

    return write


@pytest.fixture(scope="session")
def _played_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    (folder / "tiny.toml").write_text(TINY)
    suite, out = _write_suite(folder, '"dctcp", "reno"', 2), folder / "out"
    outcome = run_plan(make_plan(load_suite(suite), out), out, n_workers=1, command="sysgym bench small")
    assert outcome.complete
    return out


@pytest.fixture
def played(_played_once: Path, tmp_path: Path) -> Path:
    """Copy the results of dctcp and reno on the scenario tiny, two seeds each."""
    return shutil.copytree(_played_once, tmp_path / "played")


@pytest.fixture
def make_row(tiny: Path) -> MakeRow:
    """Make a row of the scenario tiny by hand."""
    scenario = load_scenario(tiny)

    def make(
        contender: str = "dctcp",
        seed: int = 200,
        metrics: Mapping[str, float] | None = None,
        *,
        name: str = "tiny",
        digest: str | None = None,
        row_versions: Mapping[str, str] | None = None,
        **of_contender: Any,
    ) -> Row:
        who: dict[str, Any] = {"transport": "dctcp", "agent": "max"} | of_contender
        return Row(
            env_id=scenario.env_id,
            scenario=name,
            scenario_sha256=digest or scenario.sha256(),
            scenario_resolved=scenario.resolved() | {"name": name},
            split="test",
            contender=Contender(contender, **who),
            seed=seed,
            metrics={"goodput_bps": 9.5e6, "queue_delay_p99_s": 2e-3} if metrics is None else metrics,
            total_reward=1.5,
            versions=versions() if row_versions is None else row_versions,
            wall_s=0.1,
            steps=12,
        )

    return make


def environment() -> dict[str, str]:
    """Return the environment of a command whose output is read: no colours, no terminal's width."""
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}


COMMAND = (sys.executable, "-c", "from sysgym.cli import main; main()")


@pytest.fixture
def command_line(tmp_path: Path, commands: Commands) -> CommandLine:
    """Run a command of sysgym in a process of its own, in the test's folder."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return commands.run([*map(str, arguments)], tmp_path)

    return run


def _hear_ctrl_c() -> None:
    """Listen to Ctrl-C, which a shell without job control has all that it starts in the background ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start_command(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a command of sysgym in a process group of its own; its output goes to stdout and stderr there."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str | Path) -> subprocess.Popen[bytes]:
        with (tmp_path / "stdout").open("wb") as out, (tmp_path / "stderr").open("wb") as err:
            process = subprocess.Popen(
                [*COMMAND, *map(str, arguments)],
                cwd=tmp_path,
                env=environment(),
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=_hear_ctrl_c,
            )
        started.append(process)
        return process

    yield start
    for process in started:  # what a failed test left would run for ever
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Call the command line in this process; returns exit code, output and errors."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return run
