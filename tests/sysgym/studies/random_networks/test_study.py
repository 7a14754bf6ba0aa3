"""The study of random networks: who plays, what is kept, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.bench.contenders import Contender, parse_contender
from sysgym.emulator.packets.transports.swift import CONSTANTS, FLOW_SCALING_RANGE_NS, PER_HOP_NS
from sysgym.envs.congestion.random_networks import SPLIT, draw_networks
from sysgym.errors import SysgymError
from sysgym.studies.kept_rows import run_kept
from sysgym.studies.laws import transport_of
from sysgym.studies.random_networks.comparison import Comparison, markdown, tables, verdicts
from sysgym.studies.random_networks.picture import draw
from sysgym.studies.random_networks.study import (
    FAIR,
    REFERENCES,
    RandomNetworks,
    swift_by_rate,
)


def law(text: str) -> Contender:
    return parse_contender(text, (), "congestion")


@pytest.mark.parametrize(("rate_bps", "factor"), [(1e9, 1.0), (10e9, 1.0), (100e9, 0.1)])
def test_swift_by_rate_divides_both_delays_above_ten_gigabits(rate_bps: float, factor: float) -> None:
    network = draw_networks(1, seed=0)[0]
    changed = network._replace(scenario=network.scenario.with_overrides({"topology.link_rate_bps": rate_bps}))
    expected = [constant.value for constant in CONSTANTS]
    for place in (PER_HOP_NS, FLOW_SCALING_RANGE_NS):
        expected[place] *= factor
    assert transport_of(swift_by_rate(changed)).parameters == pytest.approx(expected)


def test_every_law_plays_every_network_once_and_more_networks_go_on(tmp_path: Path) -> None:
    gentle = [law("gentle=swift,beta=0.4")]
    few = run_kept(RandomNetworks(gentle, 1, seed=7, fair=True), tmp_path, n_workers=1)
    settings = RandomNetworks(gentle, 4, seed=7, fair=True)
    told: list[tuple[int, int]] = []
    rows = run_kept(settings, tmp_path, n_workers=1, tell=lambda done, of: told.append((done, of)))
    assert rows[: len(few)] == few
    assert told[0] == (len(few), len(rows)), "rows are kept"
    played = [(row["law"], row["network"]) for row in rows]
    assert len(set(played)) == len(played) == 4 * (len(REFERENCES) + 1) + 3
    assert [number for name, number in played if name == FAIR] == [0, 1, 2], "not in the incast"
    for network in draw_networks(4, seed=7):
        dctcp = [row for row in rows if row["law"] == "dctcp" and row["seed"] == network.seed]
        expected = Episode(network.scenario, SPLIT, network.seed).play("dctcp")
        found = dctcp[0]["metrics"]
        if network.kind == "incast":
            assert found == pytest.approx(expected), "answers arrive until the end"
        else:
            assert found["queue_p99_bytes"] >= expected["queue_p99_bytes"], "flows arrive in a part of it"
            assert found["goodput_bps"] > expected["goodput_bps"]
            assert found["fct_slowdown_p99"] == expected["fct_slowdown_p99"]
    compared = Comparison(settings, rows)
    assert compared.own == ["gentle"]
    assert compared.kinds == ["fat_tree", "leaf_spine", "dumbbell", "incast"]
    text = markdown(settings, list(tables(compared)), verdicts(compared))
    assert re.search(r"- gentle: its score is .* swift's \(difference ", text)
    assert "| fair_sharing |" in text
    assert draw(compared).png.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("laws", "words"),
    [
        (["dctcp"], "dctcp plays in any case; -c NAME=WHO gives a law another name"),
        (["a=reno", "a=cubic"], "a appears twice"),
        (["fixed_fair"], "not a law of single flows"),
    ],
)
def test_what_cannot_play_is_refused(laws: list[str], words: str) -> None:
    with pytest.raises(SysgymError, match=words):
        RandomNetworks([law(text) for text in laws], 1)
