"""``sysgym show``: a page on an environment, scenario, suite, transport, agent or policy."""

from __future__ import annotations

import inspect
import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markdown import Markdown
from rich.padding import Padding

from sysgym.cli.pages.listing import load_plugins
from sysgym.cli.terminal import console, page, table

if TYPE_CHECKING:
    from pydantic import BaseModel

    from sysgym.agents import AgentInfo
    from sysgym.agents.learned.shipped import Shipped
    from sysgym.scenarios import Scenario, Suite, TaskSpec
    from sysgym.scenarios.schema.tables import Range

_WORDS: Mapping[object, str] = {True: "yes", False: "no", None: "-"}
_MOST_TABLES = 8
"""Tables of a list that are shown; a network of many cables would hide everything else."""
_IDENTITY = {"schema_version", "name", "family", "env_id", "title", "description", "references", "splits"}


KINDS = ("environment", "scenario", "suite", "transport", "agent", "policy")
"""Kinds of pages."""


def show_page(
    name: str, plugins: Sequence[Path], *, kind: str | None = None, picture: Path | None = None
) -> None:
    """Print the page of a name.

    Args:
        name: Environment id, name from ``sysgym list``, or path to a TOML file.
        plugins: The user's Python files, imported first.
        kind: One of ``KINDS``; None: any.
        picture: File for a picture of a scenario.

    Raises:
        UnknownName: Nothing has this name.
        ScenarioError: The file is invalid.
        SysgymError: A picture was requested of something that has none.
    """
    from sysgym.errors import SysgymError

    load_plugins(plugins)
    found, thing = find(name, "scenario" if kind is None and picture is not None else kind)
    if found == "scenario":
        command = _scenario(thing, name, picture)
    elif picture is not None:
        raise SysgymError(f"--picture: expected a scenario, {name} was given as {kind}")
    elif found == "suite":
        command = _suite(thing, name)
    else:
        command = _PAGES[found](thing)
    if command:
        reads_plugins = not command.startswith("export ")
        own = "".join(f" --plugin {shlex.quote(str(plugin))}" for plugin in plugins if reads_plugins)
        page().print(f"sysgym {command}{own}", style="dim", soft_wrap=True)
    if picture is not None:
        print(f"Picture: {picture}")


def find(name: str, kind: str | None = None) -> tuple[str, Any]:
    """Return the kind of a name, and the object.

    Args:
        name: As in :func:`show_page`.
        kind: As in :func:`show_page`.

    Returns:
        One of ``KINDS``; an environment's id, a scenario, a suite, a transport, an agent's declaration, or a
        policy.

    Raises:
        UnknownName: Nothing has this name.
        ScenarioError: The file is invalid.
    """
    from sysgym.agents import agent_info, list_agents
    from sysgym.agents.learned.shipped import list_shipped
    from sysgym.emulator.packets.transports import get_transport, list_transports
    from sysgym.errors import UnknownName
    from sysgym.registration import ENVIRONMENTS
    from sysgym.scenarios import load_scenario, load_suite, scenario_names, suite_names
    from sysgym.scenarios.names import environment_names

    if kind is not None and kind not in KINDS:
        raise UnknownName("kind of thing", kind, KINDS)
    scenarios, suites = set(scenario_names()), set(suite_names())
    policies = {one.name: one for one in list_shipped()}
    is_file = _is_file(name) and name not in list_agents()  # "stragglers/oracle" is an agent
    namespaces = {known.partition("/")[0] for known in ENVIRONMENTS}
    environment = next((known for known in ENVIRONMENTS if name in environment_names(known)), None)
    if kind is None:
        if environment is not None or (name.partition("/")[0] in namespaces and not os.path.exists(name)):
            kind = "environment"
        elif name in scenarios or (is_file and not _is_suite(name)):
            kind = "scenario"
        elif name in suites or is_file:
            kind = "suite"
        elif name in list_transports():
            kind = "transport"
        elif name in list_agents():
            kind = "agent"
        elif name in policies:
            kind = "policy"
        else:
            known = [*ENVIRONMENTS, *scenarios, *suites, *list_transports(), *list_agents(), *policies]
            raise UnknownName("environment, scenario, suite, transport, agent or policy", name, known)
    if kind == "environment" and environment is None:
        raise UnknownName("environment", name, ENVIRONMENTS)
    if kind == "policy" and name not in policies:
        raise UnknownName("policy", name, policies)
    things: dict[str, Callable[[], Any]] = {
        "environment": lambda: environment,
        "scenario": lambda: load_scenario(name),
        "suite": lambda: load_suite(name),
        "transport": lambda: get_transport(name),
        "agent": lambda: agent_info(name),
        "policy": lambda: policies[name],
    }
    return kind, things[kind]()


