"""A class is graded whatever is in it: in parallel, resumable, with a table that is safe to open."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sysgym.errors import SysgymError
from sysgym.labs import grading
from sysgym.labs.catalogue import get_lab
from sysgym.labs.classes import GradeBook
from sysgym.labs.exercises import notebook_of
from sysgym.labs.export import solution
from sysgym.labs.grades import Grade
from sysgym.labs.grading import GradeJob, grade_all, refused
from sysgym.labs.intake.files import digest, policy_beside, rival_of, submissions_in
from tests.commands import Commands

FORGERS = {
    "answers": "import os\ndef goodput_bps(*_):\n    os._exit(0)\n",
    "grades": (
        "import json, sys\n"
        "for place in ('grades.json', 'grades.csv'):\n"
        "    try: open(place, 'w').write('{}')\n"
        "    except PermissionError: pass\n"
        "def goodput_bps(*_):\n    import sysgym.labs.grades as grades\n"
        "    grades.Grade.points = 100\n    return 1\n"
    ),
    "patches": (
        "import math\nmath.isclose = lambda *_, **__: True\n"
        "def goodput_bps(*_):\n    import math, json\n    math.isclose = lambda *_, **__: True\n"
        "    json.loads = lambda _: {'number': 1, 'result': 0}\n    return 0\n"
    ),
    "=1+1": "def goodput_bps(*_):\n    raise ValueError('=cmd()')\n",
    "halves": "def goodput_bps(*_):\n    raise ValueError('\\ud800')\n",
    "escapes": "def goodput_bps(*_):\n    raise ValueError('\\x1b]0;mine\\x07\\x1b[2J [red]x[/nope] [/]')\n",
    "kills": (
        "import os\nimport signal\ndef goodput_bps(*_):\n"
        "    for kill in (lambda: os.killpg(os.getpgid(os.getppid()), 9),\n"
        "                 lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 9)):\n"
        "        try: kill()\n        except (OSError, AttributeError): pass\n    return 1\n"
    ),
    "broken": "def goodput_bps(:\n",
    "empty": "",
}


def test_a_class_of_forgers_gets_no_points_and_the_others_get_theirs(tmp_path: Path) -> None:
    folder = tmp_path / "submissions"
    (folder / "ada").mkdir(parents=True)
    (folder / "ada" / "lab6.py").write_text(solution(get_lab(6)))
    (folder / "ben.py").write_text(get_lab(6).starter())
    (folder / "notes.txt").write_text("no submission")
    for name, text in FORGERS.items():
        (folder / f"{name}.py").write_text(text)
    found = submissions_in(6, folder)
    assert {name for name, _ in found} == {"ada", "ben", *FORGERS}
    assert ("notes", folder / "notes.txt") in submissions_in(6, folder, of_class=True)
    book = GradeBook.open(6, tmp_path / "grades.csv", "secret")
    grades = {grade.submission: grade for grade in book.grade(found, 2)}
    assert grades["ada"].points == 100
    for name in ("ben", *FORGERS):
        assert grades[name].points == 0.0, grades[name]
    assert book.ranked()[0].submission == "ada"
    table = (tmp_path / "grades.csv").read_text().splitlines()
    rows = {row["submission"]: row for row in csv.DictReader(table)}
    assert rows["ada"]["passed"] == "yes"
    assert rows["'=1+1"]["points"] == "0"
    assert not any(
        cell.startswith(("=", "+", "-", "@")) for row in rows.values() for cell in row.values() if cell
    )
    assert not (tmp_path / "submissions" / "grades.json").exists()


def test_grading_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    file = tmp_path / "ada.py"
    file.write_text(get_lab(6).starter())
    first = GradeBook.open(6, tmp_path / "grades.csv", None)
    (graded,) = first.grade([("ada", file)], 1)
    again = GradeBook.open(6, tmp_path / "grades.csv", None)
    assert again.salt == first.salt
    assert again.grades["ada"].to_json() == graded.to_json()
    record = tmp_path / "grades.json"
    data = json.loads(record.read_text())
    data["grades"]["ada"]["parts"][0]["earned"] = 7.0
    record.write_text(json.dumps(data))
    kept = GradeBook.open(6, tmp_path / "grades.csv", first.salt)
    (same,) = kept.grade([("ada", file)], 1)
    assert same.parts[0].earned == 7.0  # taken from the record, not graded anew
    file.write_text(get_lab(6).starter() + "\n# changed\n")
    (anew,) = kept.grade([("ada", file)], 1)
    assert anew.parts[0].earned == 0.0


@pytest.mark.parametrize("text", ["", "[]", '{"lab": 6}', '{"lab": 5, "salt": "s", "grades": {}}'])
def test_other_records_are_left_alone(text: str, tmp_path: Path) -> None:
    (tmp_path / "grades.json").write_text(text)
    with pytest.raises(SysgymError, match=r"grades\.json"):
        GradeBook.open(6, tmp_path / "grades.csv", None)
    assert (tmp_path / "grades.json").read_text() == text


def test_a_table_without_its_record_is_not_overwritten(tmp_path: Path) -> None:
    table = tmp_path / "grades.csv"
    table.write_text("ada,100\n")
    with pytest.raises(SysgymError, match=r"this table exists, but its record grades\.json does not"):
        GradeBook.open(6, table, "secret")
    assert table.read_text() == "ada,100\n"


@pytest.mark.slow
def test_a_law_that_loops_is_ended_and_the_parts_before_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = "def on_loss(flow, event):\n    pass\ndef on_timeout(flow, event):\n    pass\n"
    loop = tmp_path / "loop.py"
    loop.write_text("def on_ack(flow, event):\n    while True:\n        flow.state[0] = 1.0\n" + rest)
    monkeypatch.setattr(grading, "_limit_s", lambda job: 3.0)
    monkeypatch.setattr(grading, "get_lab", lambda number: replace(get_lab(number), limit_s=3.0))
    (grade,) = grade_all([GradeJob(3, "loop", str(loop), "visible")])
    assert isinstance(grade, Grade)
    assert grade.points == 0.0
    assert "took longer than 3 s" in grade.parts[0].message
    assert grade.parts[1].message == "not reached"


@pytest.mark.skipif(os.name == "nt", reason="names and pipes of POSIX")
def test_links_pipes_and_strange_names_stop_nobody(tmp_path: Path) -> None:
    solved = tmp_path / "labs" / "solution.py"
    solved.parent.mkdir()
    solved.write_text(solution(get_lab(6)))
    folder = tmp_path / "class"
    (folder / "bob").mkdir(parents=True)
    (folder / "eve").symlink_to(solved.parent)
    (folder / "mallory.py").symlink_to(solved)
    (folder / "bob" / "lab6.py").symlink_to(solved)
    (folder / "loop.py").symlink_to("loop.py")
    os.mkfifo(folder / "pipe.py")
    (folder / "large.py").write_bytes(b"")
    os.truncate(folder / "large.py", 10**12)  # needs no room on the disk
    strange = {b"caf\xe9.py": "caf\\udce9", b"\x1b[2J.py": "\\x1b[2J", b"two\nlines.py": "two\\nlines"}
    for file_name in strange:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + file_name)).write_text("")
    (folder / "ada.py").write_text(solved.read_text())
    found = submissions_in(6, folder, of_class=True)
    book = GradeBook.open(6, tmp_path / "grades.csv", "secret")
    grades = {grade.submission: grade for grade in book.grade(found, 1)}
    assert grades.pop("ada").points == 100
    assert set(grades) == {"bob", "eve", "mallory", "loop", "pipe", "large", *strange.values()}
    assert all(grade.points == 0.0 for grade in grades.values())
    for name in ("bob", "eve", "mallory", "loop", "pipe"):
        assert "hand in the file itself" in grades[name].parts[0].message
    assert "larger than 5 MB" in grades["large"].parts[0].message
    again = GradeBook.open(6, tmp_path / "grades.csv", None)
    assert len(again.grades) == len(found)


def test_a_student_who_names_a_file_as_the_lab_does_not_hide_the_class(tmp_path: Path) -> None:
    for name in ("ada", "lab6", "zoe"):
        (tmp_path / f"{name}.py").write_text("")
    assert len(submissions_in(6, tmp_path, of_class=True)) == 3
    assert [path.name for _, path in submissions_in(6, tmp_path)] == ["lab6.py"]


def test_a_policy_counts_for_its_own_student_only(tmp_path: Path) -> None:
    flat, own = tmp_path / "flat", tmp_path / "own"
    for file in (flat / "ada.py", flat / "ben.py", flat / "123.py", own / "lab5.py", own / "tools.py"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    for folder in (flat, own):
        (folder / "policy.zip").write_text("one")
    assert policy_beside(flat / "ada.py") is None
    assert policy_beside(flat / "123.py") is None
    assert policy_beside(own / "lab5.py") == own / "policy.zip"
    (flat / "ben.zip").write_text("his")
    assert policy_beside(flat / "ben.py") == flat / "ben.zip"
    if os.name != "nt":
        (flat / "ada.zip").symlink_to(flat / "ben.zip")
        assert policy_beside(flat / "ada.py") is None
    before = digest(flat / "ben.py")
    (flat / "ben.zip").write_text("another")
    assert digest(flat / "ben.py") != before


def test_grades_end_with_the_rules_that_gave_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = GradeBook.open(6, tmp_path / "grades.csv", "secret")
    book.grades = {"ada": refused(GradeJob(6, "ada", str(tmp_path / "ada.py"), "secret"), "of old")}
    book.write()
    assert GradeBook.open(6, tmp_path / "grades.csv", None).grades.keys() == {"ada"}
    monkeypatch.setattr("sysgym.labs.classes.rules_digest", lambda: "another threshold")
    anew = GradeBook.open(6, tmp_path / "grades.csv", None)
    assert (anew.grades, anew.salt) == ({}, "secret")


def test_a_submission_with_which_the_grader_dies_twice_gets_no_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["ada", "kill", "zoe"]
    for name in names:
        (tmp_path / f"{name}.py").write_text(name)
    graded: list[str] = []

    def dies_at_kill(jobs: Iterable[GradeJob], n_workers: int) -> Iterator[Grade]:
        running = []
        for job in jobs:
            running.append(job)
            if len(running) < n_workers:
                continue
            if any(one.name == "kill" for one in running):
                raise SystemExit("killed")
            graded.append(running[0].name)
            yield refused(running.pop(0), "graded")

    monkeypatch.setattr("sysgym.labs.classes.grade_all", dies_at_kill)
    found = submissions_in(6, tmp_path)
    for _ in range(2):
        with pytest.raises(SystemExit):
            list(GradeBook.open(6, tmp_path / "grades.csv", "secret").grade(found, 2))
    assert "kill" not in graded
    assert "ada" in graded  # was under way when the grader died the first time, and is innocent
    last = {
        grade.submission: grade for grade in GradeBook.open(6, tmp_path / "grades.csv", None).grade(found, 1)
    }
    assert "ended twice" in last["kill"].parts[0].message
    assert last.keys() == set(names)
    assert set(graded) == {"ada", "zoe"}


def test_who_stops_the_grader_by_hand_accuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(jobs: Iterable[GradeJob], n_workers: int) -> Iterator[Grade]:
        yield from ()
        next(iter(jobs))
        raise KeyboardInterrupt

    monkeypatch.setattr("sysgym.labs.classes.grade_all", stopped)
    (tmp_path / "ada.py").write_text("")
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            list(GradeBook.open(6, tmp_path / "grades.csv", "s").grade(submissions_in(6, tmp_path), 1))
    assert GradeBook.open(6, tmp_path / "grades.csv", "s").unfinished == {}


def test_where_nothing_is_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match=r"no submission; expected lab2\.py"):
        submissions_in(2, tmp_path)
    with pytest.raises(SysgymError, match="no submission"):
        submissions_in(2, tmp_path / "absent")


def both(folder: Path, python: str, notebook: str, times: tuple[int, int]) -> Path:
    """Write a Python file and a notebook of lab 6 with times of change."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, text, time in (
        ("lab6.py", python, times[0]),
        ("lab6.ipynb", notebook_of(notebook), times[1]),
    ):
        (folder / name).write_text(text)
        os.utime(folder / name, (time, time))
    return folder


