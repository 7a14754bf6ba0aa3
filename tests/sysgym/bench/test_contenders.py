"""Contenders in text form: names, parts, checkpoints, and constants of transports and agents."""

from __future__ import annotations

from typing import Any

import pytest

import sysgym
from sysgym.bench.contenders import Contender, contender_from, parse_contender
from sysgym.bench.run.episodes import make_contender
from sysgym.emulator.packets.transports import get_transport
from sysgym.errors import SysgymError, UnknownName
from sysgym.scenarios import load_scenario
from sysgym.studies.laws import transport_of

REGISTERED = sysgym.__version__


def test_constants_follow_commas() -> None:
    contender = parse_contender("swift,beta=0.4,max_decrease=0.25")
    assert (contender.name, contender.transport) == ("swift-beta-0.4-max_decrease-0.25", "swift")
    assert dict(contender.parameters) == {"beta": 0.4, "max_decrease": 0.25}
    named = parse_contender("gentle=swift,beta=0.4")
    assert (named.name, dict(named.parameters)) == ("gentle", {"beta": 0.4})
    assert Contender.from_json(named.to_json()) == named
    assert named.identity != parse_contender("gentle=swift,beta=0.5").identity


def test_arguments_of_agents_are_written_alike() -> None:
    once = parse_contender("once=annealing,measurements=1", family="pipelines")
    assert (once.name, once.agent, dict(once.parameters)) == ("once", "annealing", {"measurements": 1})


@pytest.mark.parametrize(
    ("text", "family", "message"),
    [
        ("late,cap=x", "stragglers", "late: cap: expected a finite number, got 'x'"),
        ("late,cap=-3", "stragglers", "late: cap: expected 0 to 1, got -3"),
        ("annealing,evaluations=0", "placement", "annealing: evaluations: expected at least 1, got 0"),
        ("dctcp:aimd,start=2", None, "aimd: start: expected 0 to 1, got 2"),
        ("transfer,limit=x", "stragglers", "transfer: limit: expected a finite number or None, got 'x'"),
    ],
)
def test_values_of_arguments_are_checked_before_anybody_plays(
    text: str, family: str | None, message: str
) -> None:
    with pytest.raises(SysgymError, match=message):
        parse_contender(text, family=family)


def test_the_way_of_writing_numbers_and_their_order_do_not_matter() -> None:
    one = parse_contender("x=annealing,evaluations=1e2,measurements=3", family="pipelines")
    other = parse_contender("x=annealing,measurements=3,evaluations=100", family="pipelines")
    assert one.identity == other.identity
    assert parse_contender("swift,beta=0.40") == parse_contender("swift,beta=0.4")


def test_an_equals_sign_in_a_path_is_no_name() -> None:
    with pytest.raises(SysgymError, match=r"runs/lr=0\.1/final\.zip"):
        parse_contender("ppo@runs/lr=0.1/final.zip")


def test_the_environment_has_the_law_with_these_constants() -> None:
    contender = parse_contender("swift,beta=0.4")
    scenario = load_scenario("dumbbell-10g").resolved()
    env, _ = make_contender(scenario, "test", contender)
    world: Any = env.unwrapped
    assert world.transport == get_transport("swift").with_constants({"beta": 0.4})
    assert transport_of(contender) == world.transport


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("swift,bta=0.4", UnknownName, 'no constant of swift is named "bta"; did you mean "beta"'),
        ("swift,beta=9", SysgymError, "swift: beta is 9, expected 0.05 to 2"),
        ("swift,beta=low", SysgymError, "beta is 'low', expected a number"),
        ("swift,beta=0.4,beta=0.5", SysgymError, "beta appears twice"),
        ("swift:aimd,bet=0.4", UnknownName, 'no argument of the agent aimd is named "bet"'),
        ("aimd,incr=3", UnknownName, 'no argument of the agent aimd is named "incr"'),
        ("swift,beta", SysgymError, 'expected KEY=VALUE after a comma, such as beta=0.4, got "beta"'),
        ("reno,beta=0.4", UnknownName, "Declare them: Transport"),
        ("bbr,beta=0.4", UnknownName, "Declare them: Transport"),
        ("adaptive_swift,traget=1", UnknownName, 'no constant of adaptive_swift is named "traget"'),
        ("adaptive_swift,target=-1", SysgymError, "adaptive_swift: target is -1, expected"),
        ("tuned_swift,beta=low", SysgymError, "tuned_swift: beta is 'low', expected a number"),
        ("adaptive_swift@law.json,target=1", SysgymError, "expected constants before the checkpoint"),
        ("neural,beta=0.4", UnknownName, 'no constant of neural is named "beta"'),
    ],
)
def test_mistakes_are_told_before_anything_runs(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(")):
        parse_contender(text)


def test_constants_of_a_learned_law_replace_those_of_its_checkpoint() -> None:
    package, changed = (
        parse_contender(text, (), "congestion").with_shipped("dumbbell-10g")
        for text in ("adaptive_swift", "mine=adaptive_swift,target=1.5,pace=2")
    )
    before, after = (
        dict(zip([one.name for one in law.constants], law.parameters, strict=True))
        for law in (transport_of(package), transport_of(changed))
    )
    assert after == before | {"target": 1.5, "pace": 2.0}
    assert before != after
    assert package.checkpoint_sha256 == changed.checkpoint_sha256
    assert package.identity[1:] != changed.identity[1:]


def test_agents_above_a_transport_take_both_kinds() -> None:
    both = contender_from("both", "swift", "aimd", parameters={"beta": 0.4, "increase": 0.1})
    family = sysgym.scenarios.families.get_family("congestion")
    assert both.parameters_of(family.transports) == ({"beta": 0.4}, {"increase": 0.1})
    assert parse_contender("dctcp").parameters_of(family.transports) == ({}, {})
