"""Page of the command line, made from the commands' own help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from docs.website.markdown import Pages, code, page, section, table
from sysgym.cli.app import app


def pages() -> Pages:
    """Return the page of all commands."""
    about = (
        "All commands with their arguments and options; `sysgym COMMAND --help` prints those of one."
        " [The command line in scripts and shells](/command-line.md) describes completion, pipes, JSON and"
        " exit codes."
    )
    parts = [
        section(f"`{name}`", *_command(name, command))
        for name, command in commands(typer.main.get_command(app))
    ]
    return {"cli.md": page("Commands", about, *parts)}


def commands(group: Any, prefix: str = "sysgym") -> Iterator[tuple[str, Any]]:
    """Yield the full name of every command, with the command."""
    for name, command in sorted(group.commands.items()):
        if getattr(command, "commands", None):
            yield from commands(command, f"{prefix} {name}")
        elif not command.hidden:
            yield f"{prefix} {name}", command


def _command(name: str, command: Any) -> Iterator[str]:
    shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    arguments = [one for one in shown if type(one).__name__ == "TyperArgument"]
    options = [one for one in shown if one not in arguments]
    usage = [_metavar(one) if one.required else f"[{_metavar(one)}]" for one in arguments]
    yield _text(command.help)
    yield code(" ".join(["$", name, *usage, *(["[OPTIONS]"] if options else [])]), "console")
    yield table(("Argument", "Meaning"), [(f"`{_metavar(one)}`", _text(one.help)) for one in arguments])
    yield table(("Option", "Meaning"), [(_option(one), _text(one.help)) for one in options])


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper().strip("_"))


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    return f"{names} {option.metavar}" if option.metavar else names


def _text(text: str | None) -> str:
    """Return a help text for Markdown; brackets escaped for rich are plain here."""
    return (text or "").replace("\\[", "[").replace("<", "&lt;")
