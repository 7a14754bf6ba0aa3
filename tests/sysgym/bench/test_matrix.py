"""The generalisation matrix: from a suite's file to a heat map and a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.bench.matrix import Matrix, fits, player_name
from sysgym.bench.plan import make_plan
from sysgym.bench.report import write
from sysgym.bench.report.data.benchmark import read_benchmark
from sysgym.bench.report.pictures.heatmap import scores_of
from sysgym.bench.results.rows import ResultsFile, Row, read_rows
from sysgym.bench.run.runner import RUN, run_plan
from sysgym.bench.statistics import normalised
from sysgym.errors import ScenarioError
from sysgym.scenarios import load_scenario, load_suite

MakeRow = Callable[..., Row]

MATRIX = """\
schema = 1
name = "across"
title = "Across"
description = "A matrix for tests."

[matrix]
agent = "ppo"
scenarios = ["./tiny.toml", "./slow.toml", "./wide.toml"]
total_steps = 128
n_envs = 2
hyper_parameters = { n_steps = 64, batch_size = 64, n_epochs = 2 }
episodes = 2

[[metrics]]
name = "goodput_bps"
direction = "higher"
label = "Goodput"
"""


@pytest.fixture
def suite(tiny: Path) -> Path:
    """A suite over three worlds, of which the first two have the same observation."""
    text = tiny.read_text()
    slow = text.replace('"tiny"', '"slow"').replace("10e6", "5e6")
    wide = text.replace('"tiny"', '"wide"').replace("hosts_per_side = 2", "hosts_per_side = 3")
    tiny.with_name("slow.toml").write_text(slow)
    tiny.with_name("wide.toml").write_text(wide)
    path = tiny.with_name("across.toml")
    path.write_text(MATRIX)
    return path


def test_a_matrix_stands_for_trainings_and_tasks(suite: Path) -> None:
    loaded = load_suite(suite)
    assert [(one.agent, Path(one.scenario).stem, one.seed) for one in loaded.training] == [
        ("ppo", "tiny", 1),
        ("ppo", "slow", 1),
        ("ppo", "wide", 1),
    ]
    assert [task.contender_names for task in loaded.tasks] == [("dctcp", "oracle")] * 3
    assert [task.seed_values for task in loaded.tasks] == [(200, 201)] * 3
    assert loaded.training[0].hyper_parameters["n_steps"] == 64


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (('agent = "ppo"', 'agnet = "ppo"'), "matrix.agent"),
        (("episodes = 2", 'bound = "dctcp"'), "matrix.bound"),
        (('"./slow.toml"', '"./tiny.toml"'), "matrix.scenarios"),
        (('"./slow.toml"', '"nowhere"'), "nowhere"),
    ],
)
def test_what_is_wrong_is_named(suite: Path, change: tuple[str, str], key: str) -> None:
    suite.write_text(MATRIX.replace(*change))
    with pytest.raises(ScenarioError, match=key):
        load_suite(suite)


def test_policies_play_where_the_observation_is_the_same(suite: Path, tmp_path: Path) -> None:
    plan = make_plan(load_suite(suite), tmp_path / "out")
    played = {(cell.contender.name, cell.scenario.name) for cell in plan.cells if cell.contender.learned}
    assert played == {
        ("ppo from tiny", "tiny"),
        ("ppo from tiny", "slow"),
        ("ppo from slow", "tiny"),
        ("ppo from slow", "slow"),
        ("ppo from wide", "wide"),
    }
    assert {cell.training for cell in plan.cells if cell.contender.name == "ppo from slow"} == {
        "ppo-slow-seed1"
    }
    assert plan.matrix is not None
    assert Matrix.from_json(json.loads(json.dumps(plan.matrix.to_json()))) == plan.matrix


def test_laws_of_flows_and_of_hosts_play_every_network() -> None:
    incast, tree, flow = (
        load_scenario(name) for name in ("incast-32", "fattree-k4-websearch", "flow-incast")
    )
    assert fits("neural", incast, tree)
    assert fits("ppo_hosts", incast, tree)
    assert fits("cma_paths", incast, tree)
    assert not fits("ppo", incast, tree)
    assert not fits("neural", incast, flow), "another environment"


def test_trees_play_where_jobs_have_the_same_counters() -> None:
    google, near, alibaba, acting = (
        load_scenario(name)
        for name in ("google-2011", "google-2011-near", "alibaba-2018", "google-2011-mitigation")
    )
    assert fits("transfer", google, near)
    assert not fits("transfer", google, alibaba), "other counters"
    assert not fits("transfer", google, acting), "another environment"


@given(st.floats(-10.0, 10.0), st.floats(0.5, 10.0), st.floats(-2.0, 3.0))
def test_a_score_is_a_place_between_floor_and_bound(floor: float, span: float, score: float) -> None:
    base = np.linspace(0.0, 1.0, 8)[None]  # easy and hard episodes
    found = normalised(base + floor + score * span, base + floor, base + floor + span)
    assert found is not None
    np.testing.assert_allclose(found, score, atol=1e-9)


def test_without_a_span_there_is_no_score() -> None:
    rng = np.random.default_rng(0)
    ours, floor, bound = rng.normal(size=(3, 1, 10))
    assert normalised(ours, floor, bound) is None
    assert normalised(ours, floor, floor) is None


def test_resamples_without_a_span_are_left_out() -> None:
    floor, bound = np.zeros((1, 10)), np.repeat([[1.0, 0.0]], 5, axis=1)
    found = normalised(0.5 * bound, floor, bound)
    assert found == (0.5, 0.5, 0.5)


def _by_hand(make_row: MakeRow, out: Path, rules: Mapping[str, float] | None = None) -> Path:
    """Write returns: dctcp 10 and oracle 20 everywhere, policies in between or below."""
    names = ("tiny", "slow", "wide")
    returns = {("tiny", "tiny"): 18.0, ("tiny", "slow"): 5.0, ("slow", "slow"): 20.0, ("wide", "wide"): 14.0}
    with ResultsFile(out) as results:
        for index, played in enumerate(names):
            scored = {"dctcp": 10.0, "oracle": 20.0, **(rules or {})}
            scored |= {
                player_name("ppo", one): value for (one, other), value in returns.items() if other == played
            }
            for contender, value in scored.items():
                who = {"transport": "paced", "agent": "ppo", "learned": True, "checkpoint": "p.zip"}
                of_contender = (
                    who | {"checkpoint_sha256": contender.encode().hex()[-64:]} if "from" in contender else {}
                )
                for seed in range(200, 206):
                    row = make_row(
                        contender,
                        seed,
                        {"goodput_bps": 1e6},
                        name=played,
                        digest=str(index) * 64,
                        **of_contender,
                    )
                    results.append(_with_return(row, value + 0.01 * (seed - 200)))
    pairs = frozenset(returns)
    matrix = Matrix("ppo", names, "dctcp", "oracle", "return", "test", pairs, tuple(rules or ()))
    (out / RUN).write_text(json.dumps({"suite": {"title": "Across", "matrix": matrix.to_json()}}))
    return out


def _with_return(row: Row, value: float) -> Row:
    return Row(**{**vars(row), "total_reward": value})


def test_the_report_has_the_matrix_in_both_forms(make_row: MakeRow, tmp_path: Path) -> None:
    out = _by_hand(make_row, tmp_path / "out")
    scores = scores_of(read_benchmark(out))
    assert scores is not None
    assert {pair: score.value for pair, score in scores.cells.items() if score is not None} == pytest.approx(
        {("tiny", "tiny"): 0.8, ("tiny", "slow"): -0.5, ("slow", "slow"): 1.0, ("wide", "wide"): 0.4}
    )
    written = write(out)
    twin, page = written.markdown.read_text(), written.html.read_text()
    assert "| tiny | 0.80 [0.80, 0.80] | −0.50 [−0.50, −0.50] | · |" in twin
    assert "| slow | · | 1.00 [1.00, 1.00] | · |" in twin
    assert (out / "plots" / "generalisation.png").read_bytes().startswith(b"\x89PNG")
    assert "Heat map: ppo trained on one of tiny, slow, wide" in page
    assert page.count("0.80") > 1, "in the table and in the picture"
    assert "0 = dctcp" in page
    assert "1 = oracle" in page
    assert "data:image" not in page


def test_rules_are_contenders_of_every_task(suite: Path) -> None:
    rules = 'episodes = 2\nrules = ["aimd", { name = "fair", agent = "fixed_fair" }]'
    suite.write_text(MATRIX.replace("episodes = 2", rules))
    assert {task.contender_names for task in load_suite(suite).tasks} == {("dctcp", "oracle", "aimd", "fair")}
    suite.write_text(MATRIX.replace("episodes = 2", 'episodes = 2\nrules = ["dctcp"]'))
    with pytest.raises(ScenarioError, match=r"(?s)matrix\.rules.*other names than dctcp"):
        load_suite(suite)


def test_rules_have_rows_below_those_of_the_policies(make_row: MakeRow, tmp_path: Path) -> None:
    out = _by_hand(make_row, tmp_path / "out", rules={"aimd": 15.0})
    scores = scores_of(read_benchmark(out))
    assert scores is not None
    assert {pair: score.value for pair, score in scores.rules.items() if score is not None} == pytest.approx(
        dict.fromkeys([("aimd", "tiny"), ("aimd", "slow"), ("aimd", "wide")], 0.5)
    )
    assert [name for name, _ in scores.rows()] == ["tiny", "slow", "wide", "aimd"]
    twin = write(out).markdown.read_text()
    assert "| aimd | 0.50 [0.50, 0.50] | 0.50 [0.50, 0.50] | 0.50 [0.50, 0.50] |" in twin


@pytest.mark.slow
def test_a_matrix_is_trained_played_and_drawn(suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    suite.write_text(MATRIX.replace(', "./wide.toml"', "").replace("128", "64"))
    outcome = run_plan(make_plan(load_suite(suite), out), out, n_workers=1)
    assert outcome.complete, outcome.failures
    names = {(row.contender.name, row.scenario) for row in read_rows(out)}
    assert ("ppo from slow", "tiny") in names
    scores = scores_of(read_benchmark(out))
    assert scores is not None
    assert set(scores.cells) == scores.matrix.fits
