"""Every solution passes its grader, and every unchanged starter fails it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysgym.labs.catalogue import LABS, Lab, get_lab
from sysgym.labs.export import masters, solution
from sysgym.labs.graders.control_law import score, share_of_points
from sysgym.labs.grades import PASS_SHARE, VISIBLE, PartGrade, Seeds
from sysgym.labs.grading import grade_parts
from sysgym.labs.incast import Incast, play_rounds
from sysgym.labs.links import Link, Played
from sysgym.labs.thresholds import threshold
from sysgym.labs.trainings import RECIPES, returns

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


def earned(number: int, part: str, text: str, folder: Path, salt: str = VISIBLE) -> tuple[float, str]:
    """Return the share of a part's points that a submission gets, and the message."""
    file = folder / f"lab{number}.py"
    file.write_text(text)
    (chosen,) = (one for one in get_lab(number).parts() if one.name == part)
    ((grade, _),) = grade_parts(file, [chosen], Seeds(salt))
    return grade.earned / grade.points, grade.message


@pytest.mark.parametrize("salt", [VISIBLE, "one", "two"])
@pytest.mark.parametrize(
    ("number", "part", "function", "most"),
    [
        (1, "buffer", "choose_buffer_bytes(bdp, flows): return 1500", 0.0),
        (1, "buffer", "choose_buffer_bytes(bdp, flows): return 0.6 * bdp", 0.0),
        (1, "buffer", "choose_buffer_bytes(bdp, flows): return bdp", 0.5),
        (2, "choice of K", "choose_k_bytes(rate, rtt, flows): return rate * rtt / 8 / 7", 0.5),
        (2, "choice of K", "choose_k_bytes(rate, rtt, flows): return rate * rtt / 8 / 5", 0.5),
        (2, "choice of K", "choose_k_bytes(rate, rtt, flows): return rate * rtt / 8 / 4", 0.5),
        (
            2,
            "choice of K",
            "choose_k_bytes(rate, rtt, flows): return rate * rtt / 8 / (4 if flows == 16 else 7)",
            0.5,
        ),
        *((4, "first window", f"first_window_packets(servers, room): return {n}", 0.5) for n in range(1, 8)),
    ],
)
def test_what_ignores_an_argument_has_half_of_the_points_at_most(
    number: int, part: str, function: str, most: float, salt: str, tmp_path: Path
) -> None:
    share, message = earned(number, part, f"def {function}\n", tmp_path, salt)
    assert share <= most, message


def test_the_largest_window_is_asked_for(tmp_path: Path) -> None:
    share, message = earned(
        4, "first window", "def first_window_packets(servers, room): return 1\n", tmp_path
    )
    assert share == 0.5
    assert "is small: windows of 3 fit too" in message


def test_a_law_that_leaves_a_tenth_of_the_link_idle_has_no_points_for_its_use() -> None:
    link = Link(1e8, 0.01, 5e5, 3e4)

    def played(used: float, delay: float) -> Played:
        return Played(used, 0.0, 0.0, delay * link.rtt_s, 0.0, 0.0, 0.0, 1.0)

    assert score(played(0.90, 0.1), link) == pytest.approx(20.0 + 27.0)
    assert score(played(0.98, 0.3), link) == pytest.approx(50.0 + 20.0 + 21.0)
    assert score(played(0.90, 0.0), link) < score(played(1.0, 0.3), link) - 35.0


def test_points_grow_from_the_score_of_reno_to_the_limit() -> None:
    assert share_of_points(60.0, 70.0, 90.0) == 0.0
    assert share_of_points(85.0, 70.0, 90.0) == pytest.approx(0.75)
    assert share_of_points(95.0, 70.0, 90.0) == 1.0
    assert share_of_points(95.0, 70.0, float("nan")) == 0.0


@pytest.mark.slow
def test_flagging_everybody_is_no_gain_over_the_clock(tmp_path: Path) -> None:
    share, message = earned(7, "beat the clock", "def flag(known):\n    return known['running']\n", tmp_path)
    assert share < 0.5, message
    assert "gain" in message


def test_a_law_that_is_not_compiled_gets_no_advice_on_marks(tmp_path: Path) -> None:
    file = tmp_path / "lab3.py"
    rest = "def on_loss(flow, event):\n    pass\ndef on_timeout(flow, event):\n    pass\n"
    file.write_text(
        f"def on_ack(flow, event):\n    if event.marked:\n        x = 1.0\n    flow.cwnd += x\n{rest}"
    )
    ((grade, _),) = grade_parts(file, get_lab(3).parts()[:1], Seeds(VISIBLE))
    assert grade.message.startswith("line 4: x may have no value here")
    assert grade.hint == ""


def test_recorded_trainings_have_both_recipes_in_the_same_order() -> None:
    for recipe in RECIPES:
        assert len(returns(recipe, 10)) == len(returns(recipe, 6)) == 10
    assert returns("home", 6).mean() < 0.0 < 150.0 < returns("varied", 6).mean()
    assert abs(returns("home", 10).mean() - returns("varied", 10).mean()) < 5.0


def test_one_blank_name_does_not_cost_the_other(tmp_path: Path) -> None:
    share, message = earned(1, "laws", 'SHORTEST_QUEUE = ""\nMOST_DROPS = "bbr"\n', tmp_path)
    assert share == 0.5
    assert "SHORTEST_QUEUE: expected one of reno, cubic, bbr" in message


def test_a_list_that_is_computed_is_asked_for_in_type(tmp_path: Path) -> None:
    text = (
        "from sysgym.labs.recorded import laws\nDIFFERENT_QUEUES = [law for law in laws() if law == 'bbr']\n"
    )
    share, message = earned(6, "laws that differ", text, tmp_path)
    assert share == 0.0
    assert "type the names that you found" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("header = 40\ndef goodput_bps(r, p, h):\n    return r - header\n", "rename it HEADER"),
        (
            "from sysgym.labs.links import PACKET_BYTES\n"
            "def goodput_bps(r, p, h):\n    return r / PACKET_BYTES\n",
            "PACKET_BYTES comes from sysgym (line 1): graded functions may use Python and NumPy",
        ),
        (
            "import numpy as np\ndef goodput_bps(r, p, h):\n    return {np.int64(1): 2}\n",
            "return a list",
        ),
    ],
)
def test_what_to_do_is_said(text: str, words: str, tmp_path: Path) -> None:
    assert words in earned(6, "goodput", text, tmp_path)[1]


def test_so_many_requests_are_played_as_asked_for() -> None:
    for rounds in (1, 8, 40):
        seen = play_rounds(Incast(8, 50, 4), "dctcp", rounds=rounds)
        assert len(set(seen.request.tolist())) == rounds
