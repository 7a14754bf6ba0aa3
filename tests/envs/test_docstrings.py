"""The classes' documentation keeps its promises: all sections, and tables that match the code.

The sections of all environments, the tables of placement's and stragglers'; those of congestion's have tests
of their own.
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest

from sysgym.agents import agent_info, list_agents
from sysgym.envs.bursts.mux import BurstMux
from sysgym.envs.bursts.observation import MUX_COLUMNS, plan_columns
from sysgym.envs.bursts.plan import BurstPlan
from sysgym.envs.collectives.observation import CANDIDATE_COLUMNS, SYSTEM_COLUMNS
from sysgym.envs.collectives.synthesis import CollectiveSynthesis
from sysgym.envs.compression.grad_compress import GradCompress
from sysgym.envs.compression.observation import COLUMNS as RUN_COLUMNS
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.flow.flow_cc import FlowCC
from sysgym.envs.diagnosis.observation import JOB_COLUMNS as DIAGNOSED_JOB_COLUMNS
from sysgym.envs.diagnosis.observation import PART_COLUMNS
from sysgym.envs.diagnosis.training_diagnosis import TrainingDiagnosis
from sysgym.envs.failslow.fail_slow import FailSlow
from sysgym.envs.failslow.observation import COLUMNS as FAIL_SLOW_COLUMNS
from sysgym.envs.pipelines.observation import JOB_COLUMNS as PIPELINE_JOB_COLUMNS
from sysgym.envs.pipelines.observation import ROW_COLUMNS
from sysgym.envs.pipelines.pipeline_tuning import PipelineTuning
from sysgym.envs.placement import jobs_observation, observation
from sysgym.envs.placement.joint import JointPlacement
from sysgym.envs.placement.multijob import MultiJobPlacement
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.program import ReductionProgram
from sysgym.envs.stragglers.mitigation import StragglerMitigation
from sysgym.envs.stragglers.observation import JOB_COLUMNS, TASK_COLUMNS
from sysgym.envs.stragglers.prediction import StragglerPrediction
from sysgym.envs.tuning.observation import BUCKET_COLUMNS
from sysgym.envs.tuning.observation import JOB_COLUMNS as TUNED_JOB_COLUMNS
from sysgym.envs.tuning.tuning import TrainingTuning
from sysgym.scenarios import list_scenarios, load_scenario

HEADINGS = [
    "Description",
    "Action Space",
    "Observation Space",
    "Rewards",
    "Starting State",
    "Episode End",
    "Arguments",
    "Info",
    "Registered Configurations",
    "Baselines",
    "References",
    "Version History",
]
PLACEMENT_COLUMNS: dict[Any, dict[str, Any]] = {
    CollectivePlacement: {
        "levels": observation.LEVEL_COLUMNS,
        "axes": observation.AXIS_COLUMNS,
        "reductions": observation.REDUCTION_COLUMNS,
        "next": observation.NEXT_COLUMNS,
    },
    ReductionProgram: {
        "levels": observation.SPAN_COLUMNS,
        "progress": observation.PROGRESS_COLUMNS,
    },
    JointPlacement: {
        "candidates": observation.CANDIDATE_COLUMNS,
        "budget": observation.BUDGET_COLUMNS,
    },
    MultiJobPlacement: {
        "jobs": jobs_observation.JOB_COLUMNS,
        "nodes": jobs_observation.NODE_COLUMNS,
    },
}
STRAGGLER_COLUMNS: dict[Any, dict[str, Any]] = {
    cls: {"tasks": TASK_COLUMNS, "job": JOB_COLUMNS} for cls in (StragglerPrediction, StragglerMitigation)
}
COLLECTIVE_COLUMNS: dict[Any, dict[str, Any]] = {
    CollectiveSynthesis: {"candidates": CANDIDATE_COLUMNS, "system": SYSTEM_COLUMNS}
}
VECTORS = (GradCompress, BurstPlan, BurstMux, FailSlow)
TRAINING_COLUMNS: dict[Any, dict[str, Any]] = {
    TrainingTuning: {"buckets": BUCKET_COLUMNS, "job": TUNED_JOB_COLUMNS},
    PipelineTuning: {"rows": ROW_COLUMNS, "job": PIPELINE_JOB_COLUMNS},
    TrainingDiagnosis: {"parts": PART_COLUMNS, "job": DIAGNOSED_JOB_COLUMNS},
}
COLUMNS = {**PLACEMENT_COLUMNS, **STRAGGLER_COLUMNS, **COLLECTIVE_COLUMNS, **TRAINING_COLUMNS}
every = pytest.mark.parametrize("cls", list(COLUMNS))


def section(cls: Any, heading: str) -> str:
    """Return the text under a heading."""
    return re.split(r"^## ", inspect.getdoc(cls).split(f"## {heading}\n")[1], flags=re.M)[0]  # type: ignore[union-attr]


def tables(cls: Any, heading: str) -> dict[str, list[list[str]]]:
    """Return a section's tables by their first heading, rows of cells."""
    found: dict[str, list[list[str]]] = {}
    for table in re.findall(r"(?:^\|.*\n?)+", section(cls, heading), flags=re.M):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        found[rows[0][0]] = rows[2:]
    return found