def _policy(policy: Shipped) -> str:
    """Print the card of a policy that is included in the package."""
    _print_markdown(policy.card)
    return ""


def _print_markdown(text: str) -> None:
    """Print Markdown, formatted in a terminal and unchanged in a pipe."""
    out = console()
    if out.is_terminal:
        out.print(Markdown(text))
    else:
        print(text.strip())


def _is_file(name: str) -> bool:
    return name.endswith(".toml") or "/" in name


def _is_suite(path: str) -> bool:
    """Return whether a file has tasks; False if it cannot be read, since loading it reports the reason."""
    from sysgym.errors import ScenarioError
    from sysgym.scenarios.reading import parse_toml, read_text

    try:
        return "tasks" in parse_toml(read_text(path, "TOML file"), path)
    except ScenarioError:
        return False


def _indented(text: str) -> Padding:
    return Padding(text, (0, 0, 0, 2), expand=False)


def _heading(title: str, *lines: str) -> None:
    out = page()
    out.print(title, style="bold")
    for line in lines:
        if line:
            out.print(_indented(line.strip().replace("\n", " ")))
    out.print()


def _environment(env_id: str) -> str:
    from gymnasium.envs.registration import load_env_creator

    from sysgym.registration import ENVIRONMENTS
    from sysgym.scenarios.families import families

    documentation = inspect.getdoc(load_env_creator(ENVIRONMENTS[env_id])) or ""
    _print_markdown(f"# {env_id}\n\n{documentation}")
    for family in families().values():
        if env_id in (one.env_id for one in family.environments):
            out, meanings = page(), family.evaluation_of(env_id).metric_meanings()
            out.print()
            out.print(
                table(
                    "metric",
                    "meaning",
                    title='info["episode_metrics"] on the last step',
                    rows=meanings.items(),
                )
            )
    return ""


def _scenario(scenario: Scenario, given: str, picture: Path | None = None) -> str:
    """Print the page of a scenario; return the command that plays it.

    Args:
        scenario: The scenario.
        given: Its name or its file, as the user gave it: what another command takes, too.
        picture: As in :func:`show_page`.
    """
    from sysgym.errors import SysgymError
    from sysgym.scenarios.families import families, get_family
    from sysgym.scenarios.family import load_entry

    out, family = page(), get_family(scenario.family)
    if picture is not None and not family.draw:
        drawn = ", ".join(other.name for other in families().values() if other.draw)
        raise SysgymError(
            f"--picture: expected a scenario of a family with pictures ({drawn});"
            f" {scenario.name} is of {family.name}"
        )
    if picture is not None:
        load_entry(family.draw)(scenario, picture)  # before a reader such as head closes the pipe
    _heading(f"{scenario.name}: {scenario.title}", scenario.description, f"Environment: {scenario.env_id}.")
    paragraphs = family.describe_scenario(scenario)
    for heading, text in paragraphs:
        out.print(heading, style="bold")
        out.print(_indented(text))
    if paragraphs:
        out.print()
    for name, field in type(scenario).model_fields.items():
        if name not in _IDENTITY and getattr(scenario, name) is not None:
            rows = _rows(getattr(scenario, name))
            out.print(
                table("key", ">value", "meaning", title=f"[{name}]  {field.description or ''}", rows=rows)
            )
            out.print()
    splits = [
        (name, f"{split.first_seed} to {split.seeds[1]}", _vary(split.vary, split.ranges))
        for name, split in ((name, scenario.splits[name]) for name in ("train", "validation", "test"))
    ]
    out.print(table("split", "seeds", "varies from episode to episode", title="Splits", rows=splits))
    out.print()
    if scenario.references:
        out.print("References", style="bold")
        for reference in scenario.references:
            out.print(_indented(reference))
        out.print()
    reference = family.evaluation.reference
    return f"run {shlex.quote(given)} --contender {reference}"


