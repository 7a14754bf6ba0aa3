"""The study of neighbours: what it measures, which pairs it plays, and what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.bench.contenders import parse_contender
from sysgym.emulator.packets.transports import get_transport
from sysgym.envs.congestion import sharing
from sysgym.envs.congestion.sharing import common_first, measure_sharing
from sysgym.errors import SysgymError
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.studies import neighbours as study
from sysgym.studies.kept_rows import run_kept
from sysgym.studies.laws import transports_of
from sysgym.studies.neighbours import Neighbours
from sysgym.studies.neighbours_picture import draw

DUMBBELL = load_scenario("dumbbell-10g", expect=CongestionScenario)
DURATION_S = 0.05


def laws(*names: str) -> list[Any]:
    return [parse_contender(name, (), "congestion") for name in names]


def measured(first: str, second: str, seed: int = 0) -> sharing.Sharing:
    return measure_sharing(DUMBBELL, get_transport(first), get_transport(second), DURATION_S, seed)


def test_flows_of_one_law_share() -> None:
    found = measured("dctcp", "dctcp")
    assert found.share == pytest.approx(1.0, abs=0.1)
    assert found.jain_index > 0.98
    assert found.goodput_bps == pytest.approx(9.73e9, rel=0.01)
    assert found.converged_s is not None
    assert 80e3 < found.queue_mean_bytes < 110e3, "about the ECN threshold of 97,500 bytes"


def test_an_episode_that_ends_before_flows_begin_is_an_error() -> None:
    with pytest.raises(SysgymError, match="no flow delivered anything in the second half of 1e-06 s"):
        measure_sharing(DUMBBELL, get_transport("dctcp"), get_transport("cubic"), 1e-6, 0)


def test_a_law_that_fills_the_buffer_takes_the_link_from_one_that_heeds_marks() -> None:
    for seed in (0, 1):  # the halves are exchanged
        assert measured("cubic", "dctcp", seed).share > 1.8
        other_way = measured("dctcp", "cubic", seed)
        assert other_way.share < 0.2
        assert other_way.converged_s is None


def test_the_shares_of_both_orders_sum_to_two() -> None:
    """The first law of an odd seed has the flows of the second law of an even one."""
    one, other = measured("dctcp", "swift", 2), measured("swift", "dctcp", 3)
    assert one.share > 1.5
    assert other.share < 0.5


def test_the_law_with_needs_is_that_of_all_flows() -> None:
    reno, dcqcn, hpcc = (get_transport(name) for name in ("reno", "dcqcn", "hpcc"))
    assert common_first(DUMBBELL, reno, dcqcn) == (dcqcn, reno)
    assert common_first(DUMBBELL, dcqcn, reno) == (dcqcn, reno)
    assert measured("reno", "dcqcn").share > 1.0
    with pytest.raises(SysgymError, match="common transport"):
        common_first(DUMBBELL, dcqcn, hpcc)
    played = Neighbours(DUMBBELL, laws("reno", "dcqcn", "hpcc"), DURATION_S, 1).pairs()
    assert [tuple(law.name for law in pair) for pair in played] == [
        ("reno", "reno"), ("reno", "dcqcn"), ("reno", "hpcc"), ("dcqcn", "dcqcn"), ("hpcc", "hpcc"),
    ]  # fmt: skip


def test_convergence_is_where_the_last_unfair_window_ends() -> None:
    fair, unfair = [1.0, 1.0], [1.0, 0.1]
    goodput = np.array([unfair, fair, unfair, fair, fair])
    assert sharing._converged_s(goodput, 10.0, 1.0) == pytest.approx(5.0)
    assert sharing._converged_s(goodput[:3], 6.0, 1.0) is None
    assert sharing._converged_s(goodput[3:], 4.0, 1.0) == 0.0


def test_who_takes_everything_has_a_share_of_two_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding makes some 2.0000000000000004, which a file of rows refuses."""
    several = DUMBBELL.with_overrides({"workload.flows_per_pair": 3})
    is_first = sharing._of_first(sharing.flow_count(several), 0)
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(20):
        settled = np.where(is_first, rng.uniform(1e6, 1e9, len(is_first)), 0.0)
        together = sharing.Together(np.tile(settled, (100, 1)), 0.0, 0.0, 0.0)
        shares.append(together.settled_bps[is_first].mean() / together.settled_bps.mean())
        monkeypatch.setattr(sharing, "play_together", lambda *_, found=together, **__: found)
        reno, dctcp = get_transport("reno"), get_transport("dctcp")
        assert 1.999 < measure_sharing(several, reno, dctcp, DURATION_S, 0).share <= 2.0
    assert max(shares) > 2.0


def test_rows_are_kept_and_shown(tmp_path: Path) -> None:
    settings = Neighbours(DUMBBELL, laws("cubic", "dctcp"), 0.02, 2)
    told: list[tuple[int, int]] = []
    rows = run_kept(settings, tmp_path, n_workers=1)
    again = run_kept(settings, tmp_path, n_workers=1, tell=lambda done, of: told.append((done, of)))
    assert again == rows
    assert told == [(6, 6)]
    names = ["cubic", "dctcp"]
    found = study.shares(names, rows)
    assert found["cubic", "dctcp"].value + found["dctcp", "cubic"].value == pytest.approx(2.0)
    shared, alone = study.tables(names, rows)
    assert shared.rows[0][1] == ""
    assert shared.rows[0][2].startswith("1.")
    assert [row[0] for row in alone.rows] == names
    assert study.verdicts(names, rows) == [
        "cubic leaves less than half of a fair share to dctcp.",
        "dctcp gets less than half of one beside cubic.",
    ]
    assert study.verdicts(["hpcc"], []) == ["hpcc met none of the others."]
    text = study.markdown(settings, [shared, alone], study.verdicts(names, rows))
    assert "laws beside each other" in text
    assert draw(names, found).png.startswith(b"\x89PNG")


def test_laws_are_found_by_their_names() -> None:
    laws = transports_of(["dctcp", "mine=adaptive_swift"], "dumbbell-10g")
    assert {name: law.name for name, law in laws.items()} == {"dctcp": "dctcp", "mine": "adaptive_swift"}
    with pytest.raises(SysgymError, match="not a law of single flows"):
        transports_of(["fixed_fair"], "dumbbell-10g")


def test_settings_that_cannot_be_played_are_refused() -> None:
    with pytest.raises(SysgymError, match="long-lived flows"):
        Neighbours(load_scenario("incast-32", expect=CongestionScenario), laws("dctcp", "reno"), 0.1, 1)
    odd = load_scenario("parking-lot-4", expect=CongestionScenario)
    with pytest.raises(SysgymError, match="even number"):
        Neighbours(odd, laws("dctcp", "reno"), 0.1, 1)
    for names in (("dctcp",), ("dctcp", "reno", "dctcp")):
        with pytest.raises(SysgymError, match="two or more with different names"):
            Neighbours(DUMBBELL, laws(*names), 0.1, 1)
    with pytest.raises(SysgymError, match="--duration"):
        Neighbours(DUMBBELL, laws("dctcp", "reno"), 0.0, 1)
    with pytest.raises(SysgymError, match="not a law of single flows"):
        Neighbours(DUMBBELL, laws("dctcp", "aimd"), 0.1, 1)
