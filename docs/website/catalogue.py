"""Pages of transports, agents, policies, scenarios and suites, made from what the package declares."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from docs.website.environments import slug
from docs.website.links import Links
from docs.website.markdown import Pages, code, from_docstring, page, section, table, toctree
from docs.website.results import SIGNS, Results
from sysgym.agents import AgentInfo, agent_info, list_agents
from sysgym.agents.learned.shipped import list_shipped
from sysgym.emulator.packets.transports import Transport, get_transport, list_transports
from sysgym.scenarios import Scenario, Suite, list_scenarios, list_suites, load_scenario, load_suite
from sysgym.scenarios.families import families

_TRAINED = "sysgym.agents.learned.loading:load_agent"
"""Entry point of the agents that ``sysgym train`` trains by stable-baselines3."""

_CALLBACKS = ("on_start", "on_ack", "on_loss", "on_timeout", "on_tick", "on_restart", "on_grant")


def pages(results: Sequence[Results], links: Links) -> Pages:
    """Return the pages of everything that has a name, besides environments, and the chapters that list them.

    Args:
        results: Published results.
        links: Translation of the links in model cards.
    """
    return {
        **_chapter("transports", "Transports, one by one", _TRANSPORTS, transports(results)),
        **_chapter("agents", "Agents", _AGENTS, agents(results)),
        **_chapter("policies", "Trained policies", _POLICIES, policies(links)),
        **_chapter("scenarios", "Scenarios, one by one", _SCENARIOS, scenarios()),
        **_chapter("suites", "Suites, one by one", _SUITES, suites(results)),
    }


_TRANSPORTS = (
    "A transport is the congestion control law of the hosts. [Transports](/transports.md) compares them, and"
    " [Adding a transport](/adding-a-transport.md) explains how to write one."
)
_AGENTS = (
    "An agent maps observations to actions. Heuristics and trained policies have the same interface;"
    " [Adding an agent](/adding-an-agent.md) explains it."
)
_POLICIES = "Trained policies that are included in the package, each with its model card."
_SCENARIOS = (
    "A scenario describes the world of an episode. [Scenarios and suites](/scenarios.md) explains the format,"
    " and [Keys of a scenario file](/scenario-keys.md) lists all keys."
)
_SUITES = "A suite is a benchmark: scenarios, contenders and seeds. `sysgym bench NAME` runs it."

Entries = dict[str, tuple[str, str, str]]
"""Path of a page -> name, summary and text."""


def _chapter(folder: str, title: str, about: str, entries: Entries) -> Pages:
    rows = [(f"[`{name}`](/{path})", summary) for path, (name, summary, _) in entries.items()]
    listed = page(title, about, table(("Name", "Summary"), rows), toctree(entries, hidden=True))
    return {f"{folder}/index.md": listed, **{path: text for path, (*_, text) in entries.items()}}


def transports(results: Sequence[Results]) -> Entries:
    """Return the pages of all transports."""
    found = {}
    for transport in map(get_transport, list_transports()):
        law = transport.on_ack if transport.receiver is None else transport.receiver.on_data
        module = inspect.getmodule(law)
        found[f"transports/{transport.name}.md"] = (
            transport.name,
            transport.summary,
            page(
                f"`{transport.name}`",
                f"{transport.summary}.",
                f"Source: {transport.reference}." if transport.reference else "",
                from_docstring(inspect.getdoc(module) or "") if module is not None else "",
                section("Use", code(f"$ sysgym run dumbbell-10g --contender {transport.name}", "console")),
                section("Properties", table(("Property", "Value", "Meaning"), _properties(transport))),
                section("Callbacks", table(("Callback", "What it does"), _callbacks(transport))),
                section("Published Scores", *scores(transport.name, results, list_transports())),
                section("Code", code(inspect.getsource(module), "python")) if module is not None else "",
            ),
        )
    return found


def _properties(transport: Transport) -> Iterator[tuple[str, str, str]]:
    attributes = (inspect.getdoc(Transport) or "").partition("Attributes:\n")[2]
    meanings = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE))
    named = {*_CALLBACKS, "name", "summary", "reference", "receiver", "linux"}
    for field in fields(transport):
        value = getattr(transport, field.name)
        if field.name not in named and value != ():
            yield f"`{field.name}`", f"`{value}`", from_docstring(" ".join(meanings[field.name].split()))
    form = "of its own" if transport.linux is not None else "the same"
    yield "`linux`", form, from_docstring(" ".join(meanings["linux"].split()))
    yield "driven by receivers", "yes" if transport.receiver is not None else "no", ""


def _callbacks(transport: Transport) -> Iterator[tuple[str, str]]:
    senders = [(name, getattr(transport, name)) for name in _CALLBACKS]
    law = transport.receiver
    receivers = [(f"receiver.{name}", getattr(law, name)) for name in ("on_data", "on_tick")] if law else []
    for name, function in (*senders, *receivers):
        function = getattr(function, "py_func", function)
        if function.__name__ not in {"do_nothing", "receive_nothing"}:
            yield f"`{name}`", from_docstring((inspect.getdoc(function) or "").partition("\n\n")[0])


def agents(results: Sequence[Results]) -> Entries:
    """Return the pages of all agents."""
    found: dict[str, tuple[str, str, str]] = {}
    described: set[Any] = set()
    for info in map(agent_info, list_agents()):
        kind = "learned; " if info.learned else "reference; " if info.privileged else ""
        found[f"agents/{info.family or 'general'}/{info.short_name}.md"] = (
            info.name,
            kind + info.summary,
            page(
                f"`{info.name}`",
                f"{_sentence(info.summary)}",
                table(("Property", "Value"), _agent_facts(info)),
                section("Use", code(_agent_use(info), "console")),
                _documentation(info, described),
                section("Published Scores", *scores(info.short_name, *_of_family(info, results))),
            ),
        )
    return found


def _agent_facts(info: AgentInfo) -> Iterator[tuple[str, str]]:
    plays = f"[`{info.env_id}`](/environments/{slug(info.env_id)}.md)" if info.env_id else ""
    yield "Family", info.family or "all"
    yield (
        "Environments",
        plays or ("those of its family" if info.family else "those whose spaces it supports"),
    )
    yield "Learned", "yes, it needs a checkpoint" if info.learned else "no"
    yield "Privileged", "yes, it reads more than the observation" if info.privileged else "no"
    if info.transport:
        yield "Transport", f"`{info.transport}`"
    if isinstance(info.entry, str):
        yield "Entry point", f"`{info.entry}`"


def _agent_use(info: AgentInfo) -> str:
    fitting = (one.name for one in list_scenarios(info.family or None) if info.env_id in ("", one.env_id))
    scenario = next(fitting)
    if info.learned and (info.trainer or info.algorithm or info.entry == _TRAINED):
        return f"$ sysgym train {info.short_name} {scenario}"
    checkpoint = " --checkpoint FILE" if info.learned else ""
    return f"$ sysgym run {scenario} --agent {info.short_name}{checkpoint}"


def _documentation(info: AgentInfo, described: set[Any]) -> str:
    """Return the class or function of an agent; of agents that share it, the first one is in the index."""
    if info.learned:  # one loader for all of them, and torch
        return ""
    factory = info.factory()
    if not inspect.isclass(factory):
        return from_docstring(inspect.getdoc(factory) or "")
    again = "\n   :no-index:" if factory in described else ""
    described.add(factory)
    directive = f"```{{eval-rst}}\n.. autoclass:: {factory.__module__}.{factory.__qualname__}{again}\n```"
    module = inspect.getmodule(factory)
    return section("Documentation", from_docstring(inspect.getdoc(module) or "") if module else "", directive)


def _of_family(info: AgentInfo, results: Iterable[Results]) -> tuple[list[Results], list[str]]:
    """Return the published tables of an agent's family, and the names of its agents."""
    names = {one.name for one in list_scenarios(info.family or None)}
    agents = [agent_info(name, info.family).short_name for name in list_agents(info.family or None)]
    return [one for one in results if one.scenario in names], agents


