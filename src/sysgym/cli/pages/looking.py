"""``sysgym list`` and ``sysgym show``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.options import PluginOption


class Kind(StrEnum):
    """What can be listed."""

    envs = "envs"
    scenarios = "scenarios"
    agents = "agents"
    transports = "transports"
    suites = "suites"
    policies = "policies"


def list_(
    kind: Annotated[Kind | None, typer.Argument(help="What to list; everything if left out.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: kind, name and summary of each.")
    ] = False,
    plugin: PluginOption = None,
) -> None:
    """List what there is, with a line on each; in a pipe name, summary and kind, with tabs between."""
    from sysgym.cli.pages.listing import print_lists

    print_lists(kind.value if kind else None, plugin or [], as_json=as_json)


def show(
    name: Annotated[
        list[str],
        typer.Argument(
            metavar="[KIND] NAME",
            help=(
                "An environment's id, a scenario, suite, transport or agent, or a TOML file; before it, if"
                " you like, what it is: scenario, for example."
            ),
            autocompletion=completion.everything,
        ),
    ],
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", metavar="FILE", help="Draw a scenario's network and traffic: .png, .svg, .pdf."
        ),
    ] = None,
    observation: Annotated[
        bool,
        typer.Option("--observation", help="Print a scenario's observation index by index instead."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")] = False,
    plugin: PluginOption = None,
) -> None:
    """Show one thing in full; a scenario also in words, and with --picture as a picture."""
    from sysgym.cli.pages.show import show_page
    from sysgym.cli.pages.show_json import print_json, print_observation

    if len(name) > 2:
        raise typer.BadParameter(f"expected a name, or a kind and a name; got {len(name)} words")
    kind = name[0] if len(name) == 2 else None
    if observation:
        print_observation(name[-1], kind, as_json=as_json)
    elif as_json:
        print_json(name[-1], plugin or [], kind=kind)
    else:
        show_page(name[-1], plugin or [], kind=kind, picture=picture)
