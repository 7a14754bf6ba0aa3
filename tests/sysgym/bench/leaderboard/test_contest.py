"""The contest: facts decide on tracks, neighbours are stored and replayed, complete entries have ranks."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sysgym.bench.contenders import Contender, parse_contender
from sysgym.bench.leaderboard import contest
from sysgym.bench.leaderboard.entries import Entry, read_entry
from sysgym.bench.leaderboard.neighbours import NEIGHBOURS, SEEDS, add_rows, replay, sharing_of
from sysgym.bench.plugins import load_plugin
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.searched.adaptive_target import CONSTANTS
from sysgym.envs.congestion.sharing import Sharing
from sysgym.errors import ResultMismatch, SysgymError
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.studies.law_facts import LawFacts, facts_of
from sysgym.studies.laws import transport_of
from sysgym.studies.neighbours import ROWS, Neighbours, read_rows

CommandLine = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).resolve().parents[4]
BASELINE = ROOT / "examples" / "contest_baseline.py"
STORED = ROOT / "results" / "entries" / "contest" / "baseline"
SHARES = {"dctcp": 0.8, "cubic": 0.6, "bbr": 0.7, "swift": 1.4}


@pytest.mark.parametrize(
    ("law", "facts"),
    [
        ("swift", LawFacts(marks=False, switches=False, kernel=False)),
        ("dctcp", LawFacts(marks=True, switches=False, kernel=True)),
        ("bbr", LawFacts(marks=False, switches=False, kernel=True)),
        ("hpcc", LawFacts(marks=False, switches=True, kernel=False)),
        ("ndp", LawFacts(marks=False, switches=True, kernel=False)),
    ],
)
def test_facts_are_those_of_the_transport(law: str, facts: LawFacts) -> None:
    assert facts_of(get_transport(law)) == facts


def test_a_learned_law_is_on_the_kernel_if_its_constants_fit() -> None:
    law = transport_of(parse_contender("adaptive_target", family="congestion").with_shipped("dumbbell-10g"))
    assert facts_of(law).kernel
    too_large = dataclasses.replace(law, parameters=(9000.0, *law.parameters[1:]), constants=())
    assert len(law.parameters) == len(CONSTANTS)
    assert not facts_of(too_large).kernel


def test_a_law_of_a_user_is_not_on_the_kernel_whatever_its_name() -> None:
    def on_ack(flow: Any, event: Any) -> None:
        flow.cwnd = 10.0

    assert not facts_of(Transport("adaptive_target", "", on_ack, on_ack, on_ack)).kernel
    assert not facts_of(Transport("cubic", "", on_ack, on_ack, on_ack)).kernel


def _mine(name: str = "mine") -> Contender:
    return Contender(name, "timely", "max")


def _row(first: Contender, second: Contender, seed: int, share: float) -> dict[str, Any]:
    scenario = load_scenario("dumbbell-10g")
    return {
        "key": f"{first.name} {second.name} {seed}",
        "laws": [first.name, second.name],
        "contenders": [first.to_json(), second.to_json()],
        "facts": [facts_of(transport_of(one))._asdict() for one in (first, second)],
        "scenario": scenario.name,
        "scenario_sha256": scenario.sha256(),
        "duration_s": 1.0,
        "seed": seed,
        **Sharing(share, 0.9, None, 1e4, 9e9)._asdict(),
        "versions": {},
    }


def _rows(mine: Contender, *, swapped: bool = False) -> list[dict[str, Any]]:
    found = []
    for law in NEIGHBOURS:
        other = parse_contender(law)
        for seed in SEEDS:
            share = SHARES[law] + 0.1 * (seed - 2.5)  # the mean is that of the table
            pair = (other, mine, seed, 2.0 - share) if swapped else (mine, other, seed, share)
            found.append(_row(*pair))
    return found


@pytest.mark.parametrize("swapped", [False, True])
def test_the_least_share_is_that_of_the_worst_neighbour(swapped: bool) -> None:
    found = sharing_of(_rows(_mine(), swapped=swapped), [_mine("another name")])
    assert found is not None
    assert found.facts == LawFacts(marks=False, switches=False, kernel=False)
    assert found[1:] == pytest.approx((0.6, 0.35, 0.6, 0.35))
    assert found.shares


def test_of_trainings_the_worst_counts() -> None:
    mine, other = _mine(), dataclasses.replace(_mine(), checkpoint_sha256="2" * 64)
    worse = [row | {"share": 0.3} for row in _rows(other)]
    found = sharing_of([*_rows(mine), *worse], [mine, other])
    assert found is not None
    assert (found.least, found.left) == pytest.approx((0.3, 0.6))
    assert not found.shares


def test_every_neighbour_has_to_be_met_in_every_episode() -> None:
    rows = _rows(_mine())
    assert sharing_of(rows[1:], [_mine()]) is None
    assert sharing_of([row | {"duration_s": 0.5} for row in rows], [_mine()]) is None
    assert sharing_of([{**row, "facts": []} for row in rows], [_mine()]) is None
    swift = parse_contender("swift")
    beside_swift = _rows(swift)
    found = sharing_of([row for row in beside_swift if row["laws"] != ["swift", "swift"]], [swift])
    assert found is not None, "a neighbour need not meet itself"
    assert found.left == pytest.approx(1.2)


def test_an_entry_gets_the_rows_of_its_contenders(tmp_path: Path) -> None:
    source, entry = tmp_path / "study", tmp_path / "entry"
    source.mkdir()
    entry.mkdir()
    at_home = dataclasses.replace(_mine(), plugins=(("/home/me/mine.py", "ab" * 32),))
    packed = dataclasses.replace(at_home, name="law", plugins=(("mine.py", "ab" * 32),))
    rows = [row | {"contenders": [at_home.to_json(), row["contenders"][1]]} for row in _rows(_mine())]
    dctcp, cubic = parse_contender("dctcp"), parse_contender("cubic")
    others = [_row(dctcp, cubic, 0, 0.1), _row(_mine(), _mine(), 0, 1.0)]
    (source / ROWS).write_text("".join(json.dumps(row) + "\n" for row in [*others, *rows]))
    assert add_rows(source, entry, [packed])
    stored = read_rows(entry)
    assert len(stored) == len(rows)
    assert {row["contenders"][0]["name"] for row in stored} == {"law"}
    assert "/home/me" not in json.dumps(stored)
    assert sharing_of(stored, [packed]) == sharing_of(rows, [at_home])
    assert not add_rows(source, entry, [parse_contender("reno")])


def test_stored_rows_replay_and_edited_ones_do_not() -> None:
    row = next(row for row in read_rows(STORED) if row["laws"] == ["baseline", "swift"] and row["seed"] == 3)
    edited = [row | {"share": 1.0}, row | {"facts": [row["facts"][0] | {"kernel": True}, row["facts"][1]]}]
    found = list(replay([row, *edited], STORED, plugins=[str(BASELINE)]))
    assert sorted(len(one.differences) for one in found) == [0, 1, 1]
    names = {name for one in found for name in one.differences}
    assert names == {"share", "facts"}
    with pytest.raises(ResultMismatch, match="does not replay"):
        next(one for one in found if one.differences).raise_if_different()


def test_a_row_that_is_not_played_again_in_time_differs() -> None:
    row = next(row for row in read_rows(STORED) if row["laws"] == ["baseline", "swift"])
    (late,) = replay([row], STORED, plugins=[str(BASELINE)], episode_limit_s=0.001)
    with pytest.raises(ResultMismatch, match=r"replayed 'exceeded the time limit of 0\.001 s"):
        late.raise_if_different()


def test_rows_of_another_network_or_without_trust_are_refused() -> None:
    row = read_rows(STORED)[0]
    with pytest.raises(ResultMismatch, match="dumbbell-10g has changed since"):
        list(replay([row | {"scenario_sha256": "0" * 64}], STORED, plugins=[str(BASELINE)]))
    with pytest.raises(SysgymError, match="use --trust"):
        list(replay([row], STORED))


@pytest.fixture(scope="module")
def stored() -> Entry:
    return read_entry(STORED)


def test_laws_are_in_the_tracks_of_their_facts(stored: Entry) -> None:
    tuned = read_entry(ROOT / "results" / "entries" / "beyond-classics-tuned" / "adaptive_target")
    found = {one.law: one for one in contest.competitors([stored, tuned])}
    assert list(found) == sorted(found, key=lambda law: -found[law].score.value)
    assert found["swift"].score.value == 0.0, "the best classic of all networks"
    everywhere = set(contest.TRACKS)
    assert set(found["hpcc"].ranks) == {"INT allowed"}
    assert set(found["swift"].ranks) == set(found["baseline"].ranks) == {"INT allowed", "end to end"}
    assert set(found["dctcp"].ranks) == set(found["adaptive_target"].ranks) == everywhere
    assert found["adaptive_target"].ranks["on the kernel"] == (1, 1)
    assert found["adaptive_target"].worst is not None
    assert found["adaptive_target"].worst < found["adaptive_target"].score.value


def test_an_entry_without_all_episodes_does_not_take_part(stored: Entry) -> None:
    assert [one.law for one in contest.competitors([stored])] == ["baseline"]
    for gone in ("baseline", "swift"):
        rows = list(stored.benchmark.rows)
        rows.remove(next(row for row in rows if row.contender.name == gone))
        benchmark = dataclasses.replace(stored.benchmark, rows=rows)
        assert contest.competitors([dataclasses.replace(stored, benchmark=benchmark)]) == []


def test_an_entry_without_neighbours_has_no_rank(stored: Entry, tmp_path: Path) -> None:
    (one,) = contest.competitors([dataclasses.replace(stored, folder=tmp_path)])
    assert one.sharing is None
    assert one.ranks == {}
    assert "not played" in contest.row_of(one)


def test_the_entry_has_the_example_as_it_is(stored: Entry) -> None:
    (digest,) = {digest for row in stored.benchmark.rows for _, digest in row.contender.plugins}
    assert load_plugin(BASELINE).file.sha256 == digest


def test_laws_are_played_beside_the_given_ones_only() -> None:
    scenario = load_scenario("dumbbell-10g", expect=CongestionScenario)
    reno, timely, dctcp = (parse_contender(name) for name in ("reno", "timely", "dctcp"))
    played = Neighbours(scenario, (reno, timely, dctcp), 0.05, 1, (dctcp,))
    names = [tuple(law.name for law in pair) for pair in played.pairs()]
    assert names == [
        ("reno", "reno"), ("reno", "dctcp"), ("timely", "timely"), ("timely", "dctcp"), ("dctcp", "dctcp"),
    ]  # fmt: skip


@pytest.mark.slow
def test_validate_replays_the_neighbours_too(command_line: CommandLine) -> None:
    done = command_line("validate", STORED, "--sample", "2", "--jobs", "1", "--plugin", BASELINE)
    assert done.returncode == 0, done.stderr
    assert "replaying 2 of 810 rows and 2 of 24 rows of neighbours" in done.stdout
    assert "all 4 rows are equal, bit by bit" in done.stdout