def scores(contender: str, results: Iterable[Results], others: Iterable[str]) -> Iterator[str]:
    """Yield what a contender and its variants scored in the published tables.

    Args:
        contender: Its name.
        results: The tables.
        others: Names of all that could take part.
    """
    others = list(others)
    found = [(one, rows) for one in results if (rows := one.rows_of(contender, others))]
    if found:
        yield SIGNS
    for one, rows in found:
        yield section(
            f"{one.scenario}, suite {one.suite}",
            f"{_sentence(one.about)}" if one.about else "",
            table(("Contender", *one.metrics), [(name, *row) for name, row in rows.items()], texts=1),
            f"[All contenders](/{one.page}.md) of the suite [{one.suite}](/suites/{one.suite}.md).",
            level=3,
        )


def policies(links: Links) -> Entries:
    """Return the pages of the policies in the package: their model cards."""
    return {
        f"policies/{one.name.replace('@', '-on-')}.md": (
            one.name,
            one.title,
            links.on_site(one.card, f"agents/checkpoints/{one.name}.md"),
        )
        for one in list_shipped()
    }


def scenarios() -> Entries:
    """Return the pages of all scenarios."""
    found = {}
    for info in list_scenarios():
        scenario = load_scenario(info.name)
        found[f"scenarios/{info.name}.md"] = (
            info.name,
            info.title,
            page(
                f"`{info.name}`",
                _sentence(info.title),
                scenario.description,
                f"Environment: [`{info.env_id}`](/environments/{slug(info.env_id)}.md).",
                section("In Words", *_in_words(scenario)),
                section("Splits", table(("Split", "Seeds", "Varies"), _splits(scenario))),
                section("References", "\n".join(f"- {reference}" for reference in scenario.references)),
                section("File", code(Path(info.path).read_text(encoding="utf-8"), "toml")),
            ),
        )
    return found


