from __future__ import annotations

import numpy as np
import pytest

from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.topology.geometry import node_positions, node_tiers
from sysgym.scenarios import CongestionScenario, list_scenarios, load_scenario

NAMES = [info.name for info in list_scenarios("congestion")]


@pytest.mark.parametrize("name", NAMES)
def test_no_two_nodes_of_a_picture_stand_in_the_same_place(name: str) -> None:
    topology = build_topology(load_scenario(name, expect=CongestionScenario).topology)
    positions = node_positions(topology)
    assert positions.shape == (topology.n_nodes, 2)
    assert np.all((positions[:, 0] >= 0) & (positions[:, 0] <= 1))
    assert len(np.unique(np.round(positions, 6), axis=0)) == topology.n_nodes
    assert np.all(positions[: topology.n_hosts, 1] == 0)
    # No cable skips a tier, so that none is drawn through a switch between its ends.
    steps = np.abs(positions[topology.link_source, 1] - positions[topology.link_target, 1])
    assert set(steps.tolist()) <= {0.0, 1.0}


def test_tiers_of_a_fat_tree_are_edge_aggregation_and_core() -> None:
    topology = build_topology(load_scenario("fattree-k4-websearch", expect=CongestionScenario).topology)
    tiers = node_tiers(topology)
    by_name = dict(zip(topology.node_names, tiers.tolist(), strict=True))
    assert {by_name[name] for name in by_name if name.startswith("edge")} == {1}
    assert {by_name[name] for name in by_name if name.startswith("agg")} == {2}
    assert {by_name[name] for name in by_name if name.startswith("core")} == {3}
