"""Scenario files by family, the schema that validates them, and benchmark suites.

    from sysgym.scenarios import load_scenario
    scenario = load_scenario("dumbbell-10g", overrides={"topology.hosts_per_side": 8})

Names are imported when first used, so that ``import sysgym`` does not wait for pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sysgym.scenarios.editor_schema import json_schema
    from sysgym.scenarios.families import get_family, scenario_model
    from sysgym.scenarios.loader import (
        ScenarioInfo,
        SuiteInfo,
        find_scenario,
        list_scenarios,
        list_suites,
        load_scenario,
        load_suite,
        parse_overrides,
        scenario_from_resolved,
        scenario_names,
        suite_names,
    )
    from sysgym.scenarios.schema.congestion import CongestionScenario
    from sysgym.scenarios.schema.placement import PlacementScenario
    from sysgym.scenarios.schema.scenario import Scenario
    from sysgym.scenarios.schema.stragglers import GeneratedJobs, StragglerScenario, TraceJobs
    from sysgym.scenarios.schema.suite import (
        ContenderSpec,
        MatrixSpec,
        MetricSpec,
        Suite,
        TaskSpec,
        TrainingSpec,
        TuningSpec,
    )

__all__ = [
    "CongestionScenario",
    "ContenderSpec",
    "GeneratedJobs",
    "MatrixSpec",
    "MetricSpec",
    "PlacementScenario",
    "Scenario",
    "ScenarioInfo",
    "StragglerScenario",
    "Suite",
    "SuiteInfo",
    "TaskSpec",
    "TraceJobs",
    "TrainingSpec",
    "TuningSpec",
    "find_scenario",
    "get_family",
    "json_schema",
    "list_scenarios",
    "list_suites",
    "load_scenario",
    "load_suite",
    "parse_overrides",
    "scenario_from_resolved",
    "scenario_model",
    "scenario_names",
    "suite_names",
]

_MODULES = {
    "editor_schema": ("json_schema",),
    "families": ("get_family", "scenario_model"),
    "loader": (
        "ScenarioInfo",
        "SuiteInfo",
        "find_scenario",
        "list_scenarios",
        "list_suites",
        "load_scenario",
        "load_suite",
        "parse_overrides",
        "scenario_from_resolved",
        "scenario_names",
        "suite_names",
    ),
    "schema.scenario": ("Scenario",),
    "schema.congestion": ("CongestionScenario",),
    "schema.placement": ("PlacementScenario",),
    "schema.stragglers": ("GeneratedJobs", "StragglerScenario", "TraceJobs"),
    "schema.suite": (
        "ContenderSpec",
        "MatrixSpec",
        "MetricSpec",
        "Suite",
        "TaskSpec",
        "TrainingSpec",
        "TuningSpec",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the module that holds ``name``."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