def _tables(value: Any) -> dict[str, BaseModel]:
    """Return suffix of a key's name -> table, for one table, a list of tables or tables by name."""
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return {"": value}
    if isinstance(value, Mapping):
        return {f".{key}": item for key, item in value.items() if isinstance(item, BaseModel)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return {f"[{index}]": item for index, item in enumerate(value) if isinstance(item, BaseModel)}
    return {}


def _rows(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    from sysgym.scenarios.units import metric_text

    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        tables = _tables(value)
        if len(tables) > _MOST_TABLES:
            yield f"{prefix}{name}", f"{len(tables)} tables", field.description or ""
            continue
        if tables:
            for key, table_ in tables.items():
                yield from _rows(table_, f"{prefix}{name}{key}.")
            continue
        if isinstance(value, bool) or value is None or isinstance(value, str):
            text = _WORDS.get(value, str(value))
        elif isinstance(value, Mapping):
            text = ", ".join(f"{key} = {item}" for key, item in value.items()) or "-"
        elif isinstance(value, Sequence):
            text = ", ".join(map(str, value)) or "-"
        else:
            text = metric_text(name, float(value), exact=True)
        yield f"{prefix}{name}", text, (field.description or "").partition(". ")[0]


def _vary(vary: Mapping[str, Sequence[Any]], ranges: Mapping[str, Range]) -> str:
    from sysgym.scenarios.units import metric_text

    def text(key: str, value: Any) -> str:
        return metric_text(key, value, exact=True) if isinstance(value, float | int) else str(value)

    listed = [f"{key}: {', '.join(text(key, value) for value in values)}" for key, values in vary.items()]
    drawn = [
        f"{key}: {text(key, ends.low)} to {text(key, ends.high)}" + (", log" if ends.scale == "log" else "")
        for key, ends in ranges.items()
    ]
    return "; ".join([*listed, *drawn])


def _suite(suite: Suite, given: str) -> str:
    """Print the page of a suite; return the command that plays it.

    Args:
        suite: The suite.
        given: Its name or its file, as the user gave it.
    """
    out = page()
    _heading(f"{suite.name}: {suite.title}", suite.description)
    tasks = [
        (
            task.scenario,
            f"{task.split}, {len(task.seed_values)} seeds" + _tuning(task),
            ", ".join(task.contender_names),
        )
        for task in suite.tasks
    ]
    out.print(table("scenario", "episodes", "contenders", title="Tasks", rows=tasks))
    out.print()
    if suite.training:
        trainings = [
            (spec.agent, spec.scenario, f"{spec.total_steps:,}".replace(",", " "), str(spec.seed))
            for spec in suite.training
        ]
        out.print(table("agent", "scenario", ">steps", ">seed", title="Trainings", rows=trainings))
        out.print()
    metrics = [(spec.name, f"{spec.label}, {spec.direction} is better") for spec in suite.metrics]
    if metrics:
        out.print(table("metric", "meaning", title="Metrics", rows=metrics))
    else:
        out.print("Metrics: those of each scenario's family")
    out.print()
    return f"bench {shlex.quote(given)}"


def _tuning(task: TaskSpec) -> str:
    if task.constants is None:
        return ""
    return f"; constants by {task.constants.score} on {task.constants.episodes} of {task.constants.split}"


def _transport(transport: Any) -> str:
    """Print the page of a transport; return a command that plays it, if there is one."""
    law = transport.on_ack if transport.receiver is None else transport.receiver.on_data
    module = inspect.getmodule(law)
    _heading(
        f"{transport.name}: {transport.summary}",
        f"Source: {transport.reference}" if transport.reference else "",
    )
    rows = [
        ("ECN", "yes: its packets may be marked" if transport.ecn_capable else "no"),
        ("loss recovery", _LOSS_RECOVERY[transport.recovery]),
        (
            "rate",
            "set by the agent" if transport.rate_driven else "set by the transport; an agent's rate is a cap",
        ),
        *([("switches", _switches(transport))] if transport.needs_classes > 1 else []),
        *((f"constant {one.name}", _constant(one)) for one in transport.constants),
        ("code", str(inspect.getsourcefile(law))),
    ]
    out = page()
    out.print(table("", "", rows=rows))
    if module is not None and module.__doc__:
        out.print()
        out.print(module.__doc__.strip())
    if transport.rate_driven:
        return ""
    out.print()
    keys = f" --set queue.classes={transport.needs_classes}" if transport.needs_classes > 1 else ""
    keys += " --set queue.trim=true" if transport.needs_trimming else ""
    return f"run dumbbell-10g --contender {transport.name}{keys}"


_LOSS_RECOVERY = {
    "sack": "by time, or by selective ACKs (transport.loss_detection)",
    "new_reno": "by time, or by duplicate and partial ACKs (transport.loss_detection)",
    "told": "the receiver tells the sender",
}


def _constant(constant: Any) -> str:
    """Return in words what a constant is by default, its bounds and its meaning."""
    bounds = (constant.least, constant.most)
    words = f" ({bounds[0]:g} to {bounds[1]:g})" if all(map(math.isfinite, bounds)) else ""
    meaning = f": {constant.meaning}" if constant.meaning else ""
    return f"{constant.value:g}{words}{meaning}"


def _switches(transport: Any) -> str:
    """Return in words what a transport needs of switches."""
    trimming = ", and packet trimming" if transport.needs_trimming else ""
    return f"{transport.needs_classes} or more classes of packets{trimming}"


def _default_scenario(env_id: str) -> str:
    """Return the default scenario of an environment."""
    from gymnasium.envs.registration import load_env_creator

    from sysgym.registration import ENVIRONMENTS

    default = inspect.signature(load_env_creator(ENVIRONMENTS[env_id])).parameters["scenario"].default
    return str(default)


def _agent(info: AgentInfo) -> str:
    """Print the page of an agent; return the command that makes or plays it."""
    from sysgym.scenarios import list_scenarios
    from sysgym.scenarios.families import family_with_transports

    family = info.family or family_with_transports().name
    env_id = info.env_id or next(known.env_id for known in list_scenarios() if known.family == family)
    scenario = _default_scenario(env_id)
    kind = "Learned agent: needs a checkpoint." if info.learned else "Heuristic."
    if info.privileged:
        kind = "Reference, not a competitor: reads more than the observation."
    _heading(f"{info.short_name}: {info.summary}", kind)
    out = page()
    if info.learned:
        if info.name == "onnx":
            return "export CHECKPOINT --out FILE.onnx"
        constants = getattr(getattr(info.factory(), "form", None), "constants", ())
        if constants:
            out.print(
                "Constants before a search, and their bounds. A contender sets them in place of those of"
            )
            out.print(f"its checkpoint: {info.short_name},NAME=VALUE", markup=False)
            out.print(table("", "", rows=[(f"constant {one.name}", _constant(one)) for one in constants]))
            out.print()
        return f"train {info.short_name} {scenario}"
    out.print(inspect.getdoc(info.factory()) or "")
    out.print()
    return f"run {scenario} --contender {info.short_name}"


_PAGES: Mapping[str, Callable[[Any], str]] = {
    "environment": _environment,
    "transport": _transport,
    "agent": _agent,
    "policy": _policy,
}
