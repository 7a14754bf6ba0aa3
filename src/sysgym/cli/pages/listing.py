"""``sysgym list``: lists of everything that has a name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sysgym.cli.terminal import console, table

Rows = Iterable[Sequence[str]]


def print_lists(
    kind: str | None, plugins: Sequence[Path], *, family: str | None = None, as_json: bool = False
) -> None:
    """Print one list, or all.

    A terminal gets tables. A pipe gets one line per item, with name, summary and kind separated by tabs. JSON
    is one list of objects with the keys ``kind``, ``name`` and ``summary``.

    Args:
        kind: ``envs``, ``scenarios``, ``agents``, ``transports``, ``suites`` or ``policies``; None: all.
        plugins: The user's Python files, imported first.
        family: Family to which the lists are restricted; None: all.
        as_json: Whether to print JSON.

    Raises:
        UnknownName: There is no such list or family.
    """
    from sysgym.errors import UnknownName
    from sysgym.scenarios.families import get_family

    load_plugins(plugins)
    if family is not None:
        get_family(family)
    lists: dict[str, tuple[str, str, Callable[[str | None], Rows]]] = {
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
            for name, summary in rows(family)
        ]
        print(json.dumps(found, indent=1, ensure_ascii=False))
        return
    out = console()
    if not out.is_terminal:
        for _, one, rows in chosen:
            for name, summary in rows(family):
                print(name, summary, one, sep="\t")
        return
    for title, _, rows in chosen:
        if found_rows := list(rows(family)):
            out.print(table("name", "summary", title=title, rows=found_rows))
            out.print()
    what = "policy NAME" if kind == "policies" else "NAME"  # a policy may have the name of its agent
    out.print(f"sysgym show {what} shows details", style="dim")


def load_plugins(plugins: Sequence[Path]) -> None:
    """Import the user's Python files."""
    if plugins:
        from sysgym.bench.plugins import load_plugin

        for plugin in plugins:
            load_plugin(plugin)


def _environments(family: str | None) -> Rows:
    from gymnasium.envs.registration import load_env_creator

    from sysgym.registration import ENVIRONMENTS
    from sysgym.scenarios.families import get_family

    own = None if family is None else {one.env_id for one in get_family(family).environments}
    for env_id, entry_point in ENVIRONMENTS.items():
        if own is None or env_id in own:
            yield env_id, (load_env_creator(entry_point).__doc__ or "").strip().partition("\n")[0]


def _scenarios(family: str | None) -> Rows:
    from sysgym.scenarios import list_scenarios

    return [(info.name, info.title) for info in list_scenarios(family)]


def _transports(family: str | None) -> Rows:
    from sysgym.emulator.packets.transports import get_transport, list_transports
    from sysgym.scenarios.families import get_family

    if family is not None and get_family(family).transports is None:
        return []
    return [(name, get_transport(name).summary) for name in list_transports()]


def _agents(family: str | None) -> Rows:
    from sysgym.agents import agent_info, list_agents

    for name in list_agents(family):
        info = agent_info(name, family)
        kind = "learned: " if info.learned else "reference: " if info.privileged else ""
        yield info.name if family is None else info.short_name, kind + info.summary


def _suites(family: str | None) -> Rows:
    from sysgym.scenarios import list_suites, load_scenario, load_suite

    for info in list_suites():
        if family is None or any(
            load_scenario(task.scenario).family == family for task in load_suite(info.name).tasks
        ):
            yield info.name, info.title


def _policies(family: str | None) -> Rows:
    from sysgym.agents import agent_info
    from sysgym.agents.learned.shipped import list_shipped
    from sysgym.scenarios import load_scenario

    for one in list_shipped():
        own = load_scenario(one.scenario).family if one.scenario else agent_info(one.agent).family
        if family in (None, own):
            yield one.name, one.title
