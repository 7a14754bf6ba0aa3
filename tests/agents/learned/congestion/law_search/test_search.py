"""Search for a law's constants: its start, resuming, bounds and checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sysgym.agents import make_agent
from sysgym.agents.learned import train
from sysgym.agents.learned.congestion.adaptive_swift.search import LAW as ADAPTIVE_SWIFT
from sysgym.agents.learned.congestion.adaptive_target.agent import FORM
from sysgym.agents.learned.congestion.adaptive_target.search import LAW as ADAPTIVE_TARGET
from sysgym.agents.learned.congestion.evolution import CURVE
from sysgym.agents.learned.congestion.law import Law
from sysgym.agents.learned.congestion.law_search import lessons, search
from sysgym.agents.learned.congestion.law_search.fitness import Judge
from sysgym.agents.learned.congestion.law_search.search import Search, SearchedLaw
from sysgym.agents.learned.congestion.tuned_swift.search import LAW as TUNED_SWIFT
from sysgym.agents.learned.deploy.source import read_source
from sysgym.agents.protocol import environment_arguments, play_episode
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.searched.adaptive_target import CONSTANTS
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError, UnknownName


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> CongestionScenario:
    """A scenario of a few steps, and lessons that are as short."""
    monkeypatch.setattr(search, "POPULATION", 4)
    monkeypatch.setattr(lessons, "EPISODES_OF_A_SCENARIO", 1)
    monkeypatch.setattr(lessons, "RANDOM_NETWORKS", {})
    monkeypatch.setattr(lessons, "LINKS_OF_A_NEIGHBOUR", 1)
    monkeypatch.setattr(lessons, "CROWDS_A_GENERATION", 1)
    monkeypatch.setattr(lessons, "CROWD_PACKETS", 20_000)
    monkeypatch.setattr(lessons, "SHARED_PACKETS", 20_000)
    overrides = {"control.episode_steps": 4, "workload.senders": 4, "topology.hosts": 5}
    monkeypatch.setattr(lessons, "other_senders", lambda scenario, rng: {})
    scenario = load_scenario("incast-32", overrides=overrides)
    assert isinstance(scenario, CongestionScenario)
    return scenario


ARGUMENTS = {"seed": 3, "hyper_parameters": {"neighbours": ["dctcp"], "validations": 1}}
# Of four candidates: an episode of the scenario, two shared links, and a crowd.
STEPS_A_GENERATION = 4 * (4 + 2 * 100 + 100)


LAWS = pytest.mark.parametrize(
    "law", [ADAPTIVE_SWIFT, ADAPTIVE_TARGET, TUNED_SWIFT], ids=lambda law: law.form.agent
)


@LAWS
def test_points_are_doublings_within_bounds(law: SearchedLaw) -> None:
    """Constants that a search leaves alone keep their first values."""
    n = len(law.searched)
    for point, which in ((0.0, "value"), (99.0, "most"), (-99.0, "least")):
        expected = [getattr(one, which if one.searched else "value") for one in law.constants]
        np.testing.assert_array_equal(law.constants_at(np.full(n, point)), expected)
    for corner in law.bounds.T:
        law.transport_at(corner)  # raises nothing


def test_other_constants_can_be_searched_than_those_that_the_law_says(
    small: CongestionScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [one.value for one in ADAPTIVE_SWIFT.constants]

    def losses(_: Judge, transports: list[Transport], __: object) -> NDArray[np.float64]:
        return np.array([-np.abs(np.subtract(one.parameters, first)).sum() for one in transports])

    monkeypatch.setattr(Judge, "losses", losses)  # the farther from the start, the better
    chosen = ["pace", "target"]
    assert [one.name for one in ADAPTIVE_SWIFT.searching(chosen).searched] == ["target", "pace"]
    path = train(
        "adaptive_swift", small, total_steps=2 * STEPS_A_GENERATION, out=tmp_path, seed=5,
        hyper_parameters={"neighbours": ["dctcp"], "validations": 1, "constants": chosen},
    )  # fmt: skip
    found = ADAPTIVE_SWIFT.form.read(path)
    assert found.hyper_parameters["constants"] == chosen
    changed = {
        one.name
        for one, value, old in zip(ADAPTIVE_SWIFT.constants, found.parameters, first, strict=True)
        if value != old
    }
    assert changed == set(chosen)


def test_a_search_begins_where_another_one_ended(
    small: CongestionScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[float]] = []

    def losses(_: Judge, transports: list[Transport], __: object) -> NDArray[np.float64]:
        begun.extend(list(one.parameters) for one in transports)
        return np.zeros(len(transports))

    first = [one.value * (0.9 if one.searched else 1.0) for one in TUNED_SWIFT.constants]
    there = tmp_path / "there.json"
    TUNED_SWIFT.form.write(Law(first, [], 0, 0, 0.0, {}, {}), there)
    monkeypatch.setattr(Judge, "losses", losses)
    arguments = {"seed": 3, "total_steps": 1, "out": tmp_path / "run"}
    chosen = {"neighbours": ["dctcp"], "links": 1, "validations": 1, "start": str(there)}
    path = train("tuned_swift", small, hyper_parameters=chosen, **arguments)  # type: ignore[arg-type]
    np.testing.assert_allclose(begun[0], first)
    assert TUNED_SWIFT.form.read(path).hyper_parameters["start"] == str(there)
    with pytest.raises(SysgymError, match="has a different start"):
        train("tuned_swift", small, resume=True, **arguments, hyper_parameters={**chosen, "start": None})  # type: ignore[arg-type]
    with pytest.raises(SysgymError, match="has a different number of links"):
        train("tuned_swift", small, resume=True, **arguments, hyper_parameters={**chosen, "links": 2})  # type: ignore[arg-type]
    TUNED_SWIFT.form.write(Law([1e9] * len(first), [], 0, 0, 0.0, {}, {}), there)
    with pytest.raises(SysgymError, match=TUNED_SWIFT.constants[0].name):
        train("tuned_swift", small, hyper_parameters=chosen, total_steps=1, out=tmp_path / "other")


@LAWS
def test_a_search_that_finds_nothing_better_keeps_its_start(
    law: SearchedLaw, small: CongestionScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = law.transport_at(np.zeros(len(law.searched)))

    def losses(_: Judge, transports: list[Transport], __: object) -> NDArray[np.float64]:
        return np.array([float(one.parameters != first.parameters) for one in transports])

    monkeypatch.setattr(Judge, "losses", losses)
    found = law.form.read(train(law.form.agent, small, total_steps=1, out=tmp_path, **ARGUMENTS))  # type: ignore[arg-type]
    assert found.validation == 0.0
    assert list(found.parameters) == [one.value for one in law.constants]


def test_a_stopped_search_goes_on_as_if_it_had_not_been(
    small: CongestionScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {**ARGUMENTS, "total_steps": 2 * STEPS_A_GENERATION}
    whole = FORM.read(train("adaptive_target", small, out=tmp_path / "whole", **arguments))  # type: ignore[arg-type]
    assert whole.total_steps == 2 * STEPS_A_GENERATION
    generation = Search.generation

    def stops(self: Search, judge: Judge) -> float:
        if self.steps > 0:
            raise KeyboardInterrupt
        return generation(self, judge)

    arguments["out"] = tmp_path / "parts"
    with monkeypatch.context() as patched:
        patched.setattr(Search, "generation", stops)
        with pytest.raises(KeyboardInterrupt):
            train("adaptive_target", small, **arguments)  # type: ignore[arg-type]
    with pytest.raises(SysgymError, match="holds a run already"):
        train("adaptive_target", small, **arguments)  # type: ignore[arg-type]
    with pytest.raises(SysgymError, match="the search there has a different seed"):
        train("adaptive_target", small, **{**arguments, "seed": 4}, resume=True)  # type: ignore[arg-type]
    other = {**arguments, "hyper_parameters": {"neighbours": ["cubic"]}}
    with pytest.raises(SysgymError, match="has a different list of neighbours"):
        train("adaptive_target", small, **other, resume=True)  # type: ignore[arg-type]
    others = {**arguments, "hyper_parameters": {"neighbours": ["dctcp"], "constants": ["pace"]}}
    with pytest.raises(SysgymError, match="has a different list of constants"):
        train("adaptive_target", small, **others, resume=True)  # type: ignore[arg-type]
    broad = {**arguments, "hyper_parameters": {"neighbours": ["dctcp"], "networks": 3}}
    with pytest.raises(SysgymError, match="has a different number of networks"):
        train("adaptive_target", small, **broad, resume=True)  # type: ignore[arg-type]
    strict = {**arguments, "hyper_parameters": {"neighbours": ["dctcp"], "coexistence": 2.0}}
    with pytest.raises(SysgymError, match="has a different coexistence"):
        train("adaptive_target", small, **strict, resume=True)  # type: ignore[arg-type]
    with monkeypatch.context() as patched:
        patched.setattr(search, "VERSION", 0)
        with pytest.raises(SysgymError, match="has a different version of lessons"):
            train("adaptive_target", small, **arguments, resume=True)  # type: ignore[arg-type]
    with (tmp_path / "parts" / CURVE).open("a") as file:
        file.write("2,9,1.0,0.1,0.1\n2")  # as if killed between a line and the state, and in a line
    parts = FORM.read(train("adaptive_target", small, **arguments, resume=True))  # type: ignore[arg-type]
    assert parts == whole
    assert len((tmp_path / "parts" / CURVE).read_text().splitlines()) == 3


def test_a_checkpoint_plays_and_other_files_are_refused(small: CongestionScenario, tmp_path: Path) -> None:
    path = train("adaptive_target", small, total_steps=1, out=tmp_path / "run", **ARGUMENTS)  # type: ignore[arg-type]
    agent = make_agent("adaptive_target", checkpoint=path)
    env = DatacenterCC(scenario=small, **environment_arguments(agent))
    assert env.transport.name == "adaptive_target"
    _, info = play_episode(env, agent, seed=1)
    assert info["episode_metrics"]["goodput_bps"] > 0.0

    data = json.loads(path.read_text())
    for change, words in (
        ({"constants": data["constants"][1:]}, "other constants than those of the agent adaptive_target"),
        ({"parameters": [1e9] * len(CONSTANTS)}, "first_window is 1e"),
        ({"parameters": [1.0]}, "expected 26 constants"),
        (
            {"format": "sysgym-neural-1"},
            "expected 'sysgym-adaptive-target-1'; search for it",
        ),
    ):
        (tmp_path / "other.json").write_text(json.dumps({**data, **change}))
        with pytest.raises(SysgymError, match=words):
            make_agent("adaptive_target", checkpoint=tmp_path / "other.json")


def test_what_it_cannot_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match="learns in scenarios of sysgym/DatacenterCC-v0 only"):
        train("adaptive_target", "flow-1g-1ms", total_steps=1, out=tmp_path)
    for name, value, error, words in (
        ("sigma", -1.0, SysgymError, "sigma is -1.0; expected a positive number"),
        ("neighbours", ["nobody"], UnknownName, "nobody"),
        ("neighbours", "cubic", SysgymError, "expected a list of laws"),
        ("constants", ["speed"], UnknownName, "speed"),
        ("constants", "pace", SysgymError, r'constants is \'pace\'; expected a list of names, as \["pace"\]'),
        ("networks", -1, SysgymError, "networks is -1; expected a whole number of 0 or more, such as 40"),
        ("networks", "many", SysgymError, "networks is 'many'"),
        ("links", 1.5, SysgymError, "links is 1.5; expected a whole number of 0 or more, such as 4"),
        ("coexistence", 0, SysgymError, "coexistence is 0; expected a positive number, such as 2"),
        ("validations", 0, SysgymError, "validations is 0; expected a whole number of 1 or more, such as 8"),
        ("start", "nowhere.json", SysgymError, "nowhere.json: no such checkpoint"),
        ("start", "", SysgymError, "start is ''; expected a checkpoint of the law"),
        ("start", 3, SysgymError, "start is 3; expected a checkpoint of the law"),
    ):
        with pytest.raises(error, match=words):
            train("adaptive_target", "incast-32", total_steps=1, out=tmp_path, hyper_parameters={name: value})


@pytest.mark.parametrize("law", ["tuned_swift", "adaptive_swift"])
def test_laws_are_not_mixed_up(law: str, small: CongestionScenario, tmp_path: Path) -> None:
    path = train(law, small, total_steps=1, out=tmp_path / "run", **ARGUMENTS)  # type: ignore[arg-type]
    agent = make_agent(law, checkpoint=path)
    assert environment_arguments(agent)["transport"].name == law
    with pytest.raises(SysgymError, match="expected 'sysgym-adaptive-target-1'; search for it anew"):
        make_agent("adaptive_target", checkpoint=path)
    with pytest.raises(SysgymError, match="the search there has a different law"):
        train("adaptive_target", small, total_steps=1, out=tmp_path / "run", resume=True, **ARGUMENTS)  # type: ignore[arg-type]


def test_a_law_that_is_no_network_is_not_exported(tmp_path: Path) -> None:
    path = tmp_path / "law.json"
    FORM.write(Law([one.value for one in CONSTANTS], [], 0, 0, 0.0, {}, {}), path)
    with pytest.raises(SysgymError, match="adaptive_target is not a network, so there is nothing to export"):
        read_source(path)