def shapes_as_told(env: Any) -> dict[str, str]:
    """Return the shapes of what is observed, with the letters of the documentation."""
    letters: dict[int, str] = {}
    if isinstance(env, JointPlacement):
        k = env.scenario.joint.candidates
        letters = {2 * k: "2K", k: "K"}
    elif isinstance(env, CollectiveSynthesis):
        letters = {env.scenario.candidates.most: "K"}
    elif isinstance(env, TrainingTuning):
        rows = 1 + env.scenario.control.most_buckets
        letters = {3 * rows: "3 R", rows: "R"}
    elif isinstance(env, PipelineTuning):
        rows = env.scenario.control.most_rows
        letters = {3 * rows: "3 R", rows: "R"}
    elif isinstance(env, TrainingDiagnosis):
        rows = env.scenario.control.most_parts
        letters = {2 * rows: "2 R", rows: "R"}
    elif not isinstance(env, tuple(PLACEMENT_COLUMNS)):
        letters = {400: "N", 30: "2C"}
    shapes = {}
    for name, box in env.observation_space.items():
        sizes = [letters.get(size, str(size)) for size in box.shape]
        shapes[name] = f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
    return shapes


@pytest.mark.parametrize("cls", [DatacenterCC, FlowCC, *VECTORS, *COLUMNS])
def test_all_sections_in_order(cls: Any) -> None:
    assert re.findall(r"^## (.*)$", inspect.getdoc(cls) or "", flags=re.M) == HEADINGS


@every
def test_the_observation_tables_are_the_columns(cls: Any) -> None:
    found = tables(cls, "Observation Space")
    for key, columns in COLUMNS[cls].items():
        assert found.pop(f"Column of `{key}`") == [
            [f"`{name}`", one.meaning, one.unit] for name, one in columns.items()
        ]
    assert {row[0].strip("`"): row[1] for row in found.pop("Key")} == shapes_as_told(cls())
    assert found == {}


@pytest.mark.parametrize("cls", list(PLACEMENT_COLUMNS))
def test_placements_observations_have_the_columns(cls: Any) -> None:
    space = cls().observation_space
    for key, columns in COLUMNS[cls].items():
        assert space[key].shape[-1] == len(columns)


@pytest.mark.parametrize("cls", list(PLACEMENT_COLUMNS))
def test_the_number_of_actions_is_told(cls: Any) -> None:
    told = re.search(r"`Discrete\(([\w ]+)\)`", section(cls, "Action Space"))
    assert told
    expected = "2 K" if cls is JointPlacement else str(cls().action_space.n)
    assert told[1] == expected


