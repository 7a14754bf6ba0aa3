"""Errors for missing requirements with their remedies; compiled objects are in a private folder."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from sysgym.emulator.linux.kernel import bpf_objects
from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.errors import BackendError, BackendUnavailable

pytestmark = pytest.mark.linux

HAS_COMPILER = shutil.which("clang") is not None and bpf_objects.KERNEL_TYPES.exists()
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="needs clang and the kernel's BTF")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sysgym" / "bpf"


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(bpf_objects, "KERNEL_TYPES", Path("/"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BackendUnavailable, match="clang, which") as raised:
        bpf_objects.compiled("port")
    assert raised.value.remedy == "apt-get install clang libbpf-dev"


def test_no_types(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(bpf_objects, "KERNEL_TYPES", Path("/nowhere/vmlinux"))
    with pytest.raises(BackendUnavailable, match="BTF") as raised:
        bpf_objects.compiled("port")
    assert "CONFIG_DEBUG_INFO_BTF" in raised.value.remedy


@needs_compiler
def test_a_source_is_compiled_once(cache: Path) -> None:
    first = bpf_objects.compiled("port")
    assert first.parent == cache
    written = first.stat().st_mtime_ns
    assert bpf_objects.compiled("port") == first
    assert first.stat().st_mtime_ns == written
    assert list(cache.iterdir()) == [first]
    assert first.read_bytes().startswith(b"\x7fELF")


@needs_compiler
def test_a_changed_source_is_compiled_anew(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = bpf_objects.compiled("port")
    sources = tmp_path / "bpf"
    shutil.copytree(bpf_objects.SOURCES, sources)
    monkeypatch.setattr(bpf_objects, "SOURCES", sources)
    assert bpf_objects.compiled("port") == first
    source = sources / "port.bpf.c"
    source.write_text(source.read_text() + "\n/* changed */\n")
    assert bpf_objects.compiled("port") != first
    source.write_text("int broken(\n")
    with pytest.raises(BackendError, match=r"clang cannot compile port\.bpf\.c\n.*error"):
        bpf_objects.compiled("port")


def test_a_cache_that_others_can_write_to_is_not_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bpf_objects.cache_folder() == cache
    (tmp_path / "sysgym").chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    if os.geteuid() == 0:
        assert bpf_objects.cache_folder() == Path("/var/cache/sysgym/bpf")
    else:
        with pytest.raises(BackendUnavailable, match="cache folder"):
            bpf_objects.cache_folder()


def test_programs_that_are_not_there() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: eBPF")
    with pytest.raises(BackendError, match="sgnothing_0000: has its service ended"):
        bpf_objects.find_map("sgnothing_0000")


def test_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BackendUnavailable, match="run as root"):
        Programs("0bad").load()
