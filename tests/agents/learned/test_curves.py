"""Learning curves: what a resumed run keeps of them."""

from __future__ import annotations

from pathlib import Path

from sysgym.agents.learned.curves import begin_curve


def test_lines_after_the_state_and_torn_ones_are_deleted(tmp_path: Path) -> None:
    curve = tmp_path / "progress.csv"
    for before, after in (
        (None, "steps,loss\n"),
        ("", "steps,loss\n"),
        ("steps,loss\n1,0.5\n2,0.4\n12,0.3\n", "steps,loss\n1,0.5\n2,0.4\n"),
        ("steps,loss\r\n1,0.5\r\n1", "steps,loss\n1,0.5\n"),
    ):
        if before is not None:
            curve.write_bytes(before.encode())
        begin_curve(curve, ("steps", "loss"), 2)
        assert curve.read_bytes().decode() == after
