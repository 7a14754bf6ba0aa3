"""Every solution passes its grader, and every unchanged starter fails it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysgym.labs.catalogue import LABS, Lab, get_lab
from sysgym.labs.export import masters, solution
from sysgym.labs.grades import PASS_SHARE, VISIBLE, PartGrade, Seeds
from sysgym.labs.grading import grade_parts
from sysgym.labs.thresholds import threshold

EVERY = pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.file_stem)


def graded(lab: Lab, text: str, folder: Path, *, salt: str = VISIBLE) -> list[PartGrade]:
    """Return the grades of the parts of a submission, with less to play."""
    file = folder / f"lab{lab.number}.py"
    file.write_text(text)
    return [grade for grade, _ in grade_parts(file, lab.parts(), Seeds(salt, quick=True))]


def share(parts: list[PartGrade]) -> float:
    return sum(part.earned for part in parts) / sum(part.points for part in parts)


@EVERY
def test_the_points_are_a_hundred(lab: Lab) -> None:
    assert sum(part.points for part in lab.parts()) == 100


@pytest.mark.slow
@EVERY
def test_the_solution_passes_and_the_starter_fails(lab: Lab, tmp_path: Path) -> None:
    policy = masters() / f"{lab.file_stem}.zip"
    starter = graded(lab, lab.starter(), tmp_path)
    if policy.is_file():
        (tmp_path / "policy.zip").write_bytes(policy.read_bytes())
    best = graded(lab, solution(lab), tmp_path)
    assert share(best) == 1.0, [part.message for part in best if part.earned < part.points]
    assert share(starter) < PASS_SHARE / 2
    for part in starter:
        assert part.message
        assert part.earned == part.points or part.hint
    for part in best:
        for name in part.measured:
            assert threshold(name).n > 5, f"run scripts/labs/thresholds.py {lab.number}"


@pytest.mark.parametrize(
    ("number", "answer", "words"),
    [
        (1, "return 'fast'", "expected a finite number, found 'fast'"),
        (1, "return float('nan')", "expected a finite number"),
        (1, "return True", "expected a finite number"),
        (1, "pass", "None \\(a return is missing"),
        (1, "return 10 ** 400", "expected a finite number"),
        (1, "return rtt_s", "expected .* found"),
        (1, "return rate_bps / 0", "ZeroDivisionError"),
        (1, "print('x' * 10**6)", "printed more than"),
        (1, "import os; os._exit(0)", "stopped: the submission ended its process"),
    ],
)
def test_a_wrong_answer_is_named(number: int, answer: str, words: str, tmp_path: Path) -> None:
    part = get_lab(number).parts()[0]
    file = tmp_path / "lab.py"
    file.write_text(f"def bdp_bytes(rate_bps, rtt_s):\n    {answer}\n")
    ((grade, _),) = grade_parts(file, [part], Seeds(VISIBLE))
    assert grade.earned == 0.0
    assert grade.hint
    import re

    assert re.search(words, grade.message), grade.message


def test_a_leak_of_the_future_is_named(tmp_path: Path) -> None:
    lab = get_lab(7)
    (leak, *_) = graded(lab, lab.starter(), tmp_path, salt="another")
    assert "a leak: only windows" in leak.message


def test_a_forged_policy_is_refused_without_running_it(tmp_path: Path) -> None:
    (tmp_path / "policy.zip").write_bytes(b"PK\x03\x04 no policy")
    file = tmp_path / "lab5.py"
    file.write_text("")
    part = next(part for part in get_lab(5).parts() if part.name == "policy")
    ((grade, _),) = grade_parts(file, [part], Seeds(VISIBLE, quick=True))
    assert grade.earned == 0.0
    assert "policy.zip" in grade.message


def test_other_salts_are_other_seeds() -> None:
    one, other = Seeds("one"), Seeds("other")
    assert one.episodes("part", 5) == Seeds("one").episodes("part", 5)
    assert one.episodes("part", 5) != other.episodes("part", 5)
    assert one.episodes("part", 5) != one.episodes("other part", 5)
