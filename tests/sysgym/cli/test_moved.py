"""Former names of commands are answered with the present ones."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from sysgym.cli.app import app
from sysgym.cli.moved import MOVED

Call = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("spelling", "now"),
    [
        ("distill final.zip --out students", "study distillation"),
        ("distill --help", "study distillation"),
        ("robustness final.zip", "study robustness"),
        ("--debug stress incast-32 -c dctcp", "study stress"),
        ("report --determinism --agent sac", "study determinism"),
        ("report iroko-dumbbell-10m --determinism", "study determinism"),
        ("bench stragglers --protocol=nurd-release", "study nurd-release"),
    ],
)
def test_an_earlier_spelling_names_the_present_one(
    spelling: str, now: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word for word in shlex.split(spelling) if word != "--debug"]
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert err.endswith(f" is now: sysgym {now}\n")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_present_spellings_exist() -> None:
    groups = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for now in MOVED.values():
        group, _, name = now.partition(" ")
        assert name in groups[group].commands
