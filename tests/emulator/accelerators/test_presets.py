"""Presets: the numbers of their sources, and the names in scenario files."""

from __future__ import annotations

from typing import get_args

import pytest

from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.presets import PRESETS, get_preset, list_presets
from sysgym.scenarios.errors import ScenarioError, UnknownName
from sysgym.scenarios.schema.placement import DEVICES_PER_NODE, MOST_LEVELS, PresetName

# Preset -> devices in a node; of a device: GB/s and network; of a node: uplinks and GB/s of each.
FACTS = {
    "p2-a100": (16, 235, "switch", 1, 8.4),
    "p2-v100": (8, 117.5, "ring", 1, 8.4),
    "dgx-1-v100": (8, 6 * 25, "ring", 4, 12.5),
    "dgx-2": (16, 125, "switch", 8, 12.5),
    "dgx-a100": (8, 12 * 25, "switch", 8, 25),
    "dgx-h100": (8, 18 * 25, "switch", 8, 50),
    "gb200-nvl72": (72, 18 * 50, "switch", 72, 50),
    "tpu-v3": (8, 2 * 80, "ring", 8, 2 * 80),
}


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("nodes", [1, 4])
def test_facts(name: str, nodes: int) -> None:
    devices, inside, network, uplinks, outside = FACTS[name]
    hierarchy = get_preset(name, nodes)
    outer, inner = hierarchy.levels
    assert hierarchy.cardinalities == (nodes, devices)
    assert inner.bandwidth_bytes_per_s == pytest.approx(inside * 1e9)
    assert inner.network == network
    assert outer.uplinks == uplinks
    assert outer.bandwidth_bytes_per_s == pytest.approx(outside * 1e9)
    assert outer.latency_s >= inner.latency_s


def test_p2_a100_has_the_ratio_that_448_needs() -> None:
    node, gpu = get_preset("p2-a100", 4).levels
    assert 16 * gpu.bandwidth_bytes_per_s / node.bandwidth_bytes_per_s == pytest.approx(448, abs=0.5)
    assert (gpu.latency_s, node.latency_s) == (3e-6, 14e-6)


def test_scenario_files_know_the_same_presets() -> None:
    assert list_presets() == sorted(PRESETS) == sorted(DEVICES_PER_NODE)
    assert set(get_args(PresetName)) == {*PRESETS, "drawn"}
    assert set(FACTS) == set(PRESETS) - {"single"}
    for name, devices in DEVICES_PER_NODE.items():
        assert get_preset(name, 1).n_devices == devices


@pytest.mark.parametrize("name", list_presets())
def test_every_preset_has_sources_and_says_what_is_assumed(name: str) -> None:
    hierarchy = get_preset(name)
    assert hierarchy.name == name
    assert hierarchy.n_levels <= MOST_LEVELS
    assert hierarchy.references
    assert Hierarchy.from_dict(hierarchy.to_dict()) == hierarchy
    assumed = any("assumed" in reference for reference in hierarchy.references)
    assert assumed == (name in {"p2-a100", "p2-v100", "dgx-1-v100", "gb200-nvl72"})
    assert ("assumed" in (PRESETS[name].__doc__ or "")) == assumed


def test_single_is_one_device() -> None:
    assert get_preset("single").n_devices == 1
    with pytest.raises(ScenarioError, match="a single device"):
        get_preset("single", 2)


@pytest.mark.parametrize("nodes", [0, -4])
def test_no_nodes(nodes: int) -> None:
    with pytest.raises(ScenarioError, match="at least 1") as caught:
        get_preset("dgx-2", nodes)
    assert (caught.value.key, caught.value.got) == ("levels[0].cardinality", nodes)


def test_a_prime_number_of_nodes() -> None:
    assert get_preset("dgx-a100", 7).n_devices == 56


def test_unknown_preset() -> None:
    with pytest.raises(UnknownName, match='did you mean "dgx-h100"'):
        get_preset("dgx-h10")
