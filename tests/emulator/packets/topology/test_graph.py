"""Networks of any form: built by hand, the same as other kinds, sizes, errors, files of others."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.sizing.topology_size import topology_size
from sysgym.emulator.packets.topology.geometry import plane_positions
from sysgym.emulator.packets.topology.graph_files import FileCable, read_graph
from sysgym.emulator.packets.topology.kinds import build_topology
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import MissingExtra, ScenarioError, SysgymError
from sysgym.scenarios.schema.congestion import CongestionScenario

TRIANGLE: dict[str, Any] = {
    "kind": "graph",
    "switches": ["a", "b", "c"],
    "host_switches": ["a", "a", "c"],
    "link_rate_bps": 1e9,
    "link_delay_s": 1e-5,
    "cables": [{"ends": ["a", "b"]}, {"ends": ["b", "c"], "rate_bps": 1e8, "delay_s": 5e-3}],
}
QUEUE = {"buffer_bytes": 100_000, "ecn_threshold_bytes": 30_000}


def scenario_of(**topology: Any) -> CongestionScenario:
    overrides = {"topology": TRIANGLE | topology, "queue": QUEUE}
    return load_scenario("dumbbell-10g", overrides=overrides, expect=CongestionScenario)


def test_a_graph_by_hand() -> None:
    topology = build_topology(scenario_of().topology)
    assert topology.node_names == ("h0", "h1", "h2", "a", "b", "c")
    assert topology.link_names[::2] == ("h0->a", "h1->a", "h2->c", "a->b", "b->c")
    assert topology.link_rate_bps[::2].tolist() == [1e9, 1e9, 1e9, 1e9, 1e8]
    assert topology.link_delay_s[::2].tolist() == [1e-5, 1e-5, 1e-5, 1e-5, 5e-3]
    assert topology.host_pod.tolist() == [0, 0, 2]


BUNDLE: dict[str, Any] = {
    "kind": "graph",
    "switches": ["a", "b"],
    "host_switches": ["a"] * 8 + ["b"] * 8,
    "link_rate_bps": 1e9,
    "link_delay_s": 1e-6,
    "cables": [{"ends": ["a", "b"]}, {"ends": ["b", "a"]}],
}
"""Two switches joined by two cables (link aggregation)."""


def test_parallel_cables_have_names_of_their_own_and_flows_on_each() -> None:
    topology = build_topology(scenario_of(**BUNDLE).topology)
    assert topology.link_names[-4:] == ("a->b", "b->a", "b->a#2", "a->b#2")
    assert len(set(topology.link_names)) == topology.n_links
    assert topology.links_of(["a<->b#2"]).tolist() == [topology.n_links - 2, topology.n_links - 1]
    hosts = np.repeat(np.arange(8), 8)
    routes = ecmp_routes(topology, hosts, 8 + np.tile(np.arange(8), 8), np.zeros(64, int), np.arange(64))
    between = [topology.link_names[link] for link in routes[:, 1]]
    assert set(between) == {"a->b", "a->b#2"}
    assert 16 <= between.count("a->b") <= 48
    assert topology_size(scenario_of(**BUNDLE).topology).n_links == topology.n_links


def test_a_bundle_carries_what_its_cables_do_and_survives_one_of_them() -> None:
    flows = {
        "workload": {"kind": "long_lived", "pairs": "stride", "stride": 8, "flows_per_pair": 4},
        "topology": BUNDLE,
        "queue": QUEUE,
        "faults.links": [{"link": "a<->b#2", "down_s": 0.05, "up_s": 1.0}],
    }
    scenario = load_scenario("dumbbell-10g", overrides=flows, expect=CongestionScenario)
    network = PacketNetwork(scenario, transport="dctcp")
    network.reset(seed=1)
    network.advance(0.05)
    both_bps = 8 * network.flows().delivered_bytes.sum() / 0.05
    network.advance(0.02)  # senders learn of the failure
    before = network.flows().delivered_bytes.sum()
    network.advance(0.05)
    one_bps = 8 * (network.flows().delivered_bytes.sum() - before) / 0.05
    # Hosts of either side send to the other, and ACKs share the way.
    assert 3.2e9 < both_bps < 4e9
    assert 1.7e9 < one_bps < 2e9


def test_hosts_on_every_switch() -> None:
    spec = scenario_of(host_switches=[], hosts_per_switch=2).topology
    assert build_topology(spec).host_pod.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_dumbbell_as_a_graph_is_the_dumbbell() -> None:
    """To the last bit: the same nodes, links and routes, and so the same packets."""
    as_graph = {
        "kind": "graph",
        "switches": ["west", "east"],
        "hosts_per_switch": 4,
        "link_rate_bps": 10e9,
        "link_delay_s": 1e-5,
        "cables": [{"ends": ["west", "east"], "rate_bps": 5e9}],
    }
    as_dumbbell = {
        "kind": "dumbbell",
        "hosts_per_side": 4,
        "core_rate_bps": 5e9,
        "link_rate_bps": 10e9,
        "link_delay_s": 1e-5,
    }
    found = []
    for topology in (as_graph, as_dumbbell):
        traffic = {"kind": "poisson", "load": 0.1, "flow_sizes": "websearch"}
        overrides = {"topology": topology, "workload": traffic}
        scenario = load_scenario("dumbbell-10g", overrides=overrides, expect=CongestionScenario)
        network = PacketNetwork(scenario, transport="dctcp")
        network.advance(2e-2)
        found.append((network.packet_hops, network.ports(), network.hosts()))
    assert found[0][0] == found[1][0] > 10_000
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_equal(one, other)


def test_routes_are_shortest_and_use_equal_ones() -> None:
    square = {
        "switches": ["a", "b", "c", "d"],
        "host_switches": ["a", "d"],
        "cables": [{"ends": list(pair)} for pair in ("ab", "ac", "bd", "cd")],
    }
    topology = build_topology(scenario_of(**square).topology)
    ports = np.arange(200)
    routes = ecmp_routes(topology, np.zeros(200, int), np.ones(200, int), ports, ports)
    assert routes.shape == (200, 4)
    taken = {topology.link_names[link] for link in routes[:, 1]}
    assert taken == {"a->b", "a->c"}


@pytest.mark.parametrize("name", ["wan-abilene", "jellyfish-20", "three-tier-32"])
def test_sizes_agree_with_the_built_network(name: str) -> None:
    spec = load_scenario(name, expect=CongestionScenario).topology
    topology, size = build_topology(spec), topology_size(spec)
    assert (size.n_hosts, size.n_nodes, size.n_links) == (
        topology.n_hosts,
        topology.n_nodes,
        topology.n_links,
    )
    assert size.n_edges == len(np.unique(topology.host_edge))
    pairs = np.array([(a, b) for a in range(size.n_hosts) for b in range(size.n_hosts) if a != b])
    zeros = np.zeros(len(pairs), int)
    lengths = (ecmp_routes(topology, pairs[:, 0], pairs[:, 1], zeros, zeros) >= 0).sum(axis=1)
    assert size.mean_path == pytest.approx(lengths.mean())
    assert size.longest_path == lengths.max()
    assert 0.0 < size.capacity_bps <= size.n_hosts * 10e9


def test_every_switch_of_the_jellyfish_has_four_cables() -> None:
    topology = build_topology(load_scenario("jellyfish-20", expect=CongestionScenario).topology)
    between = ~topology.from_host & ~topology.to_host
    assert np.bincount(topology.link_source[between] - topology.n_hosts).tolist() == [4] * 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"switches": ["a", "b", "b"]}, "another name for each switch"),
        ({"switches": ["a", "b", "h7"]}, "which are the names of hosts"),
        ({"switches": ["a", "b", "c d"]}, "letters, digits"),
        ({"host_switches": ["a", "x"]}, "one of topology.switches"),
        ({"host_switches": ["a"]}, "hosts in all"),
        ({"cables": [{"ends": ["a", "x"]}]}, "two of topology.switches"),
        ({"cables": [{"ends": ["a", "a"]}]}, "two different switches"),
        ({"cables": [{"ends": ["a", "b"]}]}, "a path from a to every switch"),
        ({"cables": [{"ends": ["a"]}]}, "ends"),
    ],
)
def test_errors_say_what_was_expected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        scenario_of(**change)


def test_places_in_the_plane() -> None:
    topology = build_topology(load_scenario("wan-abilene", expect=CongestionScenario).topology)
    places = plane_positions(topology)
    assert places.shape == (22, 2)
    assert np.all((places > 0.0) & (places < 1.0))
    apart = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(22, 1)]
    assert apart.min() > 0.02
    seattle, new_york = places[11], places[21]
    assert seattle[0] < new_york[0]
    np.testing.assert_array_equal(places, plane_positions(topology))


def write(path: Path, suffix: str) -> Path:
    """Write Frankfurt, Berlin and Hamburg in one of the formats."""
    cities = {"Frankfurt": (50.11, 8.68), "Berlin": (52.52, 13.40), "Hamburg": (53.55, 9.99)}
    file = path / f"germany{suffix}"
    if suffix == ".txt":
        nodes = "".join(f"  {name} ( {lon} {lat} )\n" for name, (lat, lon) in cities.items())
        links = "  L1 ( Frankfurt Berlin ) 0.00 0.00 0.00 0.00 ( 155.00 1.0 )\n"
        links += "  L2 ( Berlin Hamburg ) 0 0 0 0 ( 1 1 )\n"
        file.write_text(f"?SNDlib\n# germany\nNODES (\n{nodes})\n\nLINKS (\n{links})\n\nDEMANDS (\n)\n")
        return file
    graph = networkx.Graph()
    for number, (name, (lat, lon)) in enumerate(cities.items()):
        graph.add_node(number, label=name, Latitude=lat, Longitude=lon)
    graph.add_edge(0, 1, LinkSpeedRaw=1e9)
    graph.add_edge(1, 2)
    if suffix == ".graphml":
        networkx.write_graphml(graph, file)
    elif suffix == ".gml":
        for node in graph:
            del graph.nodes[node]["label"]  # written as the node's name
        networkx.write_gml(networkx.relabel_nodes(graph, dict(enumerate(cities))), file)
    else:
        file.write_text(json.dumps(networkx.node_link_data(graph, edges="links")))
    return file


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json", ".txt"])
def test_files_of_others(tmp_path: Path, suffix: str) -> None:
    found = read_graph(write(tmp_path, suffix))
    assert found.switches == ["frankfurt", "berlin", "hamburg"]
    first, second = found.cables
    assert (first.ends, second.ends) == (("berlin", "frankfurt"), ("berlin", "hamburg"))
    # 424 and 256 km as the crow flies.
    assert first.delay_s == pytest.approx(424e3 / 2e8, rel=0.01)
    assert second.delay_s == pytest.approx(256e3 / 2e8, rel=0.01)
    assert first.rate_bps == (None if suffix == ".txt" else 1e9)


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json", ".txt"])
def test_a_byte_order_mark_changes_nothing(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, suffix)
    before = read_graph(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_graph(path) == before


def test_names_and_parallel_links_of_files(tmp_path: Path) -> None:
    graph = networkx.MultiGraph()
    for number, name in enumerate(["Köln (West)", "Köln (West)", "h1", "alone"]):
        graph.add_node(number, label=name)
    graph.add_edge(0, 1, rate_bps=1e9, delay_s=1e-3)
    graph.add_edge(0, 1, rate_bps=2e9, delay_s=1e-3)
    graph.add_edge(1, 1)
    graph.add_edge(1, 2)
    path = tmp_path / "names.graphml"
    networkx.write_graphml(graph, path)
    found = read_graph(path)
    assert found.switches == ["k-ln-west", "k-ln-west-2", "s-h1"]
    assert found.cables[0] == FileCable(("k-ln-west", "k-ln-west-2"), 3e9, 1e-3)
    assert found.cables[1] == FileCable(("k-ln-west-2", "s-h1"), None, None)


def test_coordinates_that_are_no_degrees_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, ".txt")
    path.write_text(path.read_text().replace("8.68", "868.0"))
    assert all(cable.delay_s is None for cable in read_graph(path).cables)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.graphml", b"no XML"), ("a.gml", b"]"), ("a.json", b"[]"), ("a.txt", b"NODES"), ("a.svg", b"")],
)
def test_files_that_are_no_graphs(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SysgymError, match=name):
        read_graph(path)


SNDLIB = "NODES (\n  A ( 8.68 50.11 )\n  B( 13.40 52.52 )\n)\nLINKS (\n  L1 ( A B ) 0.00\n)\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("( A B )", "( A C )", "link L1 ends at C; expected one of the nodes"),
        ("8.68", "nan", r"node A is at \(nan 50\.11\); expected two finite numbers"),
        ("52.52", "north", r"node B is at \(13\.40 north\); expected two finite numbers"),
        ("LINKS (", "LINK (", "no section LINKS"),
    ],
)
def test_networks_of_sndlib_that_cannot_be_are_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(SNDLIB)
    assert read_graph(path).switches == ["a", "b"]
    path.write_text(SNDLIB.replace(old, new))
    with pytest.raises(SysgymError, match=rf"a\.txt: .*({words})"):
        read_graph(path)


@pytest.mark.parametrize(
    "content", ["NODES (\n" * 30_000, "NODES (\n" + "(" * 200_000 + "\n)\n", "\n" * 300_000]
)
def test_files_that_match_in_many_ways_take_no_longer(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content)
    began_s = time.process_time()
    with pytest.raises(SysgymError, match="no section"):
        read_graph(path)
    assert time.process_time() - began_s < 5.0


def test_many_equal_names_are_numbered_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    nodes = "".join(f"{'x' * 40}{number:06} ( 1.0 2.0 )\n" for number in range(20_000))
    links = "".join(f"L ( {'x' * 40}{number:06} {'x' * 40}{number + 1:06} ) 0\n" for number in range(19_999))
    path.write_text(f"NODES (\n{nodes})\nLINKS (\n{links})\n")
    began_s = time.process_time()
    found = read_graph(path)
    assert time.process_time() - began_s < 10.0
    assert found.switches[0] == "x" * 30
    assert found.switches[-1] == "x" * 30 + "-20000"


def test_a_graph_without_links_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.graphml"
    networkx.write_graphml(networkx.empty_graph(3), path)
    with pytest.raises(SysgymError, match="expected nodes and links, got 3 and 0"):
        read_graph(path)


def test_without_networkx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, ".gml")
    sndlib = write(tmp_path, ".txt")
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtra, match="graphs"):
        read_graph(path)
    assert math.isfinite(read_graph(sndlib).cables[0].delay_s or math.inf)
