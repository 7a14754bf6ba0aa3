"""Policies in the package: each runs without training, is small, and has a card."""

from __future__ import annotations

import re

import pytest

from sysgym.agents import agent_info
from sysgym.agents.learned.shipped import list_shipped, shipped_checkpoint
from sysgym.bench.contenders import parse_contender
from sysgym.bench.run.episodes import make_contender, play
from sysgym.scenarios import load_scenario

SHIPPED = list_shipped()
CARD_SECTIONS = ("What it is", "Trained on", "How good", "Not for")


def test_there_are_some() -> None:
    assert "neural" in {one.agent for one in SHIPPED}


@pytest.mark.parametrize("one", SHIPPED, ids=[one.name for one in SHIPPED])
def test_it_plays_at_once(one) -> None:  # type: ignore[no-untyped-def]
    assert agent_info(one.agent).learned
    scenario = load_scenario(one.scenario or "dumbbell-10g", overrides={"control.episode_steps": 4})
    contender = parse_contender(one.agent).with_shipped(scenario.name)
    assert contender.checkpoint_path() == one.path
    env, agent = make_contender(scenario.resolved(), "test", contender)
    played = play(env, agent, 20_000)
    assert played.info["episode_metrics"]["goodput_bps"] > 0.0


@pytest.mark.parametrize("one", SHIPPED, ids=[one.name for one in SHIPPED])
def test_it_is_small_and_has_a_card(one) -> None:  # type: ignore[no-untyped-def]
    assert one.path.stat().st_size < 200_000
    assert one.card.startswith("# ")
    sections = tuple(re.findall(r"^## (.*)$", one.card, re.MULTILINE))
    assert sections == CARD_SECTIONS


def test_the_one_for_a_scenario_comes_before_the_one_for_all() -> None:
    assert shipped_checkpoint("neural", "incast-32") == shipped_checkpoint("neural")
    assert shipped_checkpoint("dctcp") is None
