"""Short trainings, and subprocesses in which packages are missing."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import sysgym
from sysgym.agents.learned import train

REGISTERED = sysgym.__version__

SCENARIO = "iroko-dumbbell-10m"
TINY = {
    "control.episode_steps": 8,
    "control.decision_interval_s": 0.01,
    "workload.start_jitter_s": 0.005,
}
SETTINGS: dict[str, dict[str, Any]] = {
    # 2 environments make rollouts of 32 steps.
    "ppo": {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "net_arch": (8,)},
    "a2c": {"n_steps": 16, "net_arch": (8,)},
    "sac": {"learning_starts": 16, "batch_size": 16, "buffer_size": 500, "net_arch": (8,)},
}

BLOCK = """
import sys

class Absent:
    names = {names!r}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""

Train = Callable[..., Path]
Script = Callable[..., str]


@pytest.fixture(scope="session")
def train_tiny() -> Train:
    """Trains on a world played in milliseconds; keywords replace arguments of train."""

    def run(out: Path, agent: str = "ppo", **arguments: Any) -> Path:
        settings: dict[str, Any] = {
            "scenario": SCENARIO,
            "total_steps": 96,
            "n_envs": 2,
            "overrides": TINY,
            "hyper_parameters": SETTINGS.get(agent, {}),
            "checkpoint_every": 32,
        }
        return train(agent, out=out, **(settings | arguments))

    return run


@pytest.fixture(scope="session")
def ppo_run(train_tiny: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run that ended at 96 steps; to be copied, not to be written to."""
    return train_tiny(tmp_path_factory.mktemp("ppo") / "run").parent


@pytest.fixture(scope="session")
def sac_run(train_tiny: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same off-policy."""
    return train_tiny(tmp_path_factory.mktemp("sac") / "run", "sac").parent


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Runs Python code in a process of its own, in which some packages are not installed; returns stdout."""

    def run(code: str, *arguments: str | Path, without: Sequence[str] = ()) -> str:
        process = subprocess.run(
            [sys.executable, "-c", BLOCK.format(names=set(without)) + textwrap.dedent(code), *arguments],
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python code in a process of its own, whose stdout can be read; it ends with the test."""
    started = []

    def run(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()
