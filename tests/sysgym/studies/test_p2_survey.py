"""The survey of P2's problem: counts, equivalent cases, and known figures of one system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sysgym.emulator.accelerators.flows.collective import program_time_s
from sysgym.emulator.accelerators.matrices import enumerate_matrices
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.emulator.accelerators.programs import parse_program
from sysgym.studies import p2_survey
from sysgym.studies.p2_survey import Case, Placed, Row, details, ranking, row_keys, study_case, summary

CROSSING = Placed("p2-a100", 4, (1,), ((4, 1), (1, 16)))
"""16 along one axis, all in a node."""
SPREAD = Placed("p2-a100", 2, (0,), ((2, 16), (1, 1)))
"""32 over both nodes, one group."""


def test_there_are_more_than_forty_rows_and_their_axes_fit() -> None:
    keys = list(row_keys())
    assert len(keys) == len(set(keys)) == 66
    for preset, nodes, axes, _ in keys:
        assert enumerate_matrices(get_preset(preset, nodes).cardinalities, axes)


def test_a_case_has_the_times_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p2_survey, "RANKED_SIZES_BYTES", (1e7, 1e9))
    # Figures of the row [2, 16] on 2 x 16 (see tests of the cost model): 62 pieces of 1/32 GB leave a NIC
    # without a pause, and the last one's hop takes 14 us.
    case = study_case(SPREAD)
    assert case.all_reduce_s == pytest.approx(62 / 32 / 8.4 + 14e-6, rel=1e-6)
    assert case.best_s == pytest.approx(127.14e-3, rel=1e-4)
    assert case.best == "inside:RS across:AR inside:AG"
    assert case.speedup == pytest.approx(230.669 / 127.144, abs=1e-4)
    # The model's first is the simulation's fastest; at a GB the two times are the same.
    assert case.ranks[-1] == 0
    assert case.errors[-1] == pytest.approx(1.0, abs=0.01)
    assert study_case(CROSSING).speedup == 1.0


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        # Two axes that are not reduced are one; so are two that are.
        (
            Placed("p2-a100", 2, (2,), ((2, 2), (1, 4), (1, 2))),
            Placed("p2-a100", 2, (1,), ((2, 8), (1, 2))),
            True,
        ),
        (
            Placed("p2-a100", 2, (0, 1), ((2, 2), (1, 4), (1, 2))),
            Placed("p2-a100", 2, (0,), ((2, 8), (1, 2))),
            True,
        ),
        # Order inside a node may matter: on a ring neighbours do.
        (
            Placed("p2-v100", 2, (0,), ((1, 2), (2, 4))),
            Placed("p2-v100", 2, (1,), ((2, 4), (1, 2))),
            False,
        ),
        (SPREAD, SPREAD._replace(nodes=4), False),
    ],
)
def test_what_lies_alike_is_worked_out_once(
    one: Placed, other: Placed, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(p2_survey, "RANKED_SIZES_BYTES", (1e7,))
    assert (one.geometry == other.geometry) is alike
    if alike:
        assert study_case(one) == study_case(other)


def test_what_lies_alike_takes_the_same_simulated_time() -> None:
    hierarchy, program = get_preset("p2-a100", 2), parse_program("inside:RS across:AR inside:AG", 2)
    times_s = [
        program_time_s(hierarchy, placed.matrix, Reduction(placed.reduced, 1e7), program)
        for placed in (
            Placed("p2-a100", 2, (0, 1), ((2, 2), (1, 4), (1, 2))),
            Placed("p2-a100", 2, (0,), ((2, 8), (1, 2))),
        )
    ]
    assert times_s[0] == pytest.approx(times_s[1])


def rows() -> list[Row]:
    case = [
        Case(1.0, 1.0, "all:AR", (0, 0, None), (1.0, 1.1, 1.0)),
        Case(448.0, 224.0, "all:RS all:AG", (2, 0, None), (0.9, 1.0, 1.0)),
        Case(3.0, 2.0, "all:RS all:AG", (12, 0, 0), (1.0, 1.0, 1.0)),
    ]
    return [
        Row("p2-a100", 4, (4, 16), (0,), (case[0], case[1])),
        Row("p2-a100", 4, (4, 16), (1,), (case[2],)),
    ]


def test_the_summary_counts() -> None:
    found = {row[0]: row[1] for row in summary(rows()).rows}
    assert found == {
        "rows (system, axes, reduced axes)": "2",
        "cases (row under one placement)": "3",
        "slowest over fastest placement, maximum": "448 x",
        "... median row": "224.5 x",
        "cases in which a program beats the all-reduce": "67 %",
        "... maximum speed-up": "2.00 x",
        "... mean speed-up in these cases": "1.75 x",
    }


def test_the_ranking_counts_only_cases_with_a_choice() -> None:
    cases = [case for row in rows() for case in row.cases]
    assert ranking(cases).rows == (
        ("0.1 MB", "3", "33 %", "67 %", "67 %", "0.900 to 1.000"),
        ("10 MB", "3", "100 %", "100 %", "100 %", "1.000 to 1.100"),
        ("1000 MB", "1", "100 %", "100 %", "100 %", "1.000 to 1.000"),
    )


def test_the_rows_are_listed() -> None:
    assert details(rows()).rows[0] == (
        "4 x p2-a100, 4 x 16, reduce 0", "2", "1000", "4.48e+05", "448.0", "1", "2.00", "all:RS all:AG",
    )  # fmt: skip


def test_a_survey_is_made_of_all_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(p2_survey, "AXES", {("p2-v100", 2): ((8, 2),)})
    monkeypatch.setattr(p2_survey, "RANKED_SIZES_BYTES", (1e9,))
    told: list[Any] = []
    pages = p2_survey.survey(tmp_path, 1, lambda done, of: told.append((done, of)))
    assert [page.title for page in pages] == ["P2's problem", "Ranking by the cost model", "Rows"]
    assert len(pages[-1].rows) == 2
    assert told[-1][0] == told[-1][1] == len(told)
