"""Settings of numba and matplotlib in the current folder are ignored."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest


class Planted:
    """A pickle that leaves a file behind where it is read."""

    def __init__(self, trace: str) -> None:
        self._trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self._trace,)


def run(folder: Path, code: str, **environment: str) -> str:
    """Run a program in a folder; what was set where the tests run does not count."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(
        command, cwd=folder, env={**own, **environment}, check=True, capture_output=True, text=True
    ).stdout


READ = "import numba.core.config as c; c.reload_config(); print(c.CACHE_DIR, c.GDB_BINARY, sep='|')"


SIMULATOR, STEPPER = (
    "sysgym.emulator.packets.engine.discipline",
    "sysgym.envs.congestion.stepping.network_stepper",
)


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (SIMULATOR, "cache_dir: c\ngdb_binary: c/gdb\n"),
        (STEPPER, "cache_dir: c\ngdb_binary: c/gdb\n"),
        (SIMULATOR, "cache_dir: ["),
        (SIMULATOR, "5"),
        (STEPPER, "\x00"),
    ],
)
def test_numbas_file_counts_for_nothing(tmp_path: Path, text: str, first: str) -> None:
    (tmp_path / ".numba_config.yaml").write_text(text)
    assert run(tmp_path, f"import {first}; {READ}", PATH="").strip() == "|gdb"


def test_numbas_environment_still_counts(tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: c\n")
    kept = str(tmp_path / "kept")
    assert run(tmp_path, f"import sysgym; {READ}", NUMBA_CACHE_DIR=kept).startswith(f"{kept}|")


def test_a_pickle_beside_a_strangers_files_is_not_read(tmp_path: Path) -> None:
    """As numba would find it: the index of a function, in the folder that the file of settings names."""
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: c\n")
    find = (
        "import sysgym.emulator.packets.engine.discipline as m; from numba.core.caching import FunctionCache;"
        "found = next(one for one in vars(m).values() if hasattr(one, 'py_func'));"
        "cache = FunctionCache(found.py_func); print(cache.cache_path, cache._impl.filename_base, sep='|');"
        "cache._cache_file._load_index()"
    )
    folder, base = run(tmp_path, find, NUMBA_CACHE_DIR=str(tmp_path / "c")).strip().split("|")
    trace = tmp_path / "was here"
    with open(Path(folder, f"{base}.nbi"), "wb") as file:
        pickle.dump(numba.__version__, file)
        pickle.dump(Planted(str(trace)), file)
    run(tmp_path, find)
    assert not trace.exists()
    with pytest.raises(subprocess.CalledProcessError):
        run(tmp_path, find, NUMBA_CACHE_DIR=str(tmp_path / "c"))
    assert trace.exists(), "so that this test sees something"


SETTINGS = """
import json, sys
from sysgym.cli import main
try:
    main(["--version"])
except SystemExit:
    pass
import matplotlib
default = matplotlib.rcParamsDefault
print(json.dumps([name for name in default if matplotlib.rcParams[name] != default[name]]))
"""


@pytest.mark.parametrize(
    ("where", "content"),
    [
        ("current folder", b"text.usetex: True\nfont.size: 77\n"),
        ("MATPLOTLIBRC", b"text.usetex: True\nfont.size: 77\n"),
        ("current folder", b"\xff\xfe"),
        ("MATPLOTLIBRC", b"backend: module://planted\n"),
    ],
)
def test_matplotlibs_file_counts_for_nothing_on_the_command_line(
    tmp_path: Path, content: bytes, where: str
) -> None:
    (tmp_path / "matplotlibrc").write_bytes(content)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if where == "current folder":
        out = run(tmp_path, SETTINGS)
    else:
        out = run(elsewhere, SETTINGS, MATPLOTLIBRC=str(tmp_path))
    assert json.loads(out.splitlines()[-1]) == []
