"""A valid scenario of each kind, for tests that break one key at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import ScenarioError

MINIMAL = """\
schema = 1
name = "mine"
family = "congestion"
env_id = "sysgym/DatacenterCC-v0"
title = "Mine"
description = "A scenario for tests."

[topology]
kind = "dumbbell"
hosts_per_side = 4
link_rate_bps = 10e9
link_delay_s = 10e-6

[queue]
buffer_bytes = 1_000_000
ecn_threshold_bytes = 97_500

[workload]
kind = "poisson"
load = 0.4
flow_sizes = "websearch"

[control]
decision_interval_s = 250e-6
episode_steps = 400

[splits.train]
seeds = [0, 9]
vary = { "workload.load" = [0.3, 0.4] }

[splits.validation]
seeds = [10, 19]

[splits.test]
seeds = [20, 29]
"""

WriteFile = Callable[..., Path]
WriteText = Callable[[str], Path]


@pytest.fixture
def minimal() -> str:
    """Text of a valid scenario named mine."""
    return MINIMAL


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Write the valid scenario, with texts replaced, and return its path."""

    def _write(*replacements: tuple[str, str], name: str = "mine.toml") -> Path:
        text = MINIMAL
        for old, new in replacements:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return _write


@pytest.fixture
def tables() -> dict[str, Any]:
    """Tables of the valid scenario."""
    import tomllib

    return copy.deepcopy(tomllib.loads(MINIMAL))


@pytest.fixture
def write_text(tmp_path: Path) -> WriteText:
    """Write a scenario named mine, given as text, and return its path."""

    def _write(text: str) -> Path:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return path

    return _write


@pytest.fixture
def refused(write_text: WriteText) -> Callable[..., None]:
    """Check what a scenario is told in which one text was replaced."""

    def _refused(text: str, old: str, new: str, key: str, got: Any, expected: str, advice: str = "") -> None:
        assert text.count(old) == 1
        path = write_text(text.replace(old, new))
        with pytest.raises(ScenarioError) as caught:
            load_scenario(path)
        found = [problem for problem in caught.value.problems if problem.key == key]
        assert found, str(caught.value)
        assert found[0].got == got
        assert expected in found[0].expected
        assert advice in found[0].advice
        assert str(path) in str(caught.value)

    return _refused
