"""`import sysgym` is cheap and registers the environments once."""

from __future__ import annotations

import ast
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

import sysgym
from sysgym.registration import ENVIRONMENTS, register_environments
from sysgym.scenarios.families import families

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


def test_import_leaves_heavy_packages_unloaded_and_of_families_loads_declarations_only() -> None:
    loaded = set(json.loads(_run("import json, sys, sysgym; print(json.dumps(sorted(sys.modules)))")))
    assert "gymnasium" in loaded
    assert loaded.isdisjoint(HEAVY)
    assert {name for name in loaded if name.startswith("sysgym.")} == {
        "sysgym.envs",
        *(f"sysgym.envs.{family}" for family in families()),
        "sysgym.parallel_registration",
        "sysgym.registration",
        "sysgym.scenarios",
        "sysgym.scenarios.errors",
        "sysgym.scenarios.families",
        "sysgym.scenarios.family",
        "sysgym.stray_settings",
    }


def test_a_folder_of_the_packages_name_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "sysgym" / "docs").mkdir(parents=True)
    code = "import sysgym, sysgym.envs; print(sysgym.__version__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == sysgym.__version__, done.stderr


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


ROOT = Path(__file__).resolve().parent.parent
POSIX_ONLY = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")


def _imported_at_import(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what a module imports when it is imported; what functions import comes later, or never."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            yield from _imported_at_import(node.body)


def test_only_the_kernel_backend_imports_what_only_posix_has() -> None:
    """Windows has none of these modules."""
    folders = ("agents", "emulator", "envs", "scenarios", "src")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    needing = {
        path.relative_to(ROOT).as_posix()
        for path in sources
        if set(_imported_at_import(ast.parse(path.read_text()).body)) & set(POSIX_ONLY)
    }
    assert {path for path in needing if not path.startswith("emulator/linux/")} == set()
    assert needing, "the kernel backend does, so that this test sees something"


def test_an_episode_is_played_without_what_only_posix_has() -> None:
    code = f"""
import multiprocessing, subprocess, sys, tempfile, uuid
import gymnasium, numba, numpy
for name in {POSIX_ONLY}:
    sys.modules[name] = None
import sysgym
series = sysgym.record("dumbbell-10g", overrides={{"control.episode_steps": 2}})
print(len(series.flows) > 0)
"""
    assert _run(code) == "True\n"
