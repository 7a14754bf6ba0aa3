"""``sysgym list``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sysgym.cli.terminal import console, table

Rows = Iterable[Sequence[str]]


def print_lists(kind: str | None, plugins: Sequence[Path]) -> None:
    """Print one list, or all.

    Args:
        kind: ``envs``, ``scenarios``, ``agents``, ``transports``, ``suites`` or ``policies``; None: all.
        plugins: The user's files, imported first.
    """
    load_plugins(plugins)
    lists: dict[str, tuple[str, Callable[[], Rows]]] = {
        "envs": ("Environments", _environments),
        "scenarios": ("Scenarios", _scenarios),
        "transports": ("Transports", _transports),
        "agents": ("Agents", _agents),
        "suites": ("Benchmark suites", _suites),
        "policies": ("Trained policies of this package", _policies),
    }
    out = console()
    for name, (title, rows) in lists.items():
        if kind in (None, name):
            out.print(table("name", "what it is", title=title, rows=rows()))
            out.print()
    what = "policy NAME" if kind == "policies" else "NAME"  # a policy may be called as its agent
    out.print(f"[dim]sysgym show {what} tells more of each[/dim]")


def load_plugins(plugins: Sequence[Path]) -> None:
    """Import the user's files."""
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
        kind = "learned: " if info.learned else "upper bound: " if info.privileged else ""
        yield info.name, kind + info.summary


def _suites() -> Rows:
    from sysgym.scenarios import list_suites

    return [(info.name, info.title) for info in list_suites()]


def _policies() -> Rows:
    from sysgym.agents.learned.shipped import list_shipped

    return [(one.name, one.title) for one in list_shipped()]
