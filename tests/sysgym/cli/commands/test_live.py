"""`sysgym live`: which options go together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["-c", "dctcp"], "-c"),
        (["--seed", "0"], "--seed"),
        (["--set", "queue.classes=2"], "--set"),
        (["--record", "new.jsonl"], "--record"),
        (["--speed", "1"], "--speed"),
        (["--plugin", "law.py", "--trust"], "--plugin, --trust"),
    ],
)
def test_a_recording_takes_no_options_of_an_episode(
    options: list[str], named: str, call: Call, tmp_path: Path
) -> None:
    code, out, err = call("live", "--replay", tmp_path / "run.jsonl", *options)
    assert (code, out) == (2, "")
    assert f"--replay shows a recording as it is: omit {named}\n" in err
