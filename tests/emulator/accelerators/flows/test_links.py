"""Links of hierarchies: names, routes, spreading over uplinks, rings."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.emulator.accelerators.flows.links import LinkGraph
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.presets import PRESETS, get_preset
from sysgym.scenarios.errors import SysgymError

NODES = Hierarchy(
    "nodes",
    (
        Level("rack", 2, 10.0, 1e-3),
        Level("node", 2, 4.0, 1e-4, uplinks=2),
        Level("gpu", 4, 100.0, 1e-6),
    ),
)


def _names(links: LinkGraph, source: int, target: int) -> list[str]:
    return [links.link_name(link) for link in links.route(source, target)]


def test_a_route_goes_up_to_the_instance_in_common_and_down() -> None:
    links = LinkGraph(NODES)
    assert _names(links, 0, 3) == ["rack 0, node 0, gpu 0, out", "rack 0, node 0, gpu 3, in"]
    assert _names(links, 1, 6) == [
        "rack 0, node 0, gpu 1, out",
        "rack 0, node 0, uplink 0, out",
        "rack 0, node 1, uplink 1, in",
        "rack 0, node 1, gpu 2, in",
    ]
    assert _names(links, 15, 0) == [
        "rack 1, node 1, gpu 3, out",
        "rack 1, node 1, uplink 1, out",
        "rack 1, out",
        "rack 0, in",
        "rack 0, node 0, uplink 0, in",
        "rack 0, node 0, gpu 0, in",
    ]
    assert _names(links, 5, 5) == []


def test_latency_is_that_of_the_outermost_level_crossed() -> None:
    links = LinkGraph(NODES)
    assert links.latency_s([0, 0, 0, 0], [3, 4, 8, 0]).tolist() == [1e-6, 1e-4, 1e-3, 0.0]


def test_bytes_are_spread_over_the_uplinks_of_the_groups_members() -> None:
    links = LinkGraph(NODES)
    # Members 0 and 3 are tied to both uplinks of their node, member 4 to one of its own.
    paths = links.paths([0, 0], [4, 4], [[0, 3, 4], [0, 1, 4]], [0, 1])
    assert [links.link_name(link) for link in paths.links_of(0)] == [
        "rack 0, node 0, gpu 0, out",
        "rack 0, node 0, uplink 0, out",
        "rack 0, node 0, uplink 1, out",
        "rack 0, node 1, uplink 0, in",
        "rack 0, node 1, gpu 0, in",
    ]
    assert paths.shares_of(0).tolist() == [1.0, 0.5, 0.5, 1.0, 1.0]
    assert paths.shares_of(1).tolist() == [1.0] * 4


def test_an_uplink_of_two_members_carries_twice_that_of_one() -> None:
    system = Hierarchy("nodes", (Level("node", 2, 4.0, 1e-4, uplinks=2), Level("gpu", 6, 100.0, 1e-6)))
    paths = LinkGraph(system).paths([0], [6], [[0, 2, 4, 6, 8, 10]], [0])
    # Of three members in a node two are tied to the first uplink, devices 0 to 2, and one to the second.
    assert paths.shares_of(0) == pytest.approx([1.0, 2 / 3, 1 / 3, 2 / 3, 1 / 3, 1.0])


def test_around_a_ring_the_shorter_way_and_half_each_where_both_are_as_long() -> None:
    links = LinkGraph(Hierarchy("ring", (Level("gpu", 6, 90.0, 1e-6, network="ring"),)))
    assert _names(links, 4, 0) == ["gpu 4, to the next", "gpu 5, to the next"]
    assert _names(links, 1, 5) == ["gpu 1, to the one before", "gpu 0, to the one before"]
    paths = links.paths([5], [2], [[2, 5]], [0])
    assert [links.link_name(link) for link in paths.links_of(0)] == [
        *(f"gpu {gpu}, to the next" for gpu in (5, 0, 1)),
        *(f"gpu {gpu}, to the one before" for gpu in (5, 4, 3)),
    ]
    assert paths.shares_of(0).tolist() == [0.5] * 6
    assert set(links.bandwidth_bytes_per_s) == {45.0}


def test_two_siblings_in_a_ring_have_both_links_between_them() -> None:
    links = LinkGraph(Hierarchy("pair", (Level("gpu", 2, 90.0, 1e-6, network="ring"),)))
    paths = links.paths([0], [1], [[0, 1]], [0])
    assert (90.0 / 2 / paths.shares_of(0)).min() == 90.0


def test_what_leaves_a_ring_does_not_use_its_links() -> None:
    links = LinkGraph(get_preset("p2-v100", 2))
    assert _names(links, 3, 12) == ["node 0, out", "node 1, in"]


def test_a_torus_goes_along_the_column() -> None:
    links = LinkGraph(get_preset("tpu-v3", 4))
    assert _names(links, 2, 10) == ["row 0, uplink 2, to the next"]
    assert _names(links, 26, 2) == ["row 3, uplink 2, to the next"]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_link_has_a_name_of_its_own_and_a_bandwidth(name: str) -> None:
    hierarchy = get_preset(name, 1 if name == "single" else 2)
    links = LinkGraph(hierarchy)
    names = [links.link_name(link) for link in range(links.n_links)]
    assert len(set(names)) == links.n_links == len(links.bandwidth_bytes_per_s)
    assert np.all(links.bandwidth_bytes_per_s > 0)


def test_devices_and_links_that_do_not_exist_are_errors() -> None:
    links = LinkGraph(NODES)
    with pytest.raises(SysgymError, match="devices from 0 to 16; there are 16"):
        links.route(0, 16)
    with pytest.raises(SysgymError, match="links 0 to"):
        links.link_name(links.n_links)
    with pytest.raises(SysgymError, match="groups from 1 to 1; there are 1"):
        links.paths([0], [1], [[0, 1]], [1])
