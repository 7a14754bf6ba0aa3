"""Starters and notebooks come from masters: nothing of a solution is left, and nothing else is lost."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.errors import SysgymError
from sysgym.labs.catalogue import LABS, Lab
from sysgym.labs.exercises import notebook_of, solution_of, starter_of
from sysgym.labs.export import export, pages

ROOT = Path(__file__).resolve().parents[3]
EVERY = pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.file_stem)

PLAIN = st.text(st.characters(codec="ascii", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e#"), max_size=20)


@given(st.lists(st.tuples(st.sampled_from(["text", "secret"]), st.lists(PLAIN, max_size=3)), max_size=6))
def test_the_solution_goes_and_everything_else_stays(blocks: list[tuple[str, list[str]]]) -> None:
    master, starter, solution = "", "", ""
    for kind, lines in blocks:
        text = "".join(f"  {kind} {line}\n" for line in lines)
        if kind == "secret":
            master += (
                f"  ### BEGIN SOLUTION\n  ### TODO: think\n  ### >>> return 0\n{text}  ### END SOLUTION\n"
            )
            starter += "  # TODO: think\n  return 0\n"
        else:
            master += text
            starter += text
        solution += text
    assert starter_of(master) == starter
    assert solution_of(master) == solution
    assert "secret" not in starter_of(master)
    assert starter_of(starter) == starter
    assert solution_of(solution) == solution


@pytest.mark.parametrize(
    "tags", ["BEGIN", "END", "BEGIN BEGIN END", "BEGIN END END"], ids=lambda tags: tags.replace(" ", "-")
)
def test_tags_without_counterpart_are_refused(tags: str) -> None:
    master = "".join(f"### {tag} SOLUTION\n" for tag in tags.split())
    with pytest.raises(SysgymError, match="SOLUTION"):
        starter_of(master)


def test_the_starters_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_labs", ROOT / "scripts" / "labs" / "make_labs.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    texts = script.starters()
    assert {path.name for path in texts} == {f"{lab.file_stem}.py.txt" for lab in LABS}
    assert {path: path.read_text() for path in texts} == texts, "run scripts/labs/make_labs.py"


@EVERY
def test_a_starter_has_its_goals_and_no_solution(lab: Lab) -> None:
    text = lab.starter()
    for heading in (
        f"# Lab {lab.number}: ",
        "**Remember:**",
        "**Goals.**",
        "**You need**",
        "**Time.**",
        "Questions",
    ):
        assert heading in text
    assert "plot" in text
    assert "# TODO" in text
    assert "SOLUTION" not in text
    assert not [line for line in text.splitlines() if line.strip().startswith("### ")]
    compile(text, lab.file_stem, "exec")


@EVERY
def test_a_notebook_is_valid_and_always_the_same(lab: Lab) -> None:
    nbformat = pytest.importorskip("nbformat")
    text = notebook_of(lab.starter())
    assert text == notebook_of(lab.starter())
    nbformat.validate(nbformat.reads(text, as_version=4))
    ids = [cell["id"] for cell in json.loads(text)["cells"]]
    assert len(set(ids)) == len(ids) > 5


def test_files_are_not_overwritten(tmp_path: Path) -> None:
    paths, note = export(LABS[0], tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["lab1.py", "lab1.ipynb", "README.md"]
    assert (tmp_path / "new" / "folder" / "README.md").read_text().startswith("# Lab 1: Bufferbloat")
    assert note == ""
    with pytest.raises(SysgymError, match="exists already"):
        export(LABS[0], tmp_path / "new" / "folder")


def test_solutions_are_in_a_clone_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, _ = export(LABS[4], tmp_path, solutions=True)
    assert {path.name for path in paths} == {"lab5_solution.py", "lab5_solution.ipynb", "policy.zip"}
    monkeypatch.setattr("sysgym.labs.export.masters", lambda: tmp_path / "site-packages" / "labs")
    with pytest.raises(SysgymError, match="not part of the installed package"):
        export(LABS[4], tmp_path / "other", solutions=True)


def test_the_pages_of_students_are_up_to_date() -> None:
    texts = pages()
    assert len(texts) == len(LABS)
    assert {path: path.read_text() for path in texts} == texts, "run python -m sysgym.labs.export"
    assert not [path.name for path, text in texts.items() if "](../" in text or "Afterwards" in text]


@EVERY
def test_a_page_plans_the_minutes_of_its_class(lab: Lab) -> None:
    text = lab.page()
    rows = re.findall(r"^\| .* \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    (rest,) = re.findall(r"The other (\d+) minutes are for the questions", text)
    assert sum(int(minutes) for minutes, _ in rows) + int(rest) == lab.class_minutes
    assert [int(points) for _, points in rows] == [part.points for part in lab.parts()]


@EVERY
def test_plots_keep_their_labels_and_predictions_are_asked_about(lab: Lab) -> None:
    text = lab.starter()
    assert "tight_layout" not in text
    assert text.count("plt.subplots(") == text.count('layout="constrained")') > 0
    assert "prediction" in text.partition("## Questions")[2].partition("*Your predictions")[0]
    assert "redict" in text.partition("## Questions")[0] or lab.number in (1, 4)


def test_an_interrupted_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (function,) = (
        node
        for node in ast.parse(LABS[4].starter()).body
        if isinstance(node, ast.FunctionDef) and node.name == "trained"
    )
    resumed: list[bool] = []
    space = {"Path": Path, "STEPS": 1, "train": lambda *_, resume, **__: resumed.append(resume)}
    exec(compile(ast.Module([function], []), "lab5", "exec"), space)
    space["trained"]("home", None)  # type: ignore[operator]
    (tmp_path / "runs" / "home" / "checkpoints").mkdir(parents=True)
    space["trained"]("home", None)  # type: ignore[operator]
    assert resumed == [False, True]


def test_the_starter_of_lab_8_ends_without_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    exec(compile(LABS[7].starter(), "lab8", "exec"), {"__name__": "lab8"})
