"""Scenarios of the placement family: included ones, varied values, and errors for broken files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sysgym.scenarios import PlacementScenario, list_scenarios, load_scenario, scenario_from_resolved

WriteText = Callable[[str], Path]
Refused = Callable[..., None]

FILE = """\
schema = 1
name = "mine"
family = "placement"
env_id = "sysgym/CollectivePlacement-v0"
title = "Mine"
description = "A scenario for tests."

[system]
source = "levels"
levels = [
    { name = "node", cardinality = 4, bandwidth_bytes_per_s = 8.4e9, latency_s = 14e-6 },
    { name = "gpu", cardinality = 16, bandwidth_bytes_per_s = 235e9, latency_s = 3e-6, network = "switch" },
]

[problem]
axes = [4, 16]
reductions = [{ axes = [0], size_bytes = 1e9 }]

[joint]
budget = 20

[splits.train]
seeds = [0, 9]
vary = { "joint.noise_log_sd" = [0.1, 0.2] }

[splits.validation]
seeds = [10, 19]

[splits.test]
seeds = [20, 29]
"""

LEVELS = FILE[FILE.index('source = "levels"') : FILE.index("\n[problem]")]
PRESET = 'source = "preset"\npreset = "p2-a100"\nnodes = 4\n'


BROKEN: dict[str, tuple[Any, ...]] = {
    "unknown key of a level": (
        "latency_s = 14e-6 }",
        "latency_s = 14e-6, nics = 8 }",
        "system.levels[0].nics",
        8,
        "a key of [system.levels[0]]: name, cardinality",
    ),
    "no instance of a level": (
        "cardinality = 4",
        "cardinality = 0",
        "system.levels[0].cardinality",
        0,
        "at least 1",
    ),
    "negative level": (
        "cardinality = 16",
        "cardinality = -16",
        "system.levels[1].cardinality",
        -16,
        "at least 1",
    ),
    "level without bandwidth": (
        "bandwidth_bytes_per_s = 8.4e9",
        "bandwidth_bytes_per_s = 0.0",
        "system.levels[0].bandwidth_bytes_per_s",
        0.0,
        "more than 0",
    ),
    "uplinks for unequal blocks": (
        "latency_s = 14e-6",
        "latency_s = 14e-6, uplinks = 3",
        "system.levels[0].uplinks",
        3,
        "a divisor of 16, the devices inside a node",
        "equal block",
    ),
    "one name for two levels": (
        'name = "gpu"',
        'name = "node"',
        "system.levels[1].name",
        "node",
        "a name that no other level has",
    ),
    "unknown network": (
        'network = "switch"',
        'network = "rings"',
        "system.levels[1].network",
        "rings",
        '"ring"',
        "did you mean",
    ),
    "unknown source": ('source = "levels"', 'source = "level"', "system.source", "level", '"levels"'),
    "levels beside a preset": (
        'source = "levels"',
        'source = "preset"\npreset = "dgx-2"',
        "system.levels",
        ["node", "gpu"],
        'none with source = "preset"',
        'source = "levels"',
    ),
    "no levels": (
        LEVELS,
        'source = "levels"\n',
        "system.levels",
        [],
        'something with source = "levels"',
        "add the key",
    ),
    "no preset": (LEVELS, "nodes = 1\n", "system.preset", None, "something", "add the key preset"),
    "unknown preset": (
        LEVELS,
        PRESET.replace("p2-a100", "p2-a10"),
        "system.preset",
        "p2-a10",
        '"p2-a100"',
        "did you mean",
    ),
    "no file": (LEVELS, 'source = "taccl"\n', "system.file", "", "something", "add the key file"),
    "nodes of a file that has its own": (
        LEVELS,
        'source = "astra-sim"\nfile = "a.yml"\nnodes = 2\n',
        "system.nodes",
        2,
        "no nodes",
    ),
    "nodes of a single device": (LEVELS, PRESET.replace("p2-a100", "single"), "system.nodes", 4, "one node"),
    "axes that do not fit the levels": (
        "axes = [4, 16]",
        "axes = [4, 8]",
        "problem.axes",
        "4 x 8 = 32",
        "64, the number of devices",
    ),
    "axes that do not fit the preset": (
        LEVELS,
        PRESET.replace("4", "2"),
        "problem.axes",
        "4 x 16 = 64",
        "32, the number of devices",
    ),
    "axes of a drawn system": (
        LEVELS,
        'source = "drawn"\n',
        "problem.axes",
        [4, 16],
        "no axes if the system is drawn",
    ),
    "axis of no device": ("axes = [4, 16]", "axes = [0, 16]", "problem.axes[0]", 0, "at least 1"),
    "too many axes": (
        "axes = [4, 16]",
        "axes = [4, 2, 2, 2, 2]",
        "problem.axes",
        [4, 2, 2, 2, 2],
        "at most 4 entries",
    ),
    "reduction over an axis that is not there": (
        "{ axes = [0]",
        "{ axes = [2]",
        "problem.reductions[0].axes",
        [2],
        "axes from 0 to 1",
    ),
    "reduction over an axis twice": (
        "{ axes = [0]",
        "{ axes = [1, 1]",
        "problem.reductions[0].axes",
        [1, 1],
        "each axis once",
    ),
    "reduction of less than nothing": (
        "size_bytes = 1e9",
        "size_bytes = -1.0",
        "problem.reductions[0].size_bytes",
        -1.0,
        "at least 0",
    ),
    "sizes backwards": (
        "axes = [4, 16]",
        "axes = [4, 16]\nsize_min_bytes = 1e10",
        "problem.size_min_bytes",
        1e10,
        "at most size_max_bytes = 4e+09",
    ),
    "axes backwards": (
        "axes = [4, 16]",
        "axes = [4, 16]\naxes_min = 4",
        "problem.axes_min",
        4,
        "at most axes_max = 3",
    ),
    "sizes of nothing that are drawn": (
        "reductions = [{ axes = [0], size_bytes = 1e9 }]",
        "size_min_bytes = 0.0",
        "problem.size_min_bytes",
        0.0,
        "more than 0",
    ),
    "no such algorithm": (
        "axes = [4, 16]",
        'axes = [4, 16]\nalgorithm = "rings"',
        "problem.algorithm",
        "rings",
        '"ring"',
    ),
    "levels of drawn systems backwards": (
        "[problem]",
        "[system.drawn]\nlevels_min = 4\n\n[problem]",
        "system.drawn.levels_min",
        4,
        "at most levels_max = 3",
    ),
    "drawn systems that are all too large": (
        "[problem]",
        "[system.drawn]\ncardinalities = [16]\n\n[problem]",
        "system.drawn.devices_max",
        128,
        "at least 4096, the smallest system of levels_max = 3 levels",
    ),
    "drawn latency of nothing": (
        "[problem]",
        "[system.drawn]\nlatency_min_s = 0.0\n\n[problem]",
        "system.drawn.latency_min_s",
        0.0,
        "more than 0",
    ),
    "share that cannot spread so far": (
        "budget = 20",
        "background_share_mean = 0.0",
        "joint.background_share_sd",
        0.1,
        "less than 0, the most that a share with the mean 0 has",
    ),
    "spaces that vary": (
        '"joint.noise_log_sd" = [0.1, 0.2]',
        '"joint.candidates" = [24, 48]',
        'splits.train.vary."joint.candidates"',
        [24, 48],
        "other than problem.program_steps, joint.candidates",
    ),
    "varied value out of range": (
        "[0.1, 0.2]",
        "[0.1, 20.0]",
        'splits.train.vary."joint.noise_log_sd"',
        20.0,
        "at most 3",
    ),
    "varied nodes that do not fit the axes": (
        LEVELS + "\n[problem]\naxes = [4, 16]\n",
        PRESET + "\n[problem]\naxes = [4, 16]\n",
        'splits.train.vary."system.nodes"',
        2,
        "32, the number of devices",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file(name: str, refused: Refused) -> None:
    text = FILE
    if "varied nodes" in name:
        text = text.replace('"joint.noise_log_sd" = [0.1, 0.2]', '"system.nodes" = [2, 4]')
    refused(text, *BROKEN[name])


def test_a_system_of_its_own(write_text: WriteText) -> None:
    scenario = load_scenario(write_text(FILE), expect=PlacementScenario)
    assert scenario.system.n_devices == 64
    assert not scenario.system.is_drawn
    assert scenario.system.levels[0].uplinks == 1
    assert scenario.problem.reductions[0].axes == (0,)
    assert scenario_from_resolved(scenario.resolved()) == scenario
    assert {scenario.draw("train", seed).joint.noise_log_sd for seed in range(10)} == {0.1, 0.2}


@pytest.mark.parametrize("size", ["0.0", "1e12"])
def test_sizes_from_nothing_to_a_terabyte(size: str, write_text: WriteText) -> None:
    path = write_text(FILE.replace("size_bytes = 1e9", f"size_bytes = {size}"))
    scenario = load_scenario(path, expect=PlacementScenario)
    assert scenario.problem.reductions[0].size_bytes == float(size)


@pytest.mark.parametrize(
    ("levels", "axes"), [((3, 5), (5, 3)), ((1, 1), (1,)), ((7, 1), (1, 7)), ((1, 11), (11,))]
)
def test_primes_and_one_device_load(
    levels: tuple[int, int], axes: tuple[int, ...], write_text: WriteText
) -> None:
    text = FILE.replace("cardinality = 4,", f"cardinality = {levels[0]},")
    text = text.replace("cardinality = 16", f"cardinality = {levels[1]}")
    text = text.replace("axes = [4, 16]", f"axes = {list(axes)}")
    scenario = load_scenario(write_text(text), expect=PlacementScenario)
    assert scenario.system.n_devices == levels[0] * levels[1]


def test_a_split_may_mix_presets_and_drawn_systems(write_text: WriteText) -> None:
    text = FILE.replace(LEVELS, PRESET).replace("axes = [4, 16]\n", "")
    varied = text.replace(
        '"joint.noise_log_sd" = [0.1, 0.2]', '"system.preset" = ["drawn", "dgx-2"], "system.nodes" = [1, 2]'
    )
    scenario = load_scenario(write_text(varied), expect=PlacementScenario)
    drawn = {
        (system.preset, system.is_drawn, system.n_devices)
        for seed in range(40)
        for system in [scenario.draw("train", seed).system]
    }
    assert drawn == {("drawn", True, None), ("dgx-2", False, 16), ("dgx-2", False, 32)}
    assert scenario.system.n_devices == 64


SHIPPED = {
    "joint-unseen": "sysgym/JointPlacement-v0",
    "p2-systems": "sysgym/CollectivePlacement-v0",
    "placement-unseen": "sysgym/CollectivePlacement-v0",
    "program-p2": "sysgym/ReductionProgram-v0",
    "program-unseen": "sysgym/ReductionProgram-v0",
}


def test_what_ships() -> None:
    assert SHIPPED.items() <= {info.name: info.env_id for info in list_scenarios("placement")}.items()


@pytest.mark.parametrize("name", [name for name in SHIPPED if "unseen" in name])
def test_systems_of_the_tests_are_unseen(name: str) -> None:
    splits = load_scenario(name, expect=PlacementScenario).splits
    seen = {*splits.train.vary["system.preset"], *splits.validation.vary["system.preset"]}
    assert not seen & set(splits.test.vary["system.preset"])
    assert "drawn" in splits.train.vary["system.preset"]
    assert "drawn" not in splits.test.vary["system.preset"]


@pytest.mark.parametrize("name", ["p2-systems", "program-p2"])
def test_p2_s_systems(name: str) -> None:
    scenario = load_scenario(name, expect=PlacementScenario)
    for split in ("train", "validation", "test"):
        assert scenario.splits[split].vary == {
            "system.preset": ("p2-a100", "p2-v100"),
            "system.nodes": (2, 4),
        }


@pytest.mark.parametrize("name", [name for name in SHIPPED if "program" in name])
def test_programs_do_one_reduction_over_two_levels_or_more(name: str) -> None:
    problem = load_scenario(name, expect=PlacementScenario).problem
    assert (problem.reductions_min, problem.reductions_max) == (1, 1)
    assert problem.program_levels_min == 2
    assert problem.program_steps == 5


def test_joint_is_judged_with_programs() -> None:
    assert load_scenario("joint-unseen", expect=PlacementScenario).problem.programs == "synthesized"


@pytest.mark.parametrize("name", SHIPPED)
def test_numbers_say_where_they_come_from(name: str) -> None:
    """Every number of a file has a comment, or its table has one for all of them."""
    path = next(info.path for info in list_scenarios("placement") if info.name == name)
    table = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            table = line
        key, equals, value = line.partition(" = ")
        if equals and value[0].isdigit() and key != "schema":
            assert "#" in line or "ours, all of it" in table, line
