"""scripts/laws/drawn_networks.py: what is drawn, what is compared with it, and the tables."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.transports import get_transport
from sysgym.emulator.packets.transports.swift import FLOW_SCALING_RANGE_NS, PER_HOP_NS, swift_transport
from tests.scripts import load_script


@pytest.fixture(scope="module")
def drawn() -> ModuleType:
    return load_script("laws/drawn_networks")


def test_networks_are_of_all_kinds_and_within_the_stated_ranges(drawn: ModuleType) -> None:
    networks = drawn.draw_networks(200, seed=3)
    assert {network.kind for network in networks} == set(drawn.KINDS)
    packets = []
    for network in networks:
        scenario = network.episode.scenario
        links = {"fat tree": 6, "leaf-spine": 4, "dumbbell": 3, "incast": 2}[network.kind]
        rtt_s = 2 * links * scenario.topology.link_delay_s
        packets.append(rtt_s * network.rate_bps / drawn.PACKET_BITS)
        assert 20e6 <= network.rate_bps <= 400e9
        assert 4e-6 * 0.999 <= rtt_s <= 10e-3 * 1.001
        assert 40 * 1500 - 1 <= scenario.queue.buffer_bytes <= 2000 * 1500
        assert network.episode.split == "test"
        scenario.draw("test", network.episode.seed)  # a seed of the split
    assert min(packets) >= 2.0 * 0.999
    assert max(packets) <= drawn.MOST_PATH_PACKETS * 1.001
    unmarked = [one.episode.scenario.queue for one in networks]
    assert 0.05 < np.mean([queue.ecn_threshold_bytes == queue.buffer_bytes for queue in unmarked]) < 0.3


def test_more_networks_leave_the_first_ones_as_they_are(drawn: ModuleType) -> None:
    few, many = drawn.draw_networks(5, seed=1), drawn.draw_networks(9, seed=1)
    digests = [[(one.episode.scenario.sha256(), one.episode.seed) for one in some] for some in (few, many)]
    assert digests[0] == digests[1][:5]
    other = drawn.draw_networks(5, seed=2)
    assert digests[0] != [(one.episode.scenario.sha256(), one.episode.seed) for one in other]


@pytest.mark.parametrize(("rate_bps", "factor"), [(1e9, 1.0), (10e9, 1.0), (100e9, 0.1)])
def test_swift_by_rate_divides_both_delays_above_ten_gigabits(
    drawn: ModuleType, rate_bps: float, factor: float
) -> None:
    network = drawn.draw_networks(1, seed=0)[0]
    scenario = network.episode.scenario.with_overrides({"topology.link_rate_bps": rate_bps})
    network = network._replace(episode=drawn.Episode(scenario, "test", network.episode.seed))
    expected = [constant.value for constant in drawn.CONSTANTS]
    for place in (PER_HOP_NS, FLOW_SCALING_RANGE_NS):
        expected[place] *= factor
    assert drawn.swift_by_rate(network).parameters == pytest.approx(swift_transport(expected).parameters)


def test_every_law_plays_the_same_episode_on_each_network(drawn: ModuleType) -> None:
    networks = drawn.draw_networks(4, seed=0)
    laws = {name: drawn.laws_of([])[name] for name in ("dctcp", "swift")}
    played = drawn.play(laws, networks)
    assert set(played) == {"dctcp", "swift"}
    for network, metrics in zip(networks, played["dctcp"], strict=True):
        assert metrics == network.episode.play(get_transport("dctcp"))
    assert played["swift"] != played["dctcp"]


def _metrics(goodput: float, queue: float, slowdown: float, **others: float) -> dict[str, float]:
    flows = {"completed_flows": 9.0, "offered_flows": 10.0}
    return {"goodput_bps": goodput, "queue_p99_bytes": queue, "fct_slowdown_p99": slowdown, **flows, **others}


def test_scores_are_doublings_of_the_best_classics_power(drawn: ModuleType) -> None:
    best, half = _metrics(1e9, 20e3, 4.0), _metrics(1e9, 40e3, 4.0)
    played = {name: [half, half] for name in drawn.CLASSICS} | {"swift": [best, best]}
    played |= {"swift by rate": [half, half], "mine": [_metrics(1e9, 10e3, 2.0), _metrics(1e9, 20e3, 8.0)]}
    rows = {line.split(" | ")[0].strip("| "): line for line in drawn.score_table(played).splitlines()}
    assert rows["mine"] == (
        "| mine | 0.50 [-1.0, 2.0] | 0.50 [-1.0, 2.0] | 1.5 [0, 3.0] | 1 of 2 | 90.0% |"
    ), "Swift is ahead in the second episode: worse in nothing, and better in slowdown"
    assert rows["swift"].endswith("| – | 1.0 [1.0, 1.0] | 0 of 2 | 90.0% |")
    assert rows["cubic"].endswith("| 2 of 2 | 90.0% |")


def test_changes_against_dctcp_are_geometric_means(drawn: ModuleType) -> None:
    base = [_metrics(1e9, 1e4, 4.0, fct_slowdown_p50_large=slowdown) for slowdown in (1.0, 2.0)]
    mine = [_metrics(1e9, 1e4, 4.0, fct_slowdown_p50_large=slowdown) for slowdown in (2.0, 1.0)]
    table = drawn.slowdown_table({"dctcp": base, "mine": mine}, ["mine"])
    assert "| 1 MB and more, median | +0 [−50, +100], 50 / 50 |" in table
    assert "| 10 MB and more, median | – |" in table


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["adaptive_swift", "--networks", "0"], "expected --networks 1 or more"),
        (["dctcp"], "dctcp plays in any case; give the law another name"),
        (["nobody"], 'no contender of the family congestion is named "nobody"'),
    ],
)
def test_wrong_arguments_are_said(
    drawn: ModuleType,
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["drawn_networks.py", *arguments])
    with pytest.raises(SystemExit) as raised:
        drawn.main()
    said: Any = raised.value.code
    assert words in f"{said}{capsys.readouterr().err}"
