"""Pipes instead of files do not block."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sysgym.agents.learned.congestion.neural.agent import FORM
from sysgym.agents.learned.deploy.fuzz import replay
from sysgym.agents.learned.stragglers.transfer import Transfer
from sysgym.bench.contenders import file_sha256
from sysgym.bench.plugins import load_plugin
from sysgym.bench.report.data.carbon import costs
from sysgym.bench.report.data.curves import read_curves
from sysgym.bench.results import queues
from sysgym.bench.results.rows import Row
from sysgym.bench.surveys import read as read_survey
from sysgym.errors import SysgymError


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Make a pipe at whose other end nobody is."""
    path = tmp_path / "pipe.py"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("read", [file_sha256, load_plugin, FORM.read, replay, Transfer])
def test_a_pipe_is_refused(pipe: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(SysgymError, match=r"pipe\.py: "):
        read(pipe)


def test_a_survey_that_is_a_pipe_is_refused(pipe: Path) -> None:
    pipe.rename(pipe.with_name("survey.json"))
    with pytest.raises(SysgymError, match="cannot be read"):
        read_survey(pipe.parent)


def test_a_queue_that_is_a_pipe_or_a_huge_number_is_not_drawn(
    make_row: Callable[[], Row], tmp_path: Path
) -> None:
    row = make_row()
    path = queues.path_of(tmp_path, row)
    path.parent.mkdir()
    os.mkfifo(path)
    assert queues.read(tmp_path, row) is None
    path.unlink()
    path.write_text('{"time_s": [0, 1], "queue_bytes": [1, 1%s]}' % ("0" * 400))
    assert queues.read(tmp_path, row) is None


@pytest.mark.parametrize("name", ["started.json", "finished.json", "progress.csv"])
def test_a_training_of_pipes_is_left_out(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "training" / "a"
    folder.mkdir(parents=True)
    (folder / "started.json").write_text(json.dumps({"agent": "ppo", "total_steps": 10}))
    (folder / "finished.json").write_text("{}")
    (folder / "progress.csv").write_text("total_steps,episode_return_mean\n1,1\n2,2\n")
    assert (len(costs(tmp_path)), len(read_curves(tmp_path))) == (1, 1)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert len(costs(tmp_path)) + len(read_curves(tmp_path)) <= 1
