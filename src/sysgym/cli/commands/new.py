"""``sysgym new``: commented starting files that work unchanged."""

from __future__ import annotations

import keyword
import re
from enum import StrEnum
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

_NAME_IN_TEMPLATES = "@NAME@"
_LONGEST_NAME = 60


class What(StrEnum):
    """Kind of a starting file; each has a template of the same name."""

    suite = "suite"
    scenario = "scenario"
    law = "law"


_PYTHON = (What.law,)


def new(
    what: Annotated[What, typer.Argument(help="suite, scenario or law (a transport).")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name, also of the file.")],
    folder: Annotated[
        Path,
        typer.Option("--folder", metavar="FOLDER", help="Folder of the file (default: the current one)."),
    ] = Path(),
    graph: Annotated[
        Path | None,
        typer.Option(
            "--graph",
            metavar="FILE",
            help="Network of a scenario: .graphml or .gml (Topology Zoo), node-link .json, SNDlib's .txt.",
        ),
    ] = None,
) -> None:
    """Write a commented starting file that works unchanged; its first comment explains how to run it."""
    from sysgym.cli.terminal import console

    path = write_starting_file(what, name, folder, graph)
    out = console()
    out.print(f"{path}", soft_wrap=True)
    for command in commands_in(path.read_text(encoding="utf-8")):
        out.print(f"  {command}", style="dim", soft_wrap=True)


def write_starting_file(what: What, name: str, folder: Path, graph: Path | None = None) -> Path:
    """Write a starting file.

    Args:
        what: Kind of the file.
        name: Name, also of the file.
        folder: Folder of the file.
        graph: File with the network of a scenario; None: a dumbbell.

    Returns:
        Path of the file.

    Raises:
        SysgymError: The name is invalid or taken, the file exists or cannot be written, or the graph cannot
            be used.
    """
    from sysgym.errors import SysgymError

    _check_name(what, name)
    suffix = ".py" if what in _PYTHON else ".toml"
    path = folder / f"{name}{suffix}"
    if graph is not None and what is not What.scenario:
        raise SysgymError(f"--graph applies to a scenario, not to a {what}")
    template = files("sysgym.cli") / "templates" / f"{what if graph is None else 'graph'}{suffix}.txt"
    text = template.read_text(encoding="utf-8").replace(_NAME_IN_TEMPLATES, name)
    if graph is not None:
        text = _with_graph(text, graph)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SysgymError(f"{path}: exists already; choose another name, or move the file") from None
    except OSError as error:
        raise SysgymError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def _with_graph(text: str, path: Path) -> str:
    """Return the template of a graph with the network of a file, and times that suit its delays."""
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    from sysgym.emulator.packets.topology.graph_files import read_graph

    found = read_graph(path)
    number = {name: place for place, name in enumerate(found.switches)}
    ends = np.array([[number[end] for end in cable.ends] for cable in found.cables])
    delays_s = [10e-6 if cable.delay_s is None else max(cable.delay_s, 1e-9) for cable in found.cables]
    joined = csr_array((delays_s, (ends[:, 0], ends[:, 1])), shape=(len(number), len(number)))
    lengths_s = shortest_path(joined, directed=False)
    round_trip_s = 2.0 * float(lengths_s[np.isfinite(lengths_s)].max()) + 40e-6
    buffer_bytes = int(min(max(round_trip_s, 1e-3), 0.02) * 1e9 / 8)
    links = []
    for cable in found.cables:
        rate = f", rate_bps = {cable.rate_bps:g}" if cable.rate_bps else ""
        delay = "" if cable.delay_s is None else f", delay_s = {cable.delay_s:.4g}"
        links.append(f'    {{ ends = ["{cable.ends[0]}", "{cable.ends[1]}"]{rate}{delay} }},\n')
    values = {
        "FILE": path.name,
        "SWITCHES": str(len(found.switches)),
        "CABLES": str(len(found.cables)),
        "NAMES": "".join(f'    "{name}",\n' for name in found.switches),
        "LINKS": "".join(links),
        "BUFFER": str(buffer_bytes),
        "THRESHOLD": str(buffer_bytes // 5),
        "INTERVAL": f"{max(round_trip_s, 1e-3):.3g}",
    }
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def commands_in(text: str) -> list[str]:
    """Return the commands in the first comment of a starting file."""
    return re.findall(r"^[# ]+\$ (.+)$", text, re.MULTILINE)


def _check_name(what: What, name: str) -> None:
    from sysgym.errors import SysgymError

    if what in _PYTHON:
        pattern, words = r"[a-z][a-z0-9_]*", "lower-case letters, digits and _, as in names of Python modules"
    else:
        pattern, words = r"[a-z0-9]+(-[a-z0-9]+)*", "lower-case letters and digits, words joined by -"
    if len(name) > _LONGEST_NAME or not re.fullmatch(pattern, name):
        shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
        raise SysgymError(
            f"{shown!r} is no valid name of a {what}: expected {words}, at most {_LONGEST_NAME} characters"
        )
    if what in _PYTHON:
        from sysgym.emulator.packets.transports import list_transports

        if keyword.iskeyword(name) or name == "sysgym" or _is_a_module(name):
            raise SysgymError(f'"{name}" is the name of a Python or library module; choose another name')
        if name in list_transports():
            raise SysgymError(f'"{name}" is the name of an existing transport; choose another name')


def _is_a_module(name: str) -> bool:
    spec = find_spec(name)
    # A module in the current folder is the user's own; writing the file checks whether it exists.
    return spec is not None and Path(spec.origin or "").parent.resolve() != Path.cwd().resolve()
