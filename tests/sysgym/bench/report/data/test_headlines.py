"""Headlines of the report, including differences that have no percentage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sysgym.bench.report import write
from sysgym.bench.report.data.headlines import MOST_TIED, relative
from sysgym.bench.results.rows import ResultsFile, Row

MakeRow = Callable[..., Row]
LEARNED = {"transport": "paced", "agent": "ppo", "learned": True, "checkpoint_sha256": "ab"}


def _report(folder: Path, rows: list[Row]) -> tuple[list[str], str]:
    """Sentences of the only headline, and the Markdown."""
    with ResultsFile(folder) as results:
        for row in rows:
            results.append(row)
    written = write(folder)
    (headline,) = written.headlines
    return list(headline.sentences), written.markdown.read_text()


def _rows(make_row: MakeRow, values: Mapping[str, float], first_seeds: Mapping[str, int]) -> list[Row]:
    return [
        make_row(
            name,
            first_seeds.get(name, 200) + index,
            {"goodput_bps": value + 0.001 * index},
            **(LEARNED if name == "ppo" else {}),
        )
        for name, value in values.items()
        for index in range(6)
    ]


@pytest.mark.parametrize(
    ("difference", "base", "words"),
    [
        (-12.0, 100.0, "12 % lower"),
        (3.0, 4.0, "75 % higher"),
        (20.0, 10.0, "3.0 times as much"),
        (-20.0, 10.0, "lower"),
        (5.0, 0.0, ""),
        (5.0, -2.0, ""),
    ],
)
def test_a_difference_as_a_share(difference: float, base: float, words: str) -> None:
    assert relative(difference, base) == words


def test_a_lead_by_a_multiple_is_a_sentence(make_row: MakeRow, tmp_path: Path) -> None:
    (sentence,), _ = _report(tmp_path, _rows(make_row, {"dctcp": 9e6, "reno": 3e6}, {}))
    assert "dctcp leads with 9.00" in sentence
    assert sentence.endswith("3.0 times as much as the next, reno.")


def test_a_lead_by_a_share_is_a_sentence(make_row: MakeRow, tmp_path: Path) -> None:
    (sentence,), _ = _report(tmp_path, _rows(make_row, {"dctcp": 9e6, "reno": 7.5e6}, {}))
    assert sentence.endswith("20 % higher than the next, reno.")


def test_of_many_that_are_tied_a_sentence_names_the_first(make_row: MakeRow, tmp_path: Path) -> None:
    names = [f"c{rank}" for rank in range(8)]
    # All have the same values, in episodes of another order.
    rows = [
        make_row(name, 200 + index, {"goodput_bps": 9e6 + 1e5 * ((index + rank) % 8)})
        for rank, name in enumerate(names)
        for index in range(8)
    ]
    (sentence,), _ = _report(tmp_path, rows)
    assert sentence.count("(9.35 Mb/s)") == MOST_TIED - 1
    assert sentence.endswith(f" and {len(names) - MOST_TIED} others.")


def test_without_common_episodes_nothing_is_compared(make_row: MakeRow, tmp_path: Path) -> None:
    rows = _rows(make_row, {"dctcp": 9e6, "ppo": 5e6}, {"ppo": 220})
    sentences, _ = _report(tmp_path, rows)
    assert sentences[-1] == "ppo against dctcp: no common episodes to compare."


@pytest.mark.parametrize(("ours", "words"), [(-7.0, "5.00 b/s less"), (3.0, "5.00 b/s more")])
def test_a_base_of_less_than_nothing_has_no_shares(
    make_row: MakeRow, tmp_path: Path, ours: float, words: str
) -> None:
    sentences, markdown = _report(tmp_path, _rows(make_row, {"dctcp": -2.0, "ppo": ours}, {}))
    assert words in markdown
    assert "%" not in sentences[-1]
    assert "and not -2.00 b/s" in sentences[-1]
