"""`import sysgym` is cheap and registers the environments once."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import gymnasium
import pytest

import sysgym
from sysgym.registration import ENVIRONMENTS, register_environments

HEAVY = (
    "llvmlite",
    "matplotlib",
    "numba",
    "pydantic",
    "rich",
    "scipy",
    "stable_baselines3",
    "torch",
    "typer",
)


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_leaves_heavy_packages_and_lower_layers_unloaded() -> None:
    loaded = set(json.loads(_run("import json, sys, sysgym; print(json.dumps(sorted(sys.modules)))")))
    assert "gymnasium" in loaded
    assert loaded.isdisjoint(HEAVY)
    assert {name for name in loaded if name.startswith("sysgym.")} == {"sysgym.registration"}


def test_import_takes_under_half_a_second() -> None:
    # Processor time, best of five: the wall's clock also counts what other tests do meanwhile.
    code = "import time, sysgym; print(time.process_time())"
    assert min(float(_run(code)) for _ in range(5)) < 0.5


def test_environments_are_registered_under_their_ids() -> None:
    for env_id, entry_point in ENVIRONMENTS.items():
        spec = gymnasium.spec(env_id)
        assert spec.entry_point == entry_point
        assert spec.max_episode_steps is None


def test_registering_again_is_silent_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    before = dict(gymnasium.registry)
    with caplog.at_level(logging.WARNING):
        register_environments()
    assert gymnasium.registry == before
    assert not caplog.records


def test_errors_are_reached_from_the_package() -> None:
    assert issubclass(sysgym.errors.ScenarioError, sysgym.SysgymError)
    assert sysgym.errors.SysgymError is sysgym.SysgymError


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'erors'"):
        _ = sysgym.erors  # type: ignore[attr-defined]
