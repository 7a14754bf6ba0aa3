"""``sysgym lab``: list labs, start one, grade one."""

from __future__ import annotations

import typer

from sysgym.cli.lab.grade import grade
from sysgym.cli.lab.start import list_, new

lab = typer.Typer(no_args_is_help=True, help="Labs: exercises with starters, checks and grades.")
lab.command("list")(list_)
lab.command()(new)
lab.command()(grade)