def test_of_file_and_notebook_the_changed_one_counts_then_the_newer_then_python(tmp_path: Path) -> None:
    solved, starter = solution(get_lab(6)), get_lab(6).starter()
    cases = [
        (solved, starter, (1, 2), ".py"),
        (starter, solved, (2, 1), ".ipynb"),
        (f"# answers\n{starter}", solved, (2, 1), ".ipynb"),
        (solved, solved, (1, 2), ".ipynb"),
        (solved, solved, (2, 1), ".py"),
        (solved, solved, (1, 1), ".py"),
        (starter, starter, (1, 2), ".ipynb"),
    ]
    for number, (python, notebook, times, suffix) in enumerate(cases):
        folder = both(tmp_path / str(number) / "ada", python, notebook, times)
        assert submissions_in(6, folder)[0][1].suffix == suffix, number
        assert submissions_in(6, folder.parent, of_class=True)[0][1].suffix == suffix, number


def test_two_changed_files_are_said(tmp_path: Path) -> None:
    solved, starter = solution(get_lab(6)), get_lab(6).starter()
    one = both(tmp_path / "one", solved, starter, (1, 2)) / "lab6.py"
    two = both(tmp_path / "two", solved, f"A = 1\n{starter}", (2, 1)) / "lab6.py"
    assert rival_of(one, 6) is None
    assert rival_of(two, 6) == two.with_suffix(".ipynb")
    book = GradeBook(6, tmp_path / "grades.csv", "s")
    words = "lab6.py was graded, but lab6.ipynb differs from the starter too"
    (grade,) = book.grade([("two", two)], 1)
    assert grade.points == 100
    assert words in grade.parts[0].hint
    assert words in (tmp_path / "grades.csv").read_text()


