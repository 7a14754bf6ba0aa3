"""``sysgym lab grade``: checks for a student, grades for a class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from sysgym.cli.terminal import bars, console, table

if TYPE_CHECKING:
    from sysgym.labs.grades import Grade


def grade(
    number: Annotated[int, typer.Argument(metavar="LAB", help="Number of the lab.")],
    path: Annotated[
        Path,
        typer.Argument(
            metavar="[FILE_OR_FOLDER]",
            help="Python file, notebook or folder of one student; with --csv, folder of a class.",
            show_default="the current folder",
        ),
    ] = Path(),
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="FILE",
            help="Grade all submissions of a folder, with hidden seeds, and write this table; the same"
            " command resumes an interrupted run.",
        ),
    ] = None,
    salt: Annotated[
        str | None,
        typer.Option(
            "--salt",
            "--seed",
            metavar="TEXT",
            help="Text of the hidden seeds (default: the visible ones; with --csv, secret ones).",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Number of submissions at a time; 0: one per CPU.")
    ] = 0,
) -> None:
    """Check a submission, or grade a class; exit code 1 if a single submission does not pass."""
    from sysgym.cli.commands.bench import cpus
    from sysgym.errors import SysgymError
    from sysgym.labs.catalogue import get_lab
    from sysgym.labs.grades import VISIBLE
    from sysgym.labs.grading import GradeJob, grade_all
    from sysgym.labs.intake.files import submissions_in
    from sysgym.labs.intake.texts import printable_name

    lab = get_lab(number)
    found = submissions_in(number, path, of_class=csv is not None)
    if csv is not None:
        _grade_class(number, found, csv, salt, jobs or cpus())
        return
    if len(found) > 1:
        raise SysgymError(
            f"{path}: {len(found)} submissions; add --csv FILE to grade a class, or name one file"
        )
    (name, file) = found[0]
    screen = console()
    screen.print(f"lab {number}, {lab.title}: {printable_name(str(file))}")
    with console(stderr=True).status("grading") if console(stderr=True).is_terminal else _nothing():
        (result,) = grade_all([GradeJob(number, name, str(file.absolute()), salt or VISIBLE)])
    _print(result)
    if not result.passed:
        raise typer.Exit(1)


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


def _print(grade: Grade) -> None:
    screen = console()
    for part in grade.parts:
        whole = part.earned >= part.points
        head = Text(f"{part.earned:g} of {part.points}", style="green" if whole else "red")
        screen.print(Text.assemble(("  "), head, f"  {part.name}: {part.message}"), soft_wrap=True)
        if part.hint:
            screen.print(Text(f"          try: {part.hint}", style="dim"), soft_wrap=True)
    if grade.score is not None:
        screen.print(f"contest: {grade.score:.2f}")
    verdict = "passed" if grade.passed else "not yet passed"
    screen.print(f"{grade.points:g} of {grade.most_points} points, {verdict}")


def _grade_class(number: int, found: Sequence[tuple[str, Path]], csv: Path, salt: str | None, n: int) -> None:
    from sysgym.labs.classes import GradeBook

    book = GradeBook.open(number, csv, salt)
    screen = console()
    try:
        with bars() as progress:
            bar = progress.add_task("submissions", total=len(found))
            for _ in book.grade(found, n):
                progress.advance(bar)
    except KeyboardInterrupt:
        screen.print(f"stopped; finished grades are in {csv}; run the same command again to continue")
        raise typer.Exit(130) from None
    contest = any(one.score is not None for one in book.grades.values())
    rows = [
        (
            one.submission,
            f"{one.points:g} of {one.most_points}",
            "yes" if one.passed else "no",
            *([f"{one.score:.2f}" if one.score is not None else "-"] if contest else []),
            next((part.message[:70] for part in one.parts if part.earned < part.points), ""),
        )
        for one in book.ranked()
    ]
    headings = ["submission", ">points", "passed", *([">contest"] if contest else []), "first problem"]
    screen.print(table(*headings, rows=rows))
    n_passed = sum(one.passed for one in book.grades.values())
    screen.print(f"{n_passed} of {len(rows)} passed; salt {book.salt}; {csv}", soft_wrap=True)