@pytest.mark.parametrize(
    ("cls", "columns"),
    [(GradCompress, RUN_COLUMNS), (BurstMux, MUX_COLUMNS), (FailSlow, FAIL_SLOW_COLUMNS)],
)
def test_an_observation_that_is_a_vector_is_its_columns(cls: Any, columns: Any) -> None:
    found = tables(cls, "Observation Space")["Column of the observation"]
    assert found == [[f"`{name}`", one.meaning, one.unit] for name, one in columns.items()]
    assert f"({len(columns)},)" in section(cls, "Observation Space")
    assert cls().observation_index == list(columns)


def test_the_observation_of_a_plan_is_its_columns() -> None:
    """Columns that repeat by GPU count are told by their first and last one."""
    columns = plan_columns(4)
    told = [row[0] for row in tables(BurstPlan, "Observation Space")["Column of the observation"]]
    ends = [re.findall(r"`(\w+)`", cell) for cell in told]
    names = list(columns)
    assert [name for pair in ends for name in pair if name not in names] == []
    covered = [name for pair in ends for name in names[names.index(pair[0]) : names.index(pair[-1]) + 1]]
    assert covered == names == BurstPlan().observation_index
    assert f"({len(columns)},)" in section(BurstPlan, "Observation Space")


@pytest.mark.parametrize("cls", [*VECTORS, *COLUMNS])
def test_every_reward_is_described_with_its_terms(cls: Any) -> None:
    described = {row[0].strip("`"): row[1] for row in tables(cls, "Rewards")["Name"]}
    assert list(described) == list(cls.REWARDS)
    for name, reward in cls.REWARDS.items():
        assert re.findall(r"`(\w+)`:", described[name]) == list(reward.weights)


@every
def test_every_argument_is_described(cls: Any) -> None:
    table = {row[0].strip("`"): row[2] for row in tables(cls, "Arguments")["Parameter"]}
    parameters = inspect.signature(cls.__init__).parameters
    assert list(table) == list(parameters)[1:]
    for name, default in table.items():
        assert default.strip("`").strip('"') == str(parameters[name].default)


@pytest.mark.parametrize("info", [info for info in list_scenarios() if info.family == "placement"])
def test_every_placement_scenario_is_listed_where_it_is_played(info: Any) -> None:
    env_id = load_scenario(info.name).env_id
    listing = [
        cls for cls in PLACEMENT_COLUMNS if f"`{info.name}`" in section(cls, "Registered Configurations")
    ]
    assert [cls.__name__ for cls in listing] == [env_id.removeprefix("sysgym/").removesuffix("-v0")]


@pytest.mark.parametrize("cls", list(STRAGGLER_COLUMNS))
@pytest.mark.parametrize("info", [info for info in list_scenarios() if info.family == "stragglers"])
def test_every_straggler_scenario_is_listed(cls: Any, info: Any) -> None:
    assert f"`{info.name}`" in section(cls, "Registered Configurations")


@pytest.mark.parametrize("cls", [DatacenterCC, FlowCC, *VECTORS, *COLUMNS])
def test_the_names_of_baselines_are_those_of_agents_of_the_family(cls: Any) -> None:
    family = cls().scenario.family
    named = re.findall(r"`([a-z0-9_]+/)?([a-z0-9_]+)`", section(cls, "Baselines"))
    agents = [f"{prefix}{name}" for prefix, name in named if prefix or name in list_agents(family)]
    assert agents
    assert {agent_info(name).family for name in agents} <= {family, ""}


@pytest.mark.parametrize("cls", [DatacenterCC, FlowCC, *VECTORS, *COLUMNS])
def test_the_example_of_overrides_fits_the_default_scenario(cls: Any) -> None:
    (example,) = re.findall(r"in dotted form, such as `(\{.*?\})`", inspect.getdoc(cls) or "")
    cls(overrides=ast.literal_eval(example)).close()
