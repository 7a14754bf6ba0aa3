"""Counts on the command line."""

from __future__ import annotations

import pytest
import typer

from sysgym.cli.counts import count


@pytest.mark.parametrize(
    ("text", "number"),
    [("100000", 100_000), ("1e5", 100_000), ("1.5E3", 1500), ("2.0", 2), ("1_000", 1000), (7, 7)],
)
def test_a_whole_number_has_several_forms(text: str | int, number: int) -> None:
    assert count(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1.25e1", "many", "", "1e999", "nan"])
def test_what_is_no_count_is_told_the_forms(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="such as 100000 or 1e5"):
        count(text)
