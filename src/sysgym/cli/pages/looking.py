"""``sysgym list`` and ``sysgym show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.options import PluginOption

LISTS = ("envs", "scenarios", "agents", "transports", "suites", "policies")
"""Names of the lists."""


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar=f"[{'|'.join(LISTS)}]",
            help="What to list (default: everything).",
            autocompletion=lambda incomplete: [name for name in LISTS if name.startswith(incomplete)],
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            "--family",
            help="List only the items of a family, for example placement.",
            autocompletion=completion.families,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON with kind, name and summary of each item.")
    ] = False,
    plugin: PluginOption = None,
) -> None:
    """List everything that has a name; in a pipe: name, summary and kind, separated by tabs."""
    from sysgym.cli.pages.listing import print_lists

    print_lists(kind, plugin or [], family=family, as_json=as_json)


def show(
    name: Annotated[
        list[str],
        typer.Argument(
            metavar="[KIND] NAME",
            help=(
                "Environment id, name of a scenario, suite, transport or agent, or TOML file; optionally"
                " preceded by its kind, for example scenario."
            ),
            autocompletion=completion.everything,
        ),
    ],
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", metavar="FILE", help="Draw a scenario's network and traffic: .png, .svg or .pdf."
        ),
    ] = None,
    observation: Annotated[
        bool,
        typer.Option("--observation", help="Print the meaning of every number in a scenario's observation."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    plugin: PluginOption = None,
) -> None:
    """Show everything about one environment, scenario, suite, transport, agent or policy."""
    from sysgym.cli.pages.show import show_page
    from sysgym.cli.pages.show_json import print_json, print_observation

    if len(name) > 2:
        raise typer.BadParameter(f"expected a name, or a kind and a name; got {len(name)} words")
    kind = name[0] if len(name) == 2 else None
    if observation:
        print_observation(name[-1], plugin or [], kind=kind, as_json=as_json)
    elif as_json:
        print_json(name[-1], plugin or [], kind=kind)
    else:
        show_page(name[-1], plugin or [], kind=kind, picture=picture)
