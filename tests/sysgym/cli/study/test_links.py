"""``sysgym study links``: a law of one's own beside another, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]
BASELINE = Path(__file__).resolve().parents[4] / "examples" / "contest_baseline.py"


def test_a_law_of_ones_own_shares_links(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    own = ("--plugin", BASELINE, "-c", "mine=baseline")
    numbers = ("--beside", "reno", "--links", "1", "--crowds", "1", "--seed", "4")
    code, printed, error = call("study", "links", *own, *numbers, "--out", out)
    assert (code, error) == (0, "")
    assert "mine: a fair share on " in printed
    rows = [json.loads(line) for line in (out / "links.jsonl").read_text().splitlines()]
    assert {(row["law"], row["beside"]) for row in rows} == {("mine", None), ("mine", "reno")}
    assert (out / "links.md").read_text().startswith("# Laws on links drawn at random")
    assert (out / "links.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-c", "fixed_fair"], "not a law of single flows"),
        (["-c", "swift,bta=0.4"], "bta"),
        (["-c", "reno", "--links", "0", "--crowds", "0"], "expected --links or --crowds of 1 or more"),
        (["-c", "reno", "--set", "queue.bufer_bytes=1"], "bufer_bytes"),
        (["-c", "reno", "--beside", "nobody"], "nobody"),
        ([], "--contender"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    arguments: list[str], words: str, call: Call, tmp_path: Path
) -> None:
    code, out, error = call("study", "links", *arguments, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert words in error
    assert not (tmp_path / "out").exists()