def _in_words(scenario: Scenario) -> Iterator[str]:
    for heading, text in families()[scenario.family].describe_scenario(scenario):
        yield f"**{heading.strip()}** {text.strip()}" if heading.strip() else text.strip()


def _splits(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    for name in ("train", "validation", "test"):
        split = scenario.splits[name]
        varied = [f"`{key}`" for key in (*split.vary, *split.ranges)]
        yield name, f"{split.first_seed} to {split.seeds[1]}", ", ".join(varied) or "the seed only"


def _suite_names() -> list[str]:
    return [info.name for info in list_suites()]


def suites(results: Sequence[Results]) -> Entries:
    """Return the pages of all suites."""
    found = {}
    for info in list_suites():
        suite = load_suite(info.name)
        published = sorted({one.page for one in results if one.suite == info.name})
        found[f"suites/{info.name}.md"] = (
            info.name,
            info.title,
            page(
                f"`{info.name}`",
                _sentence(info.title),
                suite.description,
                section(
                    "Use", code(f"$ sysgym bench {info.name}\n$ sysgym report results/{info.name}", "console")
                ),
                section("Tasks", table(("Scenario", "Split", "Episodes", "Contenders"), _tasks(suite))),
                section("Trainings", table(("Agent", "Scenario", "Steps", "Seeds"), _trainings(suite))),
                section(
                    "Metrics",
                    table(
                        ("Metric", "Heading", "Better"),
                        [(f"`{one.name}`", one.label, one.direction) for one in suite.metrics],
                    ),
                ),
                section("Results", *(f"Published in [{name}](/{name}.md)." for name in published)),
                section("File", code(Path(info.path).read_text(encoding="utf-8"), "toml")),
            ),
        )
    return found


def _tasks(suite: Suite) -> Iterator[tuple[Any, ...]]:
    for task in suite.tasks:
        names = ", ".join(f"`{name}`" for name in task.contender_names)
        yield _scenario_link(task.scenario), task.split, len(task.seed_values), names


def _trainings(suite: Suite) -> Iterator[tuple[Any, ...]]:
    seeds: dict[tuple[str, str, int], list[int]] = {}
    for one in suite.training:
        seeds.setdefault((one.agent, one.scenario, one.total_steps), []).append(one.seed)
    for (agent, scenario, steps), those in seeds.items():
        yield f"`{agent}`", _scenario_link(scenario), f"{steps:,}", ", ".join(map(str, those))


def _scenario_link(name: str) -> str:
    return f"[`{name}`](/scenarios/{name}.md)"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


KINDS: dict[str, Callable[[], list[str]]] = {
    "transports": list_transports,
    "agents": list_agents,
    "suites": _suite_names,
    "scenarios": lambda: [info.name for info in list_scenarios()],
}
"""Folder of pages -> function that returns the names that have one."""
