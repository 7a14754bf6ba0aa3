"""Compiled code is cached on disk, survives changes of files, and compilation is announced."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import inspect
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import pytest
from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator

import sysgym.emulator
import sysgym.envs
from sysgym.emulator import compiling, first_start
from sysgym.emulator.packets.counters.single_flows import read_flows
from sysgym.emulator.packets.engine.loop import EXTENDED, PLAIN
from sysgym.emulator.packets.topology.routing import distances
from sysgym.envs.congestion.stepping.flow_kernels import conclude

SOURCE = """
from numba import int64
from sysgym.emulator.compiling import c_function, cached_kernel

@cached_kernel()
def double(number):
    return 2 * number

def _triple(number):
    return 3 * number

def triple():
    return c_function(int64(int64), _triple)
"""


class Ears:
    """An announcer that remembers."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def begin(self, name: str) -> None:
        self.heard.append(name)

    def end(self) -> None:
        self.heard.append("end")


@pytest.fixture(autouse=True)
def ears(monkeypatch: pytest.MonkeyPatch) -> Ears:
    """A process that has told nothing yet."""
    monkeypatch.setattr(compiling, "_told", set())
    monkeypatch.setattr(first_start, "_depth", 0)
    heard = Ears()
    monkeypatch.setattr(first_start, "_announcer", heard)
    return heard


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of compiled functions, whose cache lies beside it."""
    monkeypatch.setattr(config, "CACHE_DIR", "")
    path = tmp_path / "numbers.py"
    path.write_text(SOURCE)
    return path


_counter = itertools.count()


def load(path: Path) -> ModuleType:
    """The module as a new process has it: nothing is compiled, everything may be in the cache."""
    name = f"sysgym.test_numbers_{next(_counter)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files(path: Path, ending: str) -> list[Path]:
    return sorted((path.parent / "__pycache__").glob(f"*.{ending}"))


def test_what_was_compiled_is_kept_and_only_compiling_is_announced(source: Path, ears: Ears) -> None:
    assert load(source).double(21) == 42
    assert ears.heard == ["double", "end"]
    again = load(source)
    assert again.double(21) == 42
    assert sum(again.double.stats.cache_hits.values()) == 1
    assert ears.heard == ["double", "end"]
    assert load(source).triple().ctypes(14) == 42
    assert load(source).triple().ctypes(14) == 42
    assert ears.heard == ["double", "end", "_triple", "end"]


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_file_is_removed_and_its_function_compiled_anew(
    source: Path, caplog: pytest.LogCaptureFixture, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (load(source).double(1), load(source).triple().ctypes(1)) == (2, 3)
    whole = {path: path.read_bytes() for path in files(source, ending)}
    assert len(whole) == 2
    size = max(map(len, whole.values()))
    for kept in (0, 1, 10, 30, size // 2, size - 1):
        for path, content in whole.items():
            path.write_bytes(content[:kept] if kept < len(content) else content[:-1])
        monkeypatch.setattr(compiling, "_told", set())
        caplog.clear()
        assert (load(source).double(1), load(source).triple().ctypes(1)) == (2, 3)
        (record,) = caplog.records
        assert record.message == (
            f"damaged files of compiled code in {source.parent / '__pycache__'}: "
            "they are removed and compiled anew"
        )
        caplog.clear()
        assert load(source).double(1) == 2
        assert not caplog.records


def test_zeros_are_no_index_either(source: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a machine that lost power leaves: the length is there, the bytes are not."""
    load(source).double(1)
    for path in (*files(source, "nbi"), *files(source, "nbc")):
        path.write_bytes(bytes(path.stat().st_size))
    assert load(source).double(1) == 2
    assert len(caplog.records) == 1


def test_where_no_folder_can_be_written_to(
    source: Path, ears: Ears, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for taken in ("__pycache__", "cache", "elsewhere"):  # files where numba would make folders
        (source.parent / taken).touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(source.parent / "cache"))
    monkeypatch.setattr(config, "CACHE_DIR", str(source.parent / "elsewhere"))
    assert (load(source).double(1), load(source).triple().ctypes(1)) == (2, 3)
    (record,) = caplog.records
    assert record.message.startswith("compiled code cannot be kept anywhere; every start compiles until")
    assert ears.heard == ["double", "end", "_triple", "end"]


def test_a_read_only_install_keeps_its_code_with_the_user(
    source: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source.parent / "__pycache__").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(source.parent / "cache"))
    load(source).double(1)
    again = load(source)
    assert again.double(1) == 2
    assert sum(again.double.stats.cache_hits.values()) == 1
    assert not caplog.records