def test_every_entry_of_a_class_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / "class"
    (folder / "eve" / "old").mkdir(parents=True)
    (folder / "eve" / "old" / "lab6.py").write_text("")
    (folder / "gina.zip").write_text("PK")
    for name in ("ada.py", "ada.zip", "grades.csv", "grades.json", ".DS_Store"):
        (folder / name).write_text("")
    found = dict(submissions_in(6, folder, of_class=True))
    assert found.keys() == {"ada", "eve", "gina"}
    assert found["ada"].suffix == ".py"
    grades = {one.submission: one for one in GradeBook(6, tmp_path / "g.csv", "s").grade([*found.items()], 1)}
    assert grades["eve"].points == grades["gina"].points == 0.0
    assert "eve: no .py or .ipynb at the top of this folder" in grades["eve"].parts[0].message
    assert "expected a Python file" in grades["gina"].parts[0].message


def test_a_student_types_the_commands(tmp_path: Path, commands: Commands) -> None:
    listed = commands.run(["lab", "list"], tmp_path)
    assert listed.stdout.startswith("1\tBufferbloat\t")
    assert commands.run(["lab", "new", "6", "mine"], tmp_path).returncode == 0
    assert commands.run(["lab", "new", "6", "mine"], tmp_path).returncode == 2
    checked = commands.run(["lab", "grade", "6", "mine"], tmp_path)
    assert checked.returncode == 1
    assert "try: payload over packet" in checked.stdout
    assert "0 of 100 points, not yet passed" in checked.stdout
    assert "UnknownName" not in commands.run(["lab", "new", "9", "x"], tmp_path).stderr
    (tmp_path / "mine" / "lab6.py").write_text(solution(get_lab(6)))
    passed = commands.run(["lab", "grade", "6", "mine/lab6.py", "--salt", "term 1"], tmp_path)
    assert (passed.returncode, "100 of 100 points, passed" in passed.stdout) == (0, True)
    graded = commands.run(["lab", "grade", "6", ".", "--csv", "grades.csv"], tmp_path)
    assert graded.returncode == 0, graded.stderr
    assert "1 of 1 passed" in graded.stdout
