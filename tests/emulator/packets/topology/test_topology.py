from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from sysgym.emulator.packets.topology import Cable, Topology, build_topology
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName
from sysgym.scenarios.schema.congestion import (
    CongestionScenario,
    DumbbellTopology,
    FatTreeTopology,
    LeafSpineTopology,
    LinkOverride,
    ParkingLotTopology,
    SingleSwitchTopology,
    TopologyTable,
)


def dumbbell(hosts_per_side: int, core_rate_bps: float | None = None) -> DumbbellTopology:
    return DumbbellTopology(
        kind="dumbbell",
        hosts_per_side=hosts_per_side,
        core_rate_bps=core_rate_bps,
        link_rate_bps=1e9,
        link_delay_s=2e-6,
    )


def single_switch(hosts: int) -> SingleSwitchTopology:
    return SingleSwitchTopology(kind="single_switch", hosts=hosts, link_rate_bps=1e9, link_delay_s=2e-6)


def fat_tree(k: int) -> FatTreeTopology:
    return FatTreeTopology(kind="fat_tree", k=k, link_rate_bps=1e9, link_delay_s=2e-6)


def leaf_spine(
    leaves: int, spines: int, hosts_per_leaf: int, uplink_rate_bps: float | None = None
) -> LeafSpineTopology:
    return LeafSpineTopology(
        kind="leaf_spine",
        leaves=leaves,
        spines=spines,
        hosts_per_leaf=hosts_per_leaf,
        uplink_rate_bps=uplink_rate_bps,
        link_rate_bps=1e9,
        link_delay_s=2e-6,
    )


def parking_lot(bottlenecks: int, core_rate_bps: float | None = None) -> ParkingLotTopology:
    return ParkingLotTopology(
        kind="parking_lot",
        bottlenecks=bottlenecks,
        core_rate_bps=core_rate_bps,
        link_rate_bps=1e9,
        link_delay_s=2e-6,
    )


EVERY_FORM: list[TopologyTable] = [
    dumbbell(1),
    dumbbell(2),
    dumbbell(7, 3e8),
    single_switch(2),
    single_switch(33),
    fat_tree(2),
    fat_tree(4),
    fat_tree(8),
    leaf_spine(1, 1, 2),
    leaf_spine(4, 2, 8, 4e9),
    leaf_spine(9, 4, 1),
    parking_lot(1),
    parking_lot(5, 5e8),
]


@pytest.mark.parametrize("spec", EVERY_FORM, ids=lambda spec: f"{spec.kind}-{spec.n_hosts}")
def test_every_form_keeps_the_documented_order(spec: TopologyTable) -> None:
    topology = build_topology(spec)
    assert topology.kind == spec.kind
    assert topology.n_hosts == spec.n_hosts
    assert topology.node_names[: topology.n_hosts] == tuple(f"h{host}" for host in range(spec.n_hosts))
    links = np.arange(topology.n_links)
    np.testing.assert_array_equal(topology.link_source[links ^ 1], topology.link_target)
    np.testing.assert_array_equal(topology.link_rate_bps[links ^ 1], topology.link_rate_bps)
    np.testing.assert_array_equal(topology.link_delay_s[links ^ 1], topology.link_delay_s)
    hosts = np.arange(topology.n_hosts)
    np.testing.assert_array_equal(topology.link_source[topology.host_uplink], hosts)
    np.testing.assert_array_equal(topology.link_target[topology.host_downlink], hosts)
    np.testing.assert_array_equal(topology.link_source[topology.host_downlink], topology.host_edge)
    assert np.all(topology.host_edge >= topology.n_hosts)
    np.testing.assert_array_equal(np.flatnonzero(topology.from_host), np.sort(topology.host_uplink))
    np.testing.assert_array_equal(np.flatnonzero(topology.to_host), np.sort(topology.host_downlink))
    assert sorted([*topology.switch_ports, *topology.host_uplink]) == list(links)


@pytest.mark.parametrize("spec", EVERY_FORM, ids=lambda spec: f"{spec.kind}-{spec.n_hosts}")
def test_types_are_those_of_the_compiled_simulator(spec: TopologyTable) -> None:
    topology = build_topology(spec)
    types = {
        "link_source": np.int32,
        "link_target": np.int32,
        "link_rate_bps": np.float64,
        "link_delay_s": np.float64,
        "host_pod": np.int32,
        "link_buffer_bytes": np.float64,
        "link_ecn_threshold_bytes": np.float64,
        "host_edge": np.int32,
        "from_host": np.bool_,
        "to_host": np.bool_,
        "switch_ports": np.int64,
        "host_uplink": np.int64,
        "host_downlink": np.int64,
    }
    for name, expected in types.items():
        array = getattr(topology, name)
        assert array.dtype == expected, name
        assert not array.flags.writeable, name


