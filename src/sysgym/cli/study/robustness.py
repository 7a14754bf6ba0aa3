"""``sysgym study robustness``: agreement of a deployed policy with the trained one, also under attack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli.terminal import console, print_table


def robustness(
    checkpoint: Annotated[Path, typer.Argument(help="Checkpoint of a trained policy.")],
    twin: Annotated[
        str,
        typer.Option(
            "--twin",
            metavar="int8|CHECKPOINT",
            help="Deployed version: 8-bit weights, or the checkpoint of a student.",
        ),
    ] = "int8",
    episodes: Annotated[
        int, typer.Option("--episodes", min=1, metavar="N", help="Number of episodes to record.")
    ] = 10,
    observations: Annotated[
        int,
        typer.Option("--observations", min=1, metavar="N", help="Number of their observations to attack."),
    ] = 1000,
    every: Annotated[
        int,
        typer.Option(
            "--every", min=0, metavar="K", help="Also attack every Kth decision of whole episodes; 0: none."
        ),
    ] = 10,
    split: Annotated[str, typer.Option("--split", help="Split of the episodes.")] = "test",
    bounds: Annotated[
        float, typer.Option("--bounds", metavar="FACTOR", help="Factor of all bounds of measurement errors.")
    ] = 1.0,
    same: Annotated[
        float,
        typer.Option(
            "--same",
            metavar="SHARE",
            help="Largest change of an action that counts as no change, relative to its range.",
        ),
    ] = 0.01,
    shifted: Annotated[
        float,
        typer.Option(
            "--shifted",
            metavar="SHARE",
            help="Smallest change of an action that counts as a change, relative to its range.",
        ),
    ] = 0.02,
    c: Annotated[
        float,
        typer.Option("--c", min=0.0, help="DIVA's weight on leaving the original policy's action unchanged."),
    ] = 1.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the noise.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Folder for robustness.json and robustness.md."),
    ] = None,
) -> None:
    """Attack the 8-bit or distilled version of a policy within measurement error.

    Exit code 1 if it agrees with the original on less than 99 % of observations with random noise.
    """
    from sysgym.agents.learned.trust.attacks import Tolerance
    from sysgym.errors import SysgymError
    from sysgym.scenarios.files import make_folder, write_atomically
    from sysgym.studies.robustness.report import markdown, sentences, tables
    from sysgym.studies.robustness.study import Settings, examine

    if not 0.0 <= same <= shifted:
        raise SysgymError(f"--same must not exceed --shifted: got {same:g} and {shifted:g}")
    settings = Settings(split, episodes, observations, every, bounds, Tolerance(same, shifted), c, seed)
    screen = console()
    try:
        with console(stderr=True).status("") as status:
            found = examine(
                checkpoint, twin, settings, lambda words, done, of: status.update(f"{words}  {done} of {of}")
            )
    except KeyboardInterrupt:
        screen.print("stopped; nothing was written")
        raise typer.Exit(130) from None
    for one in tables(found):
        print_table(screen, one)
    screen.print()
    for sentence in sentences(found):
        screen.print(sentence)
    if out is not None:
        make_folder(out)
        write_atomically(out / "robustness.json", json.dumps(found.to_json(), indent=1).encode() + b"\n")
        write_atomically(out / "robustness.md", markdown(found).encode())
        screen.print(f"{out / 'robustness.json'}\n{out / 'robustness.md'}", soft_wrap=True)
    if not found.passes:
        raise typer.Exit(1)
