"""``sysgym list``: lists of everything that has a name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sysgym.cli.terminal import console, table

Rows = Iterable[Sequence[str]]


def print_lists(kind: str | None, plugins: Sequence[Path], *, as_json: bool = False) -> None:
    """Print one list, or all.

    A terminal gets tables. A pipe gets one line per item, with name, summary and kind separated by tabs. JSON
    is one list of objects with the keys ``kind``, ``name`` and ``summary``.

    Args:
        kind: ``envs``, ``scenarios``, ``agents``, ``transports``, ``suites`` or ``policies``; None: all.
        plugins: The user's Python files, imported first.
        as_json: Whether to print JSON.

    Raises:
        UnknownName: There is no such list.
    """
    from sysgym.errors import UnknownName

    load_plugins(plugins)
    lists: dict[str, tuple[str, str, Callable[[], Rows]]] = {
        "envs": ("Environments", "environment", _environments),
        "scenarios": ("Scenarios", "scenario", _scenarios),
        "transports": ("Transports", "transport", _transports),
        "agents": ("Agents", "agent", _agents),
        "suites": ("Benchmark suites", "suite", _suites),
        "policies": ("Trained policies in this package", "policy", _policies),
    }
    if kind is not None and kind not in lists:
        raise UnknownName("list", kind, lists)
    chosen = [lists[kind]] if kind is not None else list(lists.values())
    if as_json:
        found = [
            {"kind": one, "name": name, "summary": summary}
            for _, one, rows in chosen
            for name, summary in rows()
        ]
        print(json.dumps(found, indent=1, ensure_ascii=False))
        return
    out = console()
    if not out.is_terminal:
        for _, one, rows in chosen:
            for name, summary in rows():
                print(name, summary, one, sep="\t")
        return
    for title, _, rows in chosen:
        out.print(table("name", "summary", title=title, rows=rows()))
        out.print()
    what = "policy NAME" if kind == "policies" else "NAME"  # a policy may have the name of its agent
    out.print(f"sysgym show {what} shows details", style="dim")


def load_plugins(plugins: Sequence[Path]) -> None:
    """Import the user's Python files."""
    if plugins:
        from sysgym.bench.contenders import load_plugin

        for plugin in plugins:
            load_plugin(plugin)


def _environments() -> Rows:
    from gymnasium.envs.registration import load_env_creator

    from sysgym.registration import ENVIRONMENTS

    for env_id, entry_point in ENVIRONMENTS.items():
        yield env_id, (load_env_creator(entry_point).__doc__ or "").strip().partition("\n")[0]


def _scenarios() -> Rows:
    from sysgym.scenarios import list_scenarios

    return [(info.name, info.title) for info in list_scenarios()]


def _transports() -> Rows:
    from sysgym.emulator.packets.transports import get_transport, list_transports

    return [(name, get_transport(name).summary) for name in list_transports()]


def _agents() -> Rows:
    from sysgym.agents import agent_info, list_agents

    for info in map(agent_info, list_agents()):
        kind = "learned: " if info.learned else "reference: " if info.privileged else ""
        yield info.name, kind + info.summary


def _suites() -> Rows:
    from sysgym.scenarios import list_suites

    return [(info.name, info.title) for info in list_suites()]


def _policies() -> Rows:
    from sysgym.agents.learned.shipped import list_shipped

    return [(one.name, one.title) for one in list_shipped()]
