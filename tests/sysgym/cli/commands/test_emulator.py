"""``sysgym emulator``: missing requirements, and its commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sysgym.cli import main
from sysgym.emulator.linux import requirements as of_machine
from sysgym.emulator.linux.requirements import requirements

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the Linux backend needs Linux")


def run(*words: str) -> int:
    """Runs a command; returns its exit code."""
    with pytest.raises(SystemExit) as left:
        main(["emulator", *words])
    return int(left.value.code or 0)


def test_requirements_are_rows_that_say_something() -> None:
    rows = requirements(try_programs=False)
    assert len({row.name for row in rows}) == len(rows) > 15
    for row in rows:
        assert row.needed_for
        assert row.remedy or row.present


def test_what_is_missing_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(of_machine, "BTF", tmp_path / "no-btf")
    monkeypatch.setattr(of_machine, "_HEADERS", tmp_path / "no-header")
    found = {row.name: row for row in requirements()}
    for name, remedy in {
        "mnexec": "apt-get install mininet",
        "clang": "apt-get install clang",
        "libbpf headers": "apt-get install libbpf-dev",
        "BTF": "CONFIG_DEBUG_INFO_BTF",
        "struct_ops for TCP": "CONFIG_BPF_JIT",
    }.items():
        assert found[name].present is False
        assert remedy in found[name].remedy
    assert "eBPF programs load" not in found  # what cannot be is not tried
    assert run("check") == 1
    out = capsys.readouterr().out
    assert "cannot run here: mnexec, clang, libbpf headers, BTF missing" in " ".join(out.split())


@pytest.mark.linux
def test_this_machine_passes_where_it_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    rows = requirements(try_programs=False)
    if os.geteuid() != 0 or not all(row.present for row in rows if row.essential):
        pytest.skip("this machine lacks something")
    assert run("check") == 0
    out = capsys.readouterr().out
    assert "The Linux backend can run here." in out
    assert "eBPF programs load" in out


def test_serving_wants_root_and_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("serve", "--tcp", "127.0.0.1:0", "--kind", "x:y") == 2
    assert "must be given together" in capsys.readouterr().err
    assert run("serve", "--user", "nobdoy", "--kind", "x:y") == 2
    assert 'did you mean "nobody"' in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run("serve") == 2
    assert "sudo sysgym emulator serve" in " ".join(capsys.readouterr().err.split())


def test_nothing_to_clean_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run("clean")
    assert capsys.readouterr().out
