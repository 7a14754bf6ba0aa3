"""Reference of the public Python interface: which names it has, by subject. Sphinx reads their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from docs.website.environments import environments
from docs.website.markdown import Pages

_PAGES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "sysgym": (
        "Top level",
        "What ``import sysgym`` gives, registration of your own environments, and exceptions.",
        (
            "sysgym.series:record",
            "sysgym.series:read_series",
            "sysgym.series:TimeSeries",
            "sysgym.registration:register_environment",
            "sysgym.registration:register_environments",
            "sysgym.scenarios.families:register_family",
            "sysgym.errors:*",
        ),
    ),
    "scenarios": (
        "Scenarios and suites",
        "Reading scenario and suite files, and declaring a family of problems.",
        (
            "sysgym.scenarios.loader:load_scenario",
            "sysgym.scenarios.loader:list_scenarios",
            "sysgym.scenarios.loader:load_suite",
            "sysgym.scenarios.loader:list_suites",
            "sysgym.scenarios.loader:parse_overrides",
            "sysgym.scenarios.loader:ScenarioInfo",
            "sysgym.scenarios.loader:SuiteInfo",
            "sysgym.scenarios.families:families",
            "sysgym.scenarios.families:get_family",
            "sysgym.scenarios.family:*",
        ),
    ),
    "environments": (
        "Environments",
        "Classes of the environments and their vector forms, and what they accept as objects.",
        (
            "environments",
            "sysgym.envs.congestion:parallel_env",
            "sysgym.envs.rewards:Reward",
            "sysgym.envs.observations:Observer",
            "sysgym.envs.wrappers:NoisyObservation",
            "sysgym.envs.wrappers:DelayedAction",
            "sysgym.envs.congestion.datacenter.observation:FeatureGroup",
            "sysgym.envs.congestion.datacenter.rewards:register_reward",
            "sysgym.envs.congestion.flow.presets.base:Preset",
            "sysgym.envs.congestion.flow.presets.base:Feature",
            "sysgym.envs.congestion.flow.presets.base:FlowReward",
            "sysgym.envs.congestion.flow.presets:register_preset",
            "sysgym.envs.congestion.flow.presets:register_flow_reward",
        ),
    ),
    "agents": (
        "Agents and training",
        "The protocol of agents, their registry, and training from a program.",
        (
            "sysgym.agents.protocol:Agent",
            "sysgym.agents.protocol:play_episode",
            "sysgym.agents.protocol:environment_arguments",
            "sysgym.agents.protocol:is_privileged",
            "sysgym.agents.registry:make_agent",
            "sysgym.agents.registry:list_agents",
            "sysgym.agents.registry:agent_info",
            "sysgym.agents.registry:register_agent",
            "sysgym.agents.info:AgentInfo",
            "sysgym.agents.learned.training.train:train",
            "sysgym.agents.learned.learning:Learning",
        ),
    ),
    "networks": (
        "Networks",
        "The packet simulator, its transports, and what it shares with the kernel's client.",
        (
            "sysgym.emulator.packets.network:PacketNetwork",
            "sysgym.emulator.packets.counters.counted:CountedNetwork",
            "sysgym.emulator.network:Network",
            "sysgym.emulator.network:Controls",
            "sysgym.emulator.network:PerFlow",
            "sysgym.emulator.network:Readings",
            "sysgym.emulator.packets.transports.base:Transport",
            "sysgym.emulator.packets.transports.base:Receiver",
            "sysgym.emulator.packets.transports:register_transport",
            "sysgym.emulator.packets.transports:get_transport",
            "sysgym.emulator.packets.transports:list_transports",
            "sysgym.emulator.packets.transports.base:reno_increase",
            "sysgym.emulator.packets.transports.base:multiplicative_decrease",
            "sysgym.emulator.packets.transports.base:restart_from_one",
            "sysgym.emulator.packets.transports.base:parameter",
            "sysgym.emulator.linux.client:LinuxNetwork",
        ),
    ),
    "cluster": (
        "Jobs and accelerators",
        "Jobs of parallel tasks, hierarchies of accelerators, placements and programs of collectives.",
        (
            "sysgym.emulator.cluster.job:Job",
            "sysgym.emulator.cluster.generator:generate_job",
            "sysgym.emulator.cluster.execution:Execution",
            "sysgym.emulator.cluster.execution:Snapshot",
            "sysgym.emulator.accelerators.hierarchy:Hierarchy",
            "sysgym.emulator.accelerators.hierarchy:Level",
            "sysgym.emulator.accelerators.presets:get_preset",
            "sysgym.emulator.accelerators.presets:list_presets",
            "sysgym.emulator.accelerators.matrices:enumerate_matrices",
            "sysgym.emulator.accelerators.problem:PlacementProblem",
            "sysgym.emulator.accelerators.problem:Reduction",
            "sysgym.emulator.accelerators.cost.model:CostModel",
            "sysgym.emulator.accelerators.imports:read_astra_sim",
            "sysgym.emulator.accelerators.imports:read_taccl",
        ),
    ),
}
"""Page -> title, sentence and names: ``module:name``, ``module:*`` for all that a module exports or defines,
or ``environments`` for the classes of all environments.
"""


def pages() -> Pages:
    """Return the pages, in reStructuredText, and the chapter that lists them."""
    found = {
        f"api/{name}.rst": "\n".join([*_title(title), about, "", *_directives(names)])
        for name, (title, about, names) in _PAGES.items()
    }
    listed = [f"   /api/{name}" for name in _PAGES]
    found["api/index.rst"] = "\n".join(
        [
            *_title("Python interface"),
            "Public names by subject. Units are part of names: ``rate_bps``, ``delay_s``, ``queue_bytes``.",
            "",
            ".. toctree::",
            "   :maxdepth: 1",
            "",
            *listed,
            "",
        ]
    )
    return found


def _title(title: str) -> list[str]:
    return [title, "=" * len(title), ""]


def _directives(names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        for entry in _expanded(name):
            module, _, attribute = entry.partition(":")
            yield _directive(module, attribute)


def _expanded(name: str) -> list[str]:
    if name == "environments":
        entries = [(one.entry_point, one.vector_entry_point) for _, one in environments()]
        return list(dict.fromkeys(entry for pair in entries for entry in pair if entry))
    module, _, attribute = name.partition(":")
    if attribute != "*":
        return [name]
    found = import_module(module)
    if hasattr(found, "__all__"):
        return [f"{getattr(found, key).__module__}:{key}" for key in found.__all__]
    return [f"{module}:{key}" for key, value in vars(found).items() if _is_public(key, value, module)]


def _is_public(name: str, value: Any, module: str) -> bool:
    kinds = inspect.isclass(value) or inspect.isfunction(value)
    return kinds and not name.startswith("_") and value.__module__ == module


def _directive(module: str, name: str) -> str:
    thing = getattr(import_module(module), name)
    if inspect.isclass(thing):
        return f".. autoclass:: {module}.{name}\n   :members:\n   :show-inheritance:\n"
    return f".. autofunction:: {module}.{name}\n"
