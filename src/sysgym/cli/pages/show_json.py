"""``sysgym show --json`` and ``--observation``: the page as JSON, and the meaning of an observation.

Every object has the keys ``kind``, ``name`` and ``summary``. Besides:

- ``environment``: ``entry_point``, ``documentation`` (Markdown).
- ``scenario``: ``family``, ``env_id``, ``description``, ``references``, ``sha256``, ``resolved`` (every key
  of the file with its value), ``observation_index`` (null where an observation is no list of numbers).
- ``suite``: ``resolved``.
- ``transport``: ``reference``, ``ecn_capable``, ``recovery``, ``rate_driven``, ``constants``.
- ``agent``: ``family``, ``env_id``, ``learned``, ``privileged``, ``documentation``.
- ``policy``: ``agent``, ``scenario``, ``path``, ``documentation`` (Markdown).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysgym.cli.pages.listing import load_plugins
from sysgym.cli.pages.show import find
from sysgym.cli.terminal import console, table
from sysgym.scenarios.texts import printable

if TYPE_CHECKING:
    from sysgym.scenarios import Scenario


def print_json(name: str, plugins: Sequence[Path], *, kind: str | None = None) -> None:
    """Print the page of a name as one JSON object; arguments and errors as for ``show_page``."""
    load_plugins(plugins)
    found, thing = find(name, kind)
    print(json.dumps({"kind": found, **_FACTS[found](thing)}, indent=1, ensure_ascii=False))


def print_observation(
    name: str, plugins: Sequence[Path], *, kind: str | None = None, as_json: bool = False
) -> None:
    """Print the meaning of every number in the observation of a scenario's environment.

    A terminal gets a table; a pipe gets one line per number, with index and meaning separated by a tab.

    Args:
        name: Scenario name or file.
        plugins: The user's files.
        kind: Kind given by the user; None: any.
        as_json: Whether to print a JSON list instead.

    Raises:
        SysgymError: The name is no scenario, or its observation is no list of numbers.
    """
    from sysgym.errors import SysgymError

    load_plugins(plugins)
    found, scenario = find(name, kind)
    if found != "scenario":
        raise SysgymError(f"--observation: expected a scenario, {name} is of kind {found}")
    index = observation_index(scenario)
    if index is None:
        raise SysgymError(
            f"--observation: the observation of {scenario.env_id} is no list of numbers; see: sysgym show"
            f" {scenario.env_id}"
        )
    out = console()
    if as_json:
        print(json.dumps(index, indent=1, ensure_ascii=False))
    elif out.is_terminal:
        rows = [(str(number), meaning) for number, meaning in enumerate(index)]
        out.print(table(">index", "value", title=f"{scenario.env_id} in {scenario.name}", rows=rows))
    else:
        for number, meaning in enumerate(index):
            print(number, printable(meaning), sep="\t")


def observation_index(scenario: Scenario) -> list[str] | None:
    """Return the meaning and unit of every number in the observation.

    None if the observation of the scenario's environment is no list of numbers.
    """
    import gymnasium as gym

    env = gym.make(scenario.env_id, scenario=scenario.resolved(), disable_env_checker=True)
    try:
        index: list[str] | None = getattr(env.unwrapped, "observation_index", None)
        return index
    finally:
        env.close()


def _environment(env_id: str) -> dict[str, Any]:
    from gymnasium.envs.registration import load_env_creator

    from sysgym.registration import ENVIRONMENTS

    entry_point = ENVIRONMENTS[env_id]
    documentation = inspect.getdoc(load_env_creator(entry_point)) or ""
    summary = documentation.partition("\n")[0]
    return {"name": env_id, "summary": summary, "entry_point": entry_point, "documentation": documentation}


def _scenario(scenario: Scenario) -> dict[str, Any]:
    resolved = scenario.resolved()
    return {
        "name": scenario.name,
        "summary": scenario.title,
        **{key: resolved[key] for key in ("family", "env_id", "description", "references")},
        "sha256": scenario.sha256(),
        "resolved": resolved,
        "observation_index": observation_index(scenario),
    }


def _suite(suite: Any) -> dict[str, Any]:
    return {"name": suite.name, "summary": suite.title, "resolved": suite.model_dump(mode="json")}


def _transport(transport: Any) -> dict[str, Any]:
    names = ("name", "summary", "reference", "ecn_capable", "recovery", "rate_driven")
    constants = [constant._asdict() for constant in transport.constants]
    return {**{name: getattr(transport, name) for name in names}, "constants": constants}


def _agent(info: Any) -> dict[str, Any]:
    facts = {name: getattr(info, name) for name in ("summary", "family", "env_id", "learned", "privileged")}
    documentation = "" if info.learned else inspect.getdoc(info.factory()) or ""
    return {"name": info.short_name, **facts, "documentation": documentation}


def _policy(policy: Any) -> dict[str, Any]:
    return {
        "name": policy.name,
        "summary": policy.title,
        "agent": policy.agent,
        "scenario": policy.scenario,
        "path": str(policy.path),
        "documentation": policy.card,
    }


_FACTS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "environment": _environment,
    "scenario": _scenario,
    "suite": _suite,
    "transport": _transport,
    "agent": _agent,
    "policy": _policy,
}