def test_a_full_disk_stops_nobody(
    source: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(self: Any, path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(IndexDataCacheFile, "_open_for_write", is_full)
    assert load(source).double(1) == 2
    (record,) = caplog.records
    assert "cannot be kept in" in record.message
    assert "No space left on device" in record.message


def test_the_same_function_compiled_in_another_way_is_another_one(source: Path) -> None:
    """What divides by zero has two answers; the cache of one must not be taken for the other's."""

    def ratio(one: float, other: float) -> float:
        return one / other

    signature = numba.float64(numba.float64, numba.float64)
    infinite = compiling.compile_for(signature, ratio, error_model="numpy")
    assert infinite(1.0, 0.0) == float("inf")
    for _ in range(2):  # compiled, then from the cache
        with pytest.raises(ZeroDivisionError):
            compiling.compile_for(signature, ratio, error_model="python")(1.0, 0.0)


def test_processes_that_compile_at_the_same_time_keep_their_code_apart(tmp_path: Path) -> None:
    """Each has read the index before the other one wrote it; the files stay those of their keys."""
    files: Any = compiling._FilesByKey(str(tmp_path), "on_start", "stamp")  # type: ignore[no-untyped-call]
    files._load_index = dict
    for key in ("window of 45", "window of 30"):
        files.save((key,), f"code of {key}")
    del files._load_index
    assert files.load(("window of 45",)) is None  # lost, so that it is compiled again
    files.save(("window of 45",), "code of window of 45")
    for key in ("window of 45", "window of 30"):
        assert files.load((key,)) == f"code of {key}"


def test_a_digest_changes_with_a_file_of_a_folder_below(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (tmp_path / "__init__.py").touch()
    (room / "records.py").write_text("A = 1")
    seen = {compiling.source_digest(tmp_path)}
    (room / "records.py").write_text("A = 2")
    seen.add(compiling.source_digest(tmp_path))
    (room / "records.py").rename(room / "state.py")
    seen.add(compiling.source_digest(tmp_path))
    (room / "events.py").touch()
    seen.add(compiling.source_digest(tmp_path))
    assert len(seen) == 4


def test_a_kernel_is_compiled_again_when_a_package_that_it_uses_changes(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = source.parent / "sysgym_test_package" / "room"
    room.mkdir(parents=True)
    source.write_text("""
from sysgym.emulator.compiling import cached_kernel
from sysgym_test_package.room.constants import FACTOR

@cached_kernel("sysgym_test_package")
def scale(number):
    return FACTOR * number
""")
    monkeypatch.syspath_prepend(source.parent)
    for folder in (room.parent, room):
        (folder / "__init__.py").touch()
    monkeypatch.setattr(compiling, "_package_digest", compiling._package_digest.__wrapped__)
    for factor, hits in ((2, 0), (2, 1), (30, 0)):
        (room / "constants.py").write_text(f"FACTOR = {factor}")
        for name in [name for name in sys.modules if name.startswith("sysgym_test_package")]:
            monkeypatch.delitem(sys.modules, name)
        scale = load(source).scale
        assert scale(2) == 2 * factor
        assert sum(scale.stats.cache_hits.values()) == hits


@pytest.mark.parametrize(
    "kernel", [lambda: PLAIN.run_until, lambda: EXTENDED.cap_hosts, lambda: read_flows, lambda: conclude]
)
def test_the_simulators_kernels_depend_on_all_files_of_the_simulator(kernel: Callable[[], Any]) -> None:
    folder = Path(importlib.import_module("sysgym.emulator.packets").__path__[0])
    assert compiling.source_digest(folder) in kernel()._cache._variant


def test_one_line_says_so_where_nobody_else_does(caplog: pytest.LogCaptureFixture) -> None:
    announcer = first_start.OneLine()
    for _ in range(2):
        announcer.begin("run_until")
        announcer.end()
    assert [one.message for one in caplog.records] == [first_start.WORDS]


@pytest.mark.slow
def test_a_simulator_with_truncated_indexes_runs(tmp_path: Path) -> None:
    code = "import gymnasium, sysgym; gymnasium.make('sysgym/DatacenterCC-v0').reset(seed=1)"
    subprocess.run([sys.executable, "-c", code], check=True)  # so that everything is in the cache
    routes: Any = distances
    locator = type(FunctionCache(routes.py_func)._impl.locator)  # type: ignore[no-untyped-call]
    packages = [Path(package.__path__[0]) for package in (sysgym.emulator, sysgym.envs)]
    for folder in {path.parent for package in packages for path in package.rglob("*.py")}:
        kept = Path(locator(routes.py_func, str(folder / "any.py")).get_cache_path())
        if any(kept.glob("*.nbi")):
            subpath = UserProvidedCacheLocator.get_suitable_cache_subpath(str(folder / "any.py"))  # type: ignore[no-untyped-call]
            shutil.copytree(kept, tmp_path / subpath)
    source = inspect.getfile(routes.py_func)
    copy = tmp_path / UserProvidedCacheLocator.get_suitable_cache_subpath(source)  # type: ignore[no-untyped-call]
    damaged = list(copy.glob("routing.*.nbi"))
    assert damaged
    for path in damaged:
        os.truncate(path, path.stat().st_size // 2)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"damaged files of compiled code in {copy}: they are removed and compiled anew" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("damaged") == 1
