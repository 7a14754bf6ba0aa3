"""Search for a learned law: fitness, resuming, and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.agents import make_agent
from sysgym.agents.learned import train
from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.agents.learned.congestion.evolution import CURVE
from sysgym.agents.learned.congestion.neural import search
from sysgym.agents.learned.congestion.neural.agent import FORM
from sysgym.agents.learned.congestion.neural.fitness import ENOUGH, WEIGHTS, Judge, loss
from sysgym.agents.learned.congestion.neural.search import Search
from sysgym.agents.learned.shipped import shipped_checkpoint
from sysgym.agents.protocol import environment_arguments, play_episode
from sysgym.emulator.packets.transports.searched.neural import N_PARAMETERS, neural_transport
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError, UnknownName

POPULATION = 16
"""Of a search in so many dimensions, by cmaes."""

BASELINE = {
    "goodput_bps": 1e9,
    "queue_p99_bytes": 1e5,
    "queue_mean_bytes": 5e4,
    "fct_slowdown_p50": 2.0,
    "fct_slowdown_p99": 10.0,
}


@pytest.fixture(scope="module")
def small() -> CongestionScenario:
    overrides = {"control.episode_steps": 4, "topology.hosts_per_side": 1}
    scenario = load_scenario("dumbbell-10g", overrides=overrides)
    assert isinstance(scenario, CongestionScenario)
    return scenario


@pytest.fixture(scope="module")
def checkpoint(small: CongestionScenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("neural", small, total_steps=1, out=tmp_path_factory.mktemp("run"), seed=3)


def test_the_baseline_loses_nothing_against_itself() -> None:
    assert loss(BASELINE, BASELINE) == 0.0


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_less_is_better_down_to_what_is_enough(name: str) -> None:
    def at(share: float) -> float:
        return loss({**BASELINE, name: BASELINE[name] * share}, BASELINE)

    assert at(1.1) > 0.0
    assert at(ENOUGH[name]) == pytest.approx(WEIGHTS[name] * np.log(ENOUGH[name]))
    assert at(0.5 * ENOUGH[name]) == pytest.approx(at(ENOUGH[name]))


def test_goodput_cannot_be_traded_for_queues() -> None:
    idle = {name: value / 100 for name, value in BASELINE.items()} | {"goodput_bps": 0.5e9}
    assert loss(idle, BASELINE) > 5.0


def test_unfair_shares_cost() -> None:
    fair = {**BASELINE, "jain_index": 0.99}
    assert loss({**fair, "jain_index": 0.6}, fair) > 1.0


def test_a_judge_says_the_same_on_any_number_of_threads(small: CongestionScenario) -> None:
    laws = [neural_transport(np.full(N_PARAMETERS, value)) for value in (0.0, 0.1)]
    episodes = [Episode(small, "train", seed) for seed in (1, 2)]
    one, two = Judge(1).losses(laws, episodes), Judge(2).losses(laws, episodes)
    assert one.shape == (2, 2)
    np.testing.assert_array_equal(one, two)


@contextmanager
def stopped(monkeypatch: pytest.MonkeyPatch, when: Callable[[Search], bool]) -> Iterator[None]:
    """A search inside is interrupted before its first generation for which that holds."""
    generation = Search.generation

    def stops(self: Search, judge: Judge) -> float:
        if when(self):
            raise KeyboardInterrupt
        return generation(self, judge)

    with monkeypatch.context() as patched:
        patched.setattr(Search, "generation", stops)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_a_stopped_search_goes_on_as_if_it_had_not_been(
    small: CongestionScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "EPISODES_A_GENERATION", 1)
    monkeypatch.setattr(search, "EPISODES_A_VALIDATION", 1)
    steps_a_generation = POPULATION * 4
    whole = FORM.read(
        train("neural", small, total_steps=2 * steps_a_generation, out=tmp_path / "whole", seed=5)
    )

    arguments = {"total_steps": 2 * steps_a_generation, "out": tmp_path / "parts", "seed": 5}
    with stopped(monkeypatch, lambda self: self.steps > 0):
        train("neural", small, **arguments)  # type: ignore[arg-type]
    with pytest.raises(SysgymError, match="holds a run already"):
        train("neural", small, **arguments)  # type: ignore[arg-type]
    for what, other in (("seed", {"seed": 6}), ("sigma", {"hyper_parameters": {"sigma": 0.5}})):
        with pytest.raises(SysgymError, match=f"the search there has a different {what}"):
            train("neural", small, **{**arguments, **other}, resume=True)  # type: ignore[arg-type]
    with pytest.raises(SysgymError, match="has a different list of scenarios"):
        train("neural", "incast-32", **arguments, resume=True)  # type: ignore[arg-type]
    parts = FORM.read(train("neural", small, **arguments, resume=True))  # type: ignore[arg-type]
    assert parts == whole
    assert len((tmp_path / "parts" / CURVE).read_text().splitlines()) == 3


STAGES = {"alone_steps": 1, "also_on": ["dumbbell-10g"], "episode_steps": 4, "joint_sigma": 1e-4}


def test_the_other_scenarios_join_around_the_best_law_of_the_first(
    small: CongestionScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "EPISODES_A_GENERATION", 2)
    monkeypatch.setattr(search, "EPISODES_A_VALIDATION", 1)
    alone = FORM.read(train("neural", small, total_steps=1, out=tmp_path / "alone", seed=5))

    arguments = {"total_steps": 2, "seed": 5, "hyper_parameters": STAGES}
    whole = FORM.read(train("neural", small, out=tmp_path / "whole", **arguments))  # type: ignore[arg-type]
    np.testing.assert_allclose(whole.parameters, alone.parameters, atol=1e-3)
    assert whole.parameters != alone.parameters
    assert whole.total_steps == 2 * POPULATION * 2 * 4  # one generation each: twice one, once each of two
    assert [scenario["topology"]["hosts_per_side"] for scenario in whole.trained_on] == [1, 4]

    with stopped(monkeypatch, lambda self: self.joined):
        train("neural", small, out=tmp_path / "parts", **arguments)  # type: ignore[arg-type]
    parts = FORM.read(train("neural", small, out=tmp_path / "parts", resume=True, **arguments))  # type: ignore[arg-type]
    assert parts == whole


@pytest.mark.parametrize("alone_steps", [-1, 100])
def test_a_first_stage_leaves_steps_for_the_second(alone_steps: int, tmp_path: Path) -> None:
    hyper_parameters = {"alone_steps": alone_steps, "also_on": ["dumbbell-10g"]}
    with pytest.raises(SysgymError, match=f"alone_steps is {alone_steps} of 100 steps; expected 0 or more"):
        train("neural", "incast-32", total_steps=100, out=tmp_path, hyper_parameters=hyper_parameters)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("sigma", -1, "sigma is -1; expected a positive number"),
        ("joint_sigma", float("nan"), "joint_sigma is nan; expected a positive number"),
        ("alone_steps", "abc", "alone_steps is 'abc'; expected a whole number"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(name: str, value: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match=words):
        train("neural", "incast-32", total_steps=100, out=tmp_path, hyper_parameters={name: value})


def test_a_checkpoint_plays_and_brings_its_transport(checkpoint: Path, small: CongestionScenario) -> None:
    agent = make_agent("neural", checkpoint=checkpoint)
    env = DatacenterCC(scenario=small, **environment_arguments(agent))
    assert env.transport.name == "neural"
    _, info = play_episode(env, agent, seed=1)
    assert info["episode_metrics"]["goodput_bps"] > 1e9


def test_a_checkpoint_says_where_it_comes_from(checkpoint: Path) -> None:
    law = FORM.read(checkpoint)
    assert [scenario["name"] for scenario in law.trained_on] == ["dumbbell-10g"]
    assert law.seed == 3
    assert law.total_steps == POPULATION * 6 * 4
    assert set(law.versions) == {"sysgym", "numpy", "numba", "cmaes"}


def test_other_files_are_refused(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(SysgymError, match="no such checkpoint"):
        make_agent("neural", checkpoint=tmp_path / "none.json")
    (tmp_path / "text.json").write_text("no law")
    with pytest.raises(SysgymError, match="not a checkpoint of the agent neural"):
        make_agent("neural", checkpoint=tmp_path / "text.json")
    data = json.loads(checkpoint.read_text())
    data["inputs"] = data["inputs"][:-1]
    (tmp_path / "other.json").write_text(json.dumps(data))
    with pytest.raises(SysgymError, match="other inputs than those of the agent neural"):
        make_agent("neural", checkpoint=tmp_path / "other.json")


def test_what_it_cannot_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match="learns in scenarios of sysgym/DatacenterCC-v0 only"):
        train("neural", "flow-1g-1ms", total_steps=1, out=tmp_path)
    with pytest.raises(UnknownName, match='no hyper-parameter of neural is named "gamma"'):
        train("neural", "incast-32", total_steps=1, out=tmp_path, hyper_parameters={"gamma": 0.9})


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": [10**400]},
        {"parameters": [float("nan")]},
        {"parameters": [True]},
        {"trained_on": 5},
        {"trained_on": [5]},
        {"trained_on": [{"name": "x */\n"}]},
        {"total_steps": {"a": 1}},
        {"versions": 7},
        {"more": 1},
    ],
)
def test_a_law_that_lies_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    shipped = shipped_checkpoint("neural", "incast-32")
    assert shipped is not None
    path = tmp_path / "law.json"
    path.write_text(json.dumps({**json.loads(shipped.read_text()), **change}))
    with pytest.raises(SysgymError, match=r"law\.json: "):
        FORM.read(path)