@pytest.mark.parametrize("made", [copy.deepcopy, lambda topology: pickle.loads(pickle.dumps(topology))])
def test_arrays_of_a_copy_are_read_only_too(made: Callable[[Topology], Topology]) -> None:
    """Compiled functions are of a type of array: one that can be written to would be another."""
    topology = build_topology(fat_tree(4))
    assert not topology.host_downlink.flags.writeable  # computed now, and kept
    arrays = {name: value for name, value in vars(made(topology)).items() if isinstance(value, np.ndarray)}
    assert {"link_target", "host_downlink"} <= set(arrays)
    assert [name for name, array in arrays.items() if array.flags.writeable] == []


def test_building_twice_gives_the_same_network() -> None:
    one, other = build_topology(fat_tree(4)), build_topology(fat_tree(4))
    assert one.link_names == other.link_names
    np.testing.assert_array_equal(one.link_source, other.link_source)


def test_dumbbell_has_west_hosts_first_and_its_own_core_rate() -> None:
    topology = build_topology(dumbbell(2, core_rate_bps=4e8))
    assert topology.node_names == ("h0", "h1", "h2", "h3", "west", "east")
    assert topology.link_names == (
        "h0->west",
        "west->h0",
        "h1->west",
        "west->h1",
        "h2->east",
        "east->h2",
        "h3->east",
        "east->h3",
        "west->east",
        "east->west",
    )
    np.testing.assert_array_equal(topology.link_rate_bps, [1e9] * 8 + [4e8] * 2)
    np.testing.assert_array_equal(topology.link_delay_s, [2e-6] * 10)
    np.testing.assert_array_equal(topology.host_pod, [0, 0, 1, 1])


def test_dumbbell_core_is_as_fast_as_the_other_links_unless_told() -> None:
    assert np.all(build_topology(dumbbell(3)).link_rate_bps == 1e9)


def test_iroko_networks_have_as_many_switch_ports_as_irokos() -> None:
    assert len(build_topology(dumbbell(2)).switch_ports) == 6
    assert len(build_topology(fat_tree(4)).switch_ports) == 80


