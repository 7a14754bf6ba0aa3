"""``sysgym fuzz``: comparison of random policies in torch, NumPy, ONNX Runtime and C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from sysgym.cli.terminal import bars, console, table


def fuzz(
    examples: Annotated[
        int, typer.Option("--examples", min=1, metavar="N", help="Number of policies to draw.")
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="S", help="Seed of the random draws.")] = 0,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Folder for failures, an .onnx and an .npz file each."),
    ] = Path("fuzz-failures"),
    without_c: Annotated[
        bool, typer.Option("--without-c", help="Leave out compiled C, which takes most of the time.")
    ] = False,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE.npz", help="Repeat a stored failure.")
    ] = None,
) -> None:
    """Draw random policies and observations, and compare all implementations; exit code 1 if one differs."""
    from sysgym.errors import MissingExtra

    try:
        import hypothesis  # noqa: F401
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise MissingExtra("export", "fuzzing") from error
    try:
        import sb3_contrib  # noqa: F401
        import torch
    except ImportError as error:
        raise MissingExtra("train", "fuzzing") from error
    torch.set_num_threads(1)
    if replay is not None:
        _replay(replay)
        return
    from sysgym.agents.learned.deploy import fuzz as fuzzing

    chosen = [one for one in fuzzing.runners_here() if not (without_c and one.name.startswith("c"))]
    with bars() as progress:
        bar = progress.add_task("policies", total=examples)

        def tell(done: int) -> None:
            words = "policies" if done <= examples else "shrinking the failure"
            progress.update(bar, completed=min(done, examples), description=words)

        tally, failures = fuzzing.fuzz(examples, seed, runners=chosen, folder=out, progress=tell)
    screen = console()
    failed = {failure.runner: failure for failure in failures}
    rows = [
        (name, "differs" if name in failed else "agrees", f"{ratio:.2g}", str(tally.near_ties[name]))
        for name, ratio in tally.largest.items()
    ]
    headings = ("against torch", "", ">largest difference / allowed", ">near ties")
    screen.print(table(*headings, rows=rows))
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.cases.items()))
    screen.print(f"{tally.cases.total()} policies ({kinds}), {tally.discarded} discarded", style="dim")
    for failure in failures:
        screen.print(Text.assemble((failure.runner, "red"), f": {failure.reason}"), soft_wrap=True)
        screen.print(f"  {failure.case}", soft_wrap=True)
        screen.print(f"  sysgym fuzz --replay {failure.files[0]}", soft_wrap=True)
    if failures:
        raise typer.Exit(1)


def _replay(path: Path) -> None:
    from sysgym.agents.learned.deploy.fuzz import replay

    case, wrong = replay(path)
    screen = console()
    screen.print(str(case), soft_wrap=True)
    for name, reason in wrong.items():
        screen.print(Text.assemble((name, "red"), f": {reason}"), soft_wrap=True)
    if wrong:
        raise typer.Exit(1)
    screen.print("all agree now")
