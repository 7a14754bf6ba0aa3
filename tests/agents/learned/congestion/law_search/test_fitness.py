"""Fitness of a law: against DCTCP where it is alone, by its share where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.agents.learned.congestion.law_search.fitness import (
    SLOWER_WEIGHT,
    SPARED_SLOWDOWN,
    WEIGHTS,
    WORSE_SLOWDOWN_WEIGHT,
    Judge,
    compare,
    compare_on_network,
    loss_of_fairness,
    loss_of_kind,
    loss_of_networks,
    loss_of_share,
)
from sysgym.agents.learned.congestion.law_search.lessons import (
    ANY_CROWDS,
    COLLECTIVES,
    CROWDS,
    FLOWS,
    INCAST,
    ITSELF,
    LINKS,
    LOTS,
    NETWORKS,
    SLOW,
    Lesson,
)
from sysgym.emulator.packets.transports import get_transport
from sysgym.emulator.packets.transports.searched.adaptive_target import CONSTANTS, adaptive_target_transport
from sysgym.scenarios import CongestionScenario, load_scenario

BASELINE = {
    "goodput_bps": 1e9,
    "queue_p99_bytes": 1e5,
    "fct_slowdown_p50": 2.0,
    "fct_slowdown_p99": 10.0,
    "fct_slowdown_p99_large": 5.0,
}


def at(kind: str, **changes: float) -> float:
    """Return the loss of one episode in which some metrics are multiplied by factors."""
    metrics = {name: value * changes.get(name, 1.0) for name, value in BASELINE.items()}
    return loss_of_kind(kind, [compare(metrics, BASELINE)])


@pytest.mark.parametrize("kind", [FLOWS, INCAST, LINKS, SLOW, LOTS, COLLECTIVES])
def test_the_baseline_loses_nothing_against_itself(kind: str) -> None:
    assert at(kind) == 0.0


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_less_is_better(name: str) -> None:
    assert at(FLOWS, **{name: 0.5}) == pytest.approx(WEIGHTS[name] * np.log(0.5))


def test_it_is_the_power_that_counts() -> None:
    doubled = at(FLOWS, queue_p99_bytes=0.5), at(FLOWS, fct_slowdown_p99=0.5), at(LINKS, goodput_bps=2.0)
    assert doubled == pytest.approx([-np.log(2.0)] * 3)
    assert at(FLOWS, queue_p99_bytes=0.5, fct_slowdown_p99=2.0) == pytest.approx(
        WORSE_SLOWDOWN_WEIGHT * (np.log(2.0) - SPARED_SLOWDOWN)
    )


def test_queues_of_few_packets_are_equal() -> None:
    empty, few = {**BASELINE, "queue_p99_bytes": 0.0}, {**BASELINE, "queue_p99_bytes": 3e3}
    assert compare(empty, BASELINE) == compare(few, BASELINE)


def test_no_class_of_sizes_may_pay_for_the_others() -> None:
    better, little = at(FLOWS, fct_slowdown_p99_large=0.8), at(FLOWS, fct_slowdown_p99_large=1.04)
    assert better == little == 0.0
    assert at(FLOWS, fct_slowdown_p99_large=1.25) > 0.08


def test_noise_of_single_episodes_is_averaged_before_it_is_judged() -> None:
    noisy = [compare({**BASELINE, "fct_slowdown_p99_large": 5.0 * factor}, BASELINE) for factor in (2.0, 0.5)]
    assert loss_of_kind(FLOWS, noisy) == pytest.approx(0.0)


@pytest.mark.parametrize(("kind", "free"), [(FLOWS, 0.985), (INCAST, 0.995), (COLLECTIVES, 0.995)])
def test_goodput_cannot_be_traded(kind: str, free: float) -> None:
    assert at(kind, goodput_bps=free) < 0.02
    assert at(kind, goodput_bps=0.9) > 0.8


def test_a_fair_share_of_a_long_path_may_cost_goodput() -> None:
    assert at(LOTS, goodput_bps=0.8) == pytest.approx(-np.log(0.8)), "its power is less, no more"


def test_goodput_of_long_flows_counts() -> None:
    assert at(LINKS, goodput_bps=1.5) < -0.4 < 0.5 < at(LINKS, goodput_bps=0.9)


def test_unfair_shares_cost() -> None:
    fair = {**BASELINE, "jain_index": 0.99}
    unfair = compare({**fair, "jain_index": 0.6}, fair)
    assert loss_of_kind(LINKS, [unfair]) > 1.0
    assert loss_of_kind(LINKS, [compare(fair, fair), unfair]) == loss_of_kind(LINKS, [unfair])


def test_a_fair_share_costs_nothing_and_both_directions_cost_the_same() -> None:
    assert loss_of_share(1.0) == 0.0
    assert loss_of_share(0.5) == pytest.approx(loss_of_share(1.5))
    assert loss_of_share(0.9) < 0.1 < loss_of_share(0.6) < 1.0 < loss_of_share(0.45) < loss_of_share(0.35)
    assert loss_of_share(0.4) == pytest.approx(loss_of_share(0.0))
    assert loss_of_share(0.0) == pytest.approx(loss_of_share(2.0))


def test_unfairness_costs_until_it_is_a_fifth_and_crowds_cost_more() -> None:
    for kind in (ITSELF, CROWDS, ANY_CROWDS):
        fair, less, least, starving = (loss_of_fairness(kind, jain) for jain in (0.99, 0.98, 0.785, 0.1))
        assert fair == 0.0 < less < least
        assert least == pytest.approx(starving)
    assert loss_of_fairness(CROWDS, 0.97) == pytest.approx(5.0 * loss_of_fairness(ITSELF, 0.97))


def test_on_networks_the_power_over_the_rivals_counts_and_slower_flows_cost() -> None:
    def loss(**changes: float) -> float:
        metrics = {name: value * changes.get(name, 1.0) for name, value in BASELINE.items()}
        rival = {**BASELINE, "queue_p99_bytes": 2e5}
        return loss_of_networks([compare_on_network(metrics, BASELINE, rival)])

    ahead = -np.log(2.0)
    assert loss() == pytest.approx(ahead), "half of the rival's queue"
    assert loss(queue_p99_bytes=2.0) == pytest.approx(0.0)
    assert loss(queue_p99_bytes=1e-9) == loss(queue_p99_bytes=1e-3), "two packets and less are equal"
    assert loss(fct_slowdown_p99_large=0.5) == pytest.approx(ahead), (
        "only the p99 of all flows is of the power"
    )
    slower = SLOWER_WEIGHT * np.log(1.1)
    assert loss(fct_slowdown_p99_large=1.1) == pytest.approx(ahead + slower)
    assert loss(fct_slowdown_p99=1.1) == pytest.approx(ahead + slower + np.log(1.1))


def test_a_law_under_which_no_flow_ends_has_little_power() -> None:
    none = {name: BASELINE[name] for name in ("goodput_bps", "queue_p99_bytes")}
    assert loss_of_networks([compare_on_network(none, BASELINE, BASELINE)]) == pytest.approx(
        np.log(1e4 / 10.0)
    )


def test_a_judge_compares_with_swift_on_networks() -> None:
    changes = {"workload.last_arrival_s": 2e-4, "control.episode_steps": 20}
    scenario = load_scenario("leafspine-2to1-websearch-drained", overrides=changes, expect=CongestionScenario)
    lessons = [Lesson(NETWORKS, Episode(scenario, "train", seed)) for seed in (1, 2)]
    dctcp, swift = Judge(1).losses([get_transport("dctcp"), get_transport("swift")], lessons)
    found = [lesson.episode.play_arrivals("swift") for lesson in lessons]
    baseline = [lesson.episode.play_arrivals("dctcp") for lesson in lessons]
    pairs = list(zip(found, baseline, strict=True))
    assert swift == pytest.approx(2.0 * loss_of_networks([compare_on_network(a, b, a) for a, b in pairs]))
    assert dctcp == pytest.approx(2.0 * loss_of_networks([compare_on_network(b, b, a) for a, b in pairs]))


def test_coexistence_multiplies_what_is_lost_on_shared_links_alone() -> None:
    small = load_scenario("dumbbell-10g", overrides={"control.episode_steps": 4}, expect=CongestionScenario)
    episode = Episode(small, "train", 1)
    alone, beside = Lesson(LINKS, episode), Lesson("dctcp", episode, 0.005, "dctcp")
    crowd = Lesson(CROWDS, episode, 0.002)
    laws = [get_transport("cubic")]
    usual, strict = Judge(1), Judge(1, coexistence=3.0)
    assert strict.losses(laws, [alone]) == usual.losses(laws, [alone])
    for shared in (beside, crowd):
        assert usual.losses(laws, [shared]) > 0.0
        assert strict.losses(laws, [shared]) == pytest.approx(3.0 * usual.losses(laws, [shared]))


def test_a_judge_says_the_same_on_any_number_of_threads() -> None:
    small = load_scenario("dumbbell-10g", overrides={"control.episode_steps": 4})
    assert isinstance(small, CongestionScenario)
    episode = Episode(small, "train", 1)
    lessons = [
        Lesson(LINKS, episode),
        Lesson("dctcp", episode, 0.005, "dctcp"),
        Lesson(CROWDS, episode, 0.005),
    ]
    values = np.array([constant.value for constant in CONSTANTS])
    laws = [adaptive_target_transport(values), adaptive_target_transport(values * 1.02)]
    one, two = Judge(1).losses(laws, lessons), Judge(2).losses(laws, lessons)
    assert one.shape == (2,)
    np.testing.assert_array_equal(one, two)
    assert np.isfinite(one).all()
