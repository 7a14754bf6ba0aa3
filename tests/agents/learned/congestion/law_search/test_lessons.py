"""Lessons of the search: what is drawn can be played, and is the same for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.agents.learned.congestion.law_search.lessons import (
    ANY_CROWDS,
    COLLECTIVES,
    CROWDS,
    FLOWS,
    INCAST,
    ITSELF,
    LINKS,
    LONG_SHARED_PACKETS,
    LOTS,
    NETWORKS,
    PACKET_BITS,
    SLOW,
    Lesson,
    datacenter_link,
    draw_lessons,
    random_collective,
    random_crowd,
    random_link,
    random_lot,
    shared_link,
    slow_link,
)
from sysgym.scenarios import CongestionScenario, load_scenario, load_suite

SCENARIOS = ("fattree-k4-websearch-drained", "incast-32")
SUITES = ("beyond-classics-tuned", "beyond-classics-wide")
TESTED_ON = {task.scenario for suite in SUITES for task in load_suite(suite).tasks}


def drawn(seed: int) -> list[Lesson]:
    scenarios = [load_scenario(name, expect=CongestionScenario) for name in SCENARIOS]
    return draw_lessons(scenarios, ["cubic", "swift"], "train", np.random.default_rng(seed))


def test_there_is_a_lesson_of_every_kind() -> None:
    kinds = [lesson.kind for lesson in drawn(0)]
    networks = [LINKS] * 4 + [SLOW] * 2 + [LOTS] * 2 + [COLLECTIVES] * 3
    shared = ["cubic"] * 2 + ["swift"] * 2 + [ITSELF] + [CROWDS] * 12
    assert kinds == [FLOWS] * 2 + [INCAST] * 2 + networks + shared


def test_networks_of_the_study_come_with_more_crowds_and_longer_lessons_beside_others() -> None:
    scenarios = [load_scenario(SCENARIOS[0], expect=CongestionScenario)]
    few, many = (
        draw_lessons(scenarios, ["cubic"], "train", np.random.default_rng(2), networks) for networks in (0, 5)
    )

    def kinds(lessons: list[Lesson]) -> dict[str, int]:
        return {kind: sum(one.kind == kind for one in lessons) for kind in (NETWORKS, "cubic", CROWDS)}

    assert kinds(few) == {NETWORKS: 0, "cubic": 2, CROWDS: 12}
    assert kinds(many) == {NETWORKS: 5, "cubic": 6, CROWDS: 24}
    longest = max((one for one in many if one.kind == "cubic"), key=lambda one: one.duration_s)
    line_bps = longest.episode.scenario.topology.link_rate_bps
    assert longest.duration_s * line_bps == pytest.approx(LONG_SHARED_PACKETS * PACKET_BITS)
    for lesson in (one for one in many if one.kind == NETWORKS):
        first, last = lesson.episode.scenario.splits["train"].seeds
        assert first <= lesson.episode.seed <= last


def test_links_of_any_kind_come_after_the_others_and_change_none_of_them() -> None:
    scenarios = [load_scenario(SCENARIOS[0], expect=CongestionScenario)]
    usual, more = (
        draw_lessons(scenarios, ["cubic", "bbr"], "train", np.random.default_rng(4), 2, links)
        for links in (0, 2)
    )
    assert [one.episode.seed for one in more[: len(usual)]] == [one.episode.seed for one in usual]
    kinds = ["cubic on any link"] * 2 + ["bbr on any link"] * 2 + [ANY_CROWDS] * 6
    assert [one.kind for one in more[len(usual) :]] == kinds
    for one in more[len(usual) :]:
        assert one.beside == one.kind.removesuffix(" on any link") * (one.kind != ANY_CROWDS)
        assert one.duration_s > 0.0


def test_the_same_seed_draws_the_same_lessons() -> None:
    one, two = drawn(3), drawn(3)
    assert [(a.kind, a.episode.seed, a.duration_s) for a in one] == [
        (b.kind, b.episode.seed, b.duration_s) for b in two
    ]
    assert [a.episode.scenario.sha256() for a in one] == [b.episode.scenario.sha256() for b in two]
    assert [a.episode.seed for a in one] != [c.episode.seed for c in drawn(4)]


def test_seeds_are_of_the_split_and_scenarios_are_none_of_the_test() -> None:
    for seed in range(20):
        for lesson in drawn(seed):
            first, last = lesson.episode.scenario.splits["train"].seeds
            assert first <= lesson.episode.seed <= last
            assert lesson.episode.scenario.name not in TESTED_ON
            assert lesson.steps > 0


def test_an_incast_of_other_senders_has_as_many_bytes() -> None:
    usual: Any = load_scenario("incast-32", expect=CongestionScenario).workload
    for lesson in (one for seed in range(10) for one in drawn(seed) if one.kind == INCAST):
        workload: Any = lesson.episode.scenario.workload
        round_bytes = usual.senders * usual.request_bytes
        assert workload.senders * workload.request_bytes == pytest.approx(round_bytes, rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_networks_are_valid_scenarios(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for base, changes in (
        ("dumbbell-10g", random_link(rng)),
        ("dumbbell-10g", shared_link(rng)),
        ("dumbbell-10g", slow_link(rng)),
        ("parking-lot-4", random_lot(rng)),
        ("alltoall-fattree-k4", random_collective(rng)),
        ("dumbbell-10g", random_crowd(rng)),
        ("dumbbell-10g", datacenter_link(rng)),
    ):
        scenario: Any = load_scenario(base, overrides=dict(changes), expect=CongestionScenario)
        assert scenario.queue.ecn_threshold_bytes <= scenario.queue.buffer_bytes
        assert scenario.topology.link_rate_bps >= 10e6


def test_a_scenario_of_the_user_is_varied_as_it_is() -> None:
    """Its changes stay, and what has no web search or single switch is played unchanged, in fewer steps."""
    changed = load_scenario(
        "incast-32", overrides={"queue.buffer_bytes": 300_000, "queue.ecn_threshold_bytes": 60_000},
        expect=CongestionScenario,
    )  # fmt: skip
    long_lived = load_scenario("dumbbell-10g", expect=CongestionScenario)
    found = draw_lessons([changed, long_lived], [], "train", np.random.default_rng(1))
    assert {lesson.episode.scenario.queue.buffer_bytes for lesson in found[:2]} == {300_000}
    assert [lesson.kind for lesson in found[2:4]] == [LINKS, LINKS]
    for lesson in found[2:4]:
        played = lesson.episode.scenario
        assert played.topology == long_lived.topology
        assert played.workload == long_lived.workload
        assert played.control.episode_s == pytest.approx(long_lived.control.episode_s)
