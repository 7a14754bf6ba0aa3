"""Systems: named topologies, faults, other tools' files, and ways between devices."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.collectives.faults import with_faults
from sysgym.emulator.collectives.generators import named_network
from sysgym.emulator.collectives.hops import MOST_PATHS, hops_of
from sysgym.emulator.collectives.imports import read_astra_sim, read_taccl
from sysgym.emulator.collectives.network import Link, Network
from sysgym.scenarios.errors import ScenarioError, SysgymError
from sysgym.scenarios.schema.collectives import Faults, parse_topology


@pytest.mark.parametrize(
    ("topology", "devices", "links", "hops"),
    [
        ("ring-2", 2, 2, 2),
        ("ring-6", 6, 12, 12),
        ("fully-connected-5", 5, 20, 20),
        ("hypercube-16", 16, 64, 64),
        ("torus-4x4", 16, 64, 64),
        ("torus-2x3", 6, 6 + 12, 6 + 12),  # two neighbours are joined by one cable
        ("mesh-3x3x2", 18, 66, 66),
        ("dgx1-1", 8, 32, 32),
        ("nodes-1x4", 4, 8, 12),
        ("rails-2x3", 6, 24, 2 * 6 + 3 * 2),
        ("leaf-spine-2x2x2", 4, 16, 4 + 8 * 2),
    ],
)
def test_a_topology_has_its_links_and_hops(
    topology: str, devices: int, links: int, hops: int, world: SimpleNamespace
) -> None:
    network = named_network(world.system(topology))
    assert (network.n_devices, network.n_links, hops_of(network).n_hops) == (devices, links, hops)
    assert network.n_devices == parse_topology(topology).n_devices  # type: ignore[union-attr]


def test_the_dgx1_has_the_table_of_links_of_msccl_tools(world: SimpleNamespace) -> None:
    table = {
        0: {1: 2, 2: 1, 3: 1, 4: 2},
        1: {0: 2, 2: 1, 3: 2, 5: 1},
        2: {0: 1, 1: 1, 3: 2, 6: 2},
        3: {0: 1, 1: 2, 2: 2, 7: 1},
        4: {0: 2, 5: 2, 6: 1, 7: 1},
        5: {1: 1, 4: 2, 6: 1, 7: 2},
        6: {2: 2, 4: 1, 5: 1, 7: 2},
        7: {3: 1, 4: 1, 5: 2, 6: 2},
    }
    network = named_network(world.system("dgx1-1"))
    found: dict[int, dict[int, int]] = {}
    for link in network.links:
        found.setdefault(link.source, {})[link.target] = round(link.bandwidth_bytes_per_s / 1e9)
    assert found == table


@pytest.mark.parametrize(
    "topology", ["ring-1", "ring-4x4", "hypercube-6", "torus-2x2x2x2", "nodes-4", "cube-8"]
)
def test_a_wrong_name_is_an_error_that_lists_what_there_is(topology: str, world: SimpleNamespace) -> None:
    assert parse_topology(topology) is None
    with pytest.raises(ValueError, match=r"leaf-spine-\(leaves\)x\(devices of a leaf\)x\(spines\)"):
        world.system(topology)


def test_nics_divide_the_devices_of_a_node(world: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="a divisor of 8"):
        world.system("nodes-2x8", nics=3)


def test_latency_is_from_device_to_device(world: SimpleNamespace) -> None:
    keys = {"latency_s": 1e-6, "uplink_latency_s": 4e-6}
    for topology, inside, outside in (
        ("nodes-2x2", (0, 1), (0, 2)),
        ("rails-2x2", (0, 1), (0, 2)),
        ("leaf-spine-2x2x1", (0, 1), (0, 2)),
    ):
        hops = hops_of(named_network(world.system(topology, **keys)))
        latency_s = {(a, b): x for a, b, x in zip(hops.sources, hops.targets, hops.latencies_s, strict=True)}
        assert latency_s[inside] == pytest.approx(1e-6)
        assert latency_s[outside] == pytest.approx(4e-6)


def test_equal_ways_over_spines_are_hops_of_their_own_up_to_a_limit(world: SimpleNamespace) -> None:
    for spines, ways in ((1, 1), (3, 3), (6, MOST_PATHS)):
        hops = hops_of(named_network(world.system(f"leaf-spine-2x1x{spines}")))
        assert hops.n_hops == 2 * ways
        assert len({tuple(path) for path in hops.paths.tolist()}) == 2 * ways


def test_distances_are_least_times_over_several_hops(world: SimpleNamespace) -> None:
    hops = hops_of(named_network(world.system("ring-6", latency_s=1.0)))
    distances_s = hops.distances_s(1e9)
    assert distances_s[0].tolist() == pytest.approx([0, 2, 4, 6, 4, 2])


def test_failed_cables_leave_all_devices_connected(world: SimpleNamespace) -> None:
    network = named_network(world.system("ring-5"))
    for seed in range(5):
        broken = with_faults(network, Faults(failed_cables=3), np.random.default_rng(seed))
        assert broken.n_links == network.n_links - 2, "without a second cable the ring falls apart"
    torus = named_network(world.system("torus-4x4"))
    assert with_faults(torus, Faults(failed_cables=3), np.random.default_rng(1)).n_links == 64 - 6


def test_slow_cables_are_slow_in_both_directions(world: SimpleNamespace) -> None:
    network = named_network(world.system("torus-4x4"))
    faulty = with_faults(network, Faults(slow_cables=2, slow_ratio=0.5), np.random.default_rng(0))
    slow = {link[:2] for link in faulty.links if link.bandwidth_bytes_per_s == 0.5e9}
    assert len(slow) == 4
    assert slow == {(target, source) for source, target in slow}
    again = with_faults(network, Faults(slow_cables=2, slow_ratio=0.5), np.random.default_rng(0))
    assert again.links == faulty.links


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ([Link(0, 0, 1.0, 0.0)], "two different vertices"),
        ([Link(0, 1, 0.0, 0.0)], "a bandwidth above 0"),
        ([Link(0, 1, 1.0, -1.0)], "latency of at least 0"),
        ([Link(0, 1, 1.0, 0.0)], "each of which reaches every other"),
    ],
)
def test_a_network_is_checked(links: list[Link], words: str) -> None:
    with pytest.raises(SysgymError, match=words):
        Network("mine", ("a", "b"), 2, tuple(links))


def _yaml(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_astra_sims_file_of_three_kinds_of_dimensions(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    text = (
        "topology: [FullyConnected, Ring, Switch]\nnpus_count: [3, 4, 2]\n"
        "bandwidth: [100, 50, 25]\nlatency: [500, 1000, 2000]\n"
    )
    network = read_astra_sim(_yaml(tmp_path / "three.yml", text))
    assert (network.n_devices, len(network.vertices) - 24) == (24, 12)
    inner = {link.target for link in network.links if link.source == 0 and link.target < 24}
    assert inner == {1, 2, 3, 9}, "1, 2 fully connected, 3 and 9 on the ring; 12 beyond a switch"
    hops = hops_of(network)
    assert hops.latencies_s[hops.fastest[0, 12]] == pytest.approx(4e-6)
    assert hops.bandwidths_bytes_per_s[hops.fastest[0, 1]] == 100 * 2**30


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        (("Ring", "Torus"), "topology[0]", '"Ring" or "FullyConnected" or "Switch"'),
        (("[4]", "[4, 4]"), "npus_count", "1 values"),
        (("[4]", "[1]"), "npus_count", "2 to 1024 devices"),
        (("50", "tbd"), "bandwidth[0]", "finite number"),
    ],
)
def test_errors_of_astra_sims_file(tmp_path: Path, change: tuple[str, str], key: str, words: str) -> None:
    pytest.importorskip("yaml")
    text = "topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n".replace(*change)
    with pytest.raises(ScenarioError) as raised:
        read_astra_sim(_yaml(tmp_path / "wrong.yml", text))
    assert key in str(raised.value)
    assert words in str(raised.value)


MATRICES: dict[str, Any] = {
    "name": "Three_1MB",
    "gpus_per_node": 3,
    "alpha": 0.5,
    "links": [[0, 1, 1], [2, 0, 0], [0, 1, 0]],
    "betas": [[0, 20, 40], [20, 0, 0], [0, 20, 0]],
}


def _json(path: Path, data: dict[str, Any]) -> Path:
    path.write_text(json.dumps(data))
    return path


def test_taccls_matrices_are_links_from_column_to_row(tmp_path: Path) -> None:
    network = read_taccl(_json(tmp_path / "three.json", MATRICES), 1)
    found = {link[:2]: link.bandwidth_bytes_per_s for link in network.links}
    two_links = (0, 1)
    assert found == pytest.approx({(1, 0): 50e9, (2, 0): 25e9, two_links: 100e9, (1, 2): 50e9})
    assert {link.latency_s for link in network.links} == {0.5e-6}


def test_taccls_ndv2_is_the_mesh_of_a_dgx1_with_one_nic(tmp_path: Path, world: SimpleNamespace) -> None:
    data = {
        "name": "NDv2_1MB",
        "gpus_per_node": 8,
        "nics_per_node": 1,
        "alpha": 0.3,
        "node_betas_list": [23, 46],
        "remote_alpha": 2.6,
        "remote_beta": 105,
    }
    network = read_taccl(_json(tmp_path / "ndv2.json", data), 2)
    dgx1 = named_network(world.system("dgx1-2"))
    assert [link[:2] for link in network.links] == [link[:2] for link in dgx1.links]
    assert network.links[0].bandwidth_bytes_per_s == pytest.approx(1e6 / 23e-6)
    single = read_taccl(tmp_path / "ndv2.json", 1)
    assert (single.n_devices, single.n_links) == (8, 32)


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"links": [[0, 1], [1, 0]]}, "links", "3 lists of 3 numbers"),
        ({"links": [[0, 1, 1], [1, 0, 0], [0, 0, 0]]}, "links", "every GPU reaches every other"),
        ({"links": [[1, 1, 1], [1, 0, 0], [0, 1, 0]]}, "links[0][0]", "no link to itself"),
        ({"betas": [[0, 0, 40], [20, 0, 0], [0, 20, 0]]}, "betas[0][1]", "more than 0"),
        ({"name": "Three"}, "name", "message size"),
        ({"gpus_per_node": 1}, "gpus_per_node", "2 to 1024 devices"),
    ],
)
def test_errors_of_taccls_file(tmp_path: Path, change: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        read_taccl(_json(tmp_path / "wrong.json", MATRICES | change), 1)
    assert key in str(raised.value)
    assert words in str(raised.value)