@pytest.mark.parametrize("k", [2, 4, 6, 8, 16])
def test_fat_tree_has_the_sizes_of_al_fares(k: int) -> None:
    topology = build_topology(fat_tree(k))
    assert topology.n_hosts == k**3 // 4
    assert topology.n_switches == 5 * k * k // 4
    assert topology.n_links == 2 * 3 * k**3 // 4
    ports = Counter(topology.link_source.tolist())
    assert all(ports[switch] == k for switch in range(topology.n_hosts, topology.n_nodes))
    assert set(Counter(topology.host_edge.tolist()).values()) == {k // 2}
    assert Counter(topology.host_pod.tolist()) == dict.fromkeys(range(k), k * k // 4)


@pytest.mark.parametrize("k", [4, 10])
def test_every_core_switch_has_one_cable_to_each_pod(k: int) -> None:
    # At k = 10 the switches' numbers have two digits, which a reading of names would get wrong.
    topology = build_topology(fat_tree(k))
    pods: dict[str, list[int]] = {}
    for source, target in zip(topology.link_source, topology.link_target, strict=True):
        name, other = topology.node_names[source], topology.node_names[target]
        if name.startswith("core"):
            assert other.startswith("agg")
            pods.setdefault(name, []).append(int(other.removeprefix("agg").split("_")[0]))
    assert len(pods) == k * k // 4
    assert all(sorted(found) == list(range(k)) for found in pods.values())


def test_fat_tree_edges_and_aggregation_switches_of_a_pod_are_fully_meshed() -> None:
    names = set(build_topology(fat_tree(4)).link_names)
    for pod in range(4):
        for i in range(2):
            for j in range(2):
                assert f"edge{pod}_{i}->agg{pod}_{j}" in names
                assert f"agg{pod}_{j}->edge{pod}_{i}" in names
    assert {"h0->edge0_0", "h15->edge3_1", "agg0_0->core1", "agg3_1->core2"} <= names


@pytest.mark.parametrize(
    ("spec", "oversubscription"),
    [(leaf_spine(4, 4, 4), 1.0), (leaf_spine(4, 2, 8, 2e9), 2.0), (leaf_spine(3, 1, 12, 4e9), 3.0)],
)
def test_leaf_spine_is_as_oversubscribed_as_it_says(spec: LeafSpineTopology, oversubscription: float) -> None:
    topology = build_topology(spec)
    assert spec.oversubscription == oversubscription
    assert topology.n_switches == spec.leaves + spec.spines
    assert topology.n_links == 2 * (spec.n_hosts + spec.leaves * spec.spines)
    names = topology.node_names
    for leaf in range(spec.leaves):
        up = [
            link
            for link in topology.switch_ports
            if names[topology.link_source[link]] == f"leaf{leaf}" and not topology.to_host[link]
        ]
        assert [names[topology.link_target[link]] for link in up] == [f"spine{i}" for i in range(spec.spines)]
        hosts = topology.host_pod == leaf
        assert hosts.sum() == spec.hosts_per_leaf
        offered = topology.link_rate_bps[topology.host_uplink[hosts]].sum()
        assert offered / topology.link_rate_bps[up].sum() == pytest.approx(oversubscription)


def bisection_bps(topology: Topology, west: set[str]) -> float:
    """Capacity from some switches to all others."""
    inside = np.array([name in west for name in topology.node_names])
    switches = np.arange(topology.n_nodes) >= topology.n_hosts
    crossing = inside[topology.link_source] & ~inside[topology.link_target] & switches[topology.link_target]
    crossing &= switches[topology.link_source]
    return float(topology.link_rate_bps[crossing].sum())


@pytest.mark.parametrize("k", [2, 4, 8])
def test_a_fat_tree_has_full_bisection(k: int) -> None:
    # Half of the pods against the rest, the core switches dealt to the other side: what the pods send up.
    topology = build_topology(fat_tree(k))
    pods = {f"edge{p}_{i}" for p in range(k // 2) for i in range(k // 2)}
    pods |= {f"agg{p}_{i}" for p in range(k // 2) for i in range(k // 2)}
    assert bisection_bps(topology, pods) == topology.n_hosts / 2 * 1e9


def test_a_leaf_s_uplinks_are_its_cut() -> None:
    spec = leaf_spine(4, 2, 8, 2e9)
    (cut,) = spec.cuts()
    assert cut.capacity_bps == bisection_bps(build_topology(spec), {"leaf2"}) == 4e9
    assert cut.hosts == 8


def test_parking_lot_has_one_long_path_and_one_across_each_bottleneck() -> None:
    spec = parking_lot(3, core_rate_bps=5e8)
    topology = build_topology(spec)
    at = [topology.node_names[switch] for switch in topology.host_edge]
    assert at == [
        *("switch0", "switch0", "switch1", "switch2"),
        *("switch3", "switch1", "switch2", "switch3"),
    ]
    assert topology.link_names[-6::2] == ("switch0->switch1", "switch1->switch2", "switch2->switch3")
    np.testing.assert_array_equal(topology.link_rate_bps, [1e9] * 16 + [5e8] * 6)
    for index, cut in enumerate(spec.cuts()):
        behind = [switch for switch in at if int(switch.removeprefix("switch")) <= index]
        assert cut.hosts == len(behind)
        assert cut.capacity_bps == 5e8


def overridden(*overrides: dict[str, Any]) -> Topology:
    spec = leaf_spine(2, 2, 2)
    return build_topology(
        spec.model_copy(update={"overrides": tuple(LinkOverride(**keys) for keys in overrides)})
    )


def changed(topology: Topology, array: str) -> set[str]:
    values = getattr(topology, array)
    plain = getattr(build_topology(leaf_spine(2, 2, 2)), array)
    different = ~((values == plain) | (np.isnan(values) & np.isnan(plain)))
    return {topology.link_names[link] for link in np.flatnonzero(different)}


def test_an_override_changes_what_it_names_and_nothing_else() -> None:
    topology = overridden({"link": "leaf0->spine1", "rate_bps": 5e8, "delay_s": 1e-3})
    assert changed(topology, "link_rate_bps") == changed(topology, "link_delay_s") == {"leaf0->spine1"}
    assert not changed(topology, "link_buffer_bytes")
    assert not changed(topology, "link_ecn_threshold_bytes")
    assert topology.link_rate_bps.min() == 5e8


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("leaf0<->spine1", {"leaf0->spine1", "spine1->leaf0"}),
        ("*->spine1", {"leaf0->spine1", "leaf1->spine1"}),
        ("spine?->leaf0", {"spine0->leaf0", "spine1->leaf0"}),
        ("h3<->*", {"h3->leaf1", "leaf1->h3"}),
        ("*->h*", {"leaf0->h0", "leaf0->h1", "leaf1->h2", "leaf1->h3"}),
    ],
)
def test_patterns(pattern: str, named: set[str]) -> None:
    topology = overridden({"link": pattern, "buffer_bytes": 3000, "ecn_threshold_bytes": 0})
    assert changed(topology, "link_buffer_bytes") == named
    assert changed(topology, "link_ecn_threshold_bytes") == named


def test_the_last_of_several_overrides_holds() -> None:
    topology = overridden(
        {"link": "*->*", "rate_bps": 2e9, "buffer_bytes": 5000}, {"link": "h0->leaf0", "rate_bps": 3e9}
    )
    assert topology.link_rate_bps[topology.host_uplink].tolist() == [3e9, 2e9, 2e9, 2e9]
    assert np.all(topology.link_buffer_bytes == 5000)


@pytest.mark.parametrize("link", ["leaf0->spine2", "spine0->spine1", "[l]eaf0->spine0", "->", "h0 -> leaf0"])
def test_an_override_of_no_link_is_refused(link: str) -> None:
    with pytest.raises(ScenarioError, match=r"topology\.overrides\[1\]\.link") as caught:
        overridden({"link": "h0->leaf0", "rate_bps": 1e9}, {"link": link, "rate_bps": 1e9})
    assert caught.value.got == link


def test_every_shipped_scenario_has_a_network() -> None:
    for info in list_scenarios():
        scenario = load_scenario(info.name)
        if isinstance(scenario, CongestionScenario):
            assert build_topology(scenario.topology).n_hosts == scenario.topology.n_hosts


def test_unknown_kind_is_named() -> None:
    with pytest.raises(UnknownName, match="fat_tree"):
        build_topology(cast(Any, SimpleNamespace(kind="fattree")))


def network(cables: list[tuple[int, int]], rate_bps: float = 1e9, delay_s: float = 0.0) -> Topology:
    """Two hosts (0, 1) and three switches (2, 3, 4)."""
    return Topology.from_cables(
        "made",
        host_names=["h0", "h1"],
        switch_names=["s0", "s1", "s2"],
        cables=[Cable(end, other, rate_bps, delay_s) for end, other in cables],
        host_pod=[0, 0],
    )


SOUND = [(0, 2), (1, 3), (2, 3), (3, 4)]


def test_a_form_of_ones_own_needs_only_cables() -> None:
    topology = network([(2, 0), *SOUND[1:]])
    np.testing.assert_array_equal(topology.host_uplink, [1, 2])
    np.testing.assert_array_equal(topology.host_edge, [2, 3])


@pytest.mark.parametrize(
    ("cables", "reason"),
    [
        (SOUND[1:], "no cable"),
        ([*SOUND, (0, 4)], "more than one"),
        ([(0, 1), *SOUND[2:]], "joins two hosts"),
        (SOUND[:-1], "cannot reach"),
        ([*SOUND, (4, 4)], "two directions"),
        ([*SOUND, (4, 5)], "does not exist"),
        ([*SOUND, (-1, 4)], "does not exist"),
        ([], "no cable"),
    ],
)
def test_broken_networks_are_refused(cables: list[tuple[int, int]], reason: str) -> None:
    with pytest.raises(SysgymError, match=reason):
        network(cables)


@pytest.mark.parametrize("rate_bps", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_rates_are_refused(rate_bps: float) -> None:
    with pytest.raises(SysgymError, match="rate"):
        network(SOUND, rate_bps=rate_bps)


@pytest.mark.parametrize("delay_s", [-1e-9, float("inf"), float("nan")])
def test_impossible_delays_are_refused(delay_s: float) -> None:
    with pytest.raises(SysgymError, match="delay"):
        network(SOUND, delay_s=delay_s)


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(SysgymError, match="same name"):
        Topology.from_cables(
            "made",
            host_names=["h0", "h0"],
            switch_names=["s"],
            cables=[Cable(0, 2, 1e9, 0.0), Cable(1, 2, 1e9, 0.0)],
            host_pod=[0, 0],
        )
