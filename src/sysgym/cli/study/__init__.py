"""``sysgym study``: one command for each study in ``sysgym.studies`` that is not part of a suite."""

from __future__ import annotations

import typer

from sysgym.cli.study.determinism import determinism
from sysgym.cli.study.distillation import distillation
from sysgym.cli.study.links import links
from sysgym.cli.study.neighbours import neighbours
from sysgym.cli.study.networks import networks
from sysgym.cli.study.nurd_release import nurd_release
from sysgym.cli.study.robustness import robustness
from sysgym.cli.study.stress import stress

study = typer.Typer(
    no_args_is_help=True, help="Run a study: an experiment that is not part of a benchmark suite."
)
study.command()(determinism)
study.command()(distillation)
study.command()(neighbours)
study.command()(links)
study.command()(networks)
study.command("nurd-release")(nurd_release)
study.command()(robustness)
study.command()(stress)
