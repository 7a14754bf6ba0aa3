"""``sysgym study networks``: a law of one's own among the classics, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sysgym.studies.random_networks.study import REFERENCES

Call = Callable[..., tuple[int, str, str]]
BASELINE = Path(__file__).resolve().parents[4] / "examples" / "contest_baseline.py"


def test_a_law_of_ones_own_plays_among_the_classics(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("--plugin", BASELINE, "-c", "mine=baseline", "--networks", "1", "--seed", "7", "--out", out)
    code, printed, error = call("study", "networks", *arguments)
    assert (code, error) == (0, "")
    assert "mine: its score is" in printed
    rows = [json.loads(line) for line in (out / "networks.jsonl").read_text().splitlines()]
    assert sorted(row["law"] for row in rows) == sorted([*REFERENCES, "mine"])
    assert (out / "networks.md").read_text().startswith("# Laws on networks drawn at random")
    assert (out / "networks.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-c", "dctcp"], "dctcp plays in any case"),
        (["-c", "fixed_fair"], "not a law of single flows"),
        (["-c", "swift,bta=0.4"], "bta"),
        (["-c", "mine=swift,beta=0.4", "--networks", "0"], "'--networks'"),
        ([], "--contender"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    arguments: list[str], words: str, call: Call, tmp_path: Path
) -> None:
    code, out, error = call("study", "networks", *arguments, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert words in error
    assert not (tmp_path / "out").exists()
