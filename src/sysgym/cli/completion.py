"""Names for the shell's completion: ``sysgym --install-completion`` installs it.

A shell asks at every press of the tabulator key, so that nothing is read but names of files and the register
of agents: neither the simulator nor the schema of scenarios is imported.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path

TRANSPORTS = (
    "reno",
    "cubic",
    "dctcp",
    "newvegas",
    "bbr",
    "bbr_ideal",
    "bbr3",
    "bbr3_ecn",
    "swift",
    "timely",
    "timely_patched",
    "dcqcn",
    "hpcc",
    "eqds",
    "ndp",
    "homa",
    "paced",
)
"""Transports of this package; listed because importing them imports numba. A test compares the lists."""


def scenarios(incomplete: str) -> list[str]:
    """Return the names of scenarios that begin with the given text."""
    return _beginning(incomplete, (path.stem for path in _files() if path.parent.name != "suites"))


def suites(incomplete: str) -> list[str]:
    """Return the names of benchmark suites that begin with the given text."""
    return _beginning(incomplete, (path.stem for path in _files() if path.parent.name == "suites"))


def transports(incomplete: str) -> list[str]:
    """Return the names of transports that begin with the given text."""
    return _beginning(incomplete, TRANSPORTS)


def agents(incomplete: str) -> list[str]:
    """Return the names of agents that begin with the given text."""
    from sysgym.agents import list_agents

    return _beginning(incomplete, list_agents())


def learners(incomplete: str) -> list[str]:
    """Return the names of trainable agents that begin with the given text."""
    from sysgym.agents import agent_info, list_agents

    return _beginning(incomplete, (name for name in list_agents() if agent_info(name).learned))


def families(incomplete: str) -> list[str]:
    """Return the names of families that begin with the given text."""
    from sysgym.scenarios import families as declared

    return _beginning(incomplete, declared.families())


def contenders(incomplete: str) -> list[str]:
    """Return the names of transports and agents that begin with the text; after ``TRANSPORT:``, of agents."""
    transport, colon, agent = incomplete.rpartition(":")
    if colon:
        from sysgym.agents import list_agents
        from sysgym.scenarios.families import families

        playing = (list_agents(name) for name, family in families().items() if family.transports)
        return [f"{transport}:{name}" for name in _beginning(agent, itertools.chain(*playing))]
    return _beginning(incomplete, [*transports(""), *agents("")])


def everything(incomplete: str) -> list[str]:
    """Return all names with a page in ``sysgym show`` that begin with the given text."""
    from sysgym.agents.learned.shipped import list_shipped
    from sysgym.registration import ENVIRONMENTS

    policies = (one.name for one in list_shipped())
    named = [*scenarios(""), *suites(""), *transports(""), *agents(""), *policies, *ENVIRONMENTS]
    return _beginning(incomplete, named)


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name.startswith(incomplete)))


def _files() -> list[Path]:
    """Return the files of scenarios and suites in the loader's order, without reading them."""
    import sysgym.scenarios
    from sysgym.scenarios.families import families

    users = os.environ.get("SYSGYM_SCENARIO_PATH", "").split(os.pathsep)
    own = (family.scenario_folder for family in families().values())
    folders = [*map(Path, sysgym.scenarios.__path__), *dict.fromkeys(folder for folder in own if folder)]
    folders += [Path(user).expanduser() for user in users if user]
    return [
        path for folder in folders for place in ("*.toml", "*/*.toml") for path in sorted(folder.glob(place))
    ]
