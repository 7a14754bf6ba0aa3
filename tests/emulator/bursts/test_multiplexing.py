"""Background work in the gaps: gaps by hand, conservation of GPU time, monotony, drift."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.bursts.layers import Layers
from sysgym.emulator.bursts.multiplexing import ACTIONS, Gaps, Multiplexing, gaps_of, outcomes
from sysgym.emulator.bursts.planning import PlanCost
from sysgym.scenarios import load_scenario
from sysgym.scenarios.schema.bursts import Background, BurstScenario

FOUR = np.array([1.0, 2.0, 4.0])


def gaps(plan: list[int], times_s: list[float]) -> Gaps:
    """Return the gaps of a plan on four GPUs."""
    exponents, layer_s = np.array(plan), np.array(times_s)
    none = np.zeros(len(plan))
    cost = PlanCost(layer_s.sum(), float((layer_s * FOUR[exponents]).sum()), layer_s)
    return gaps_of(exponents, cost, Layers(FOUR, np.ones((len(plan), 3)), none, none))


def test_gaps_of_a_plan_by_hand() -> None:
    """Four GPUs, then one, then two: GPU 1 is idle in the second layer, 2 and 3 in the last two."""
    found = gaps([2, 0, 1], [1.0, 2.0, 3.0])
    assert sorted(found.lengths_s) == [2.0, 5.0, 5.0]
    assert sorted(found.returns) == [1.0, 2.0]  # before the third layer GPU 1, before the first 2 and 3
    assert found.busy_share == pytest.approx((4 + 2 + 6) / 24)


def test_gaps_go_on_from_one_iteration_to_the_next() -> None:
    """One GPU, then four, then one: GPUs 1 to 3 have one gap, around the end of the iteration."""
    found = gaps([0, 2, 0], [1.0, 2.0, 3.0])
    assert found.lengths_s.tolist() == [4.0] * 3
    assert found.returns.tolist() == [3.0]


def test_gpus_that_are_never_used_are_idle_throughout_and_never_waited_for() -> None:
    found = gaps([1, 1], [1.0, 2.0])
    assert found.lengths_s.tolist() == [3.0, 3.0]
    assert found.returns.tolist() == []
    assert gaps([2, 2], [1.0, 2.0]).lengths_s.tolist() == []


plans = st.lists(st.tuples(st.integers(0, 2), st.floats(1e-4, 1e-2)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(plans, st.floats(0.0, 0.5))
def test_no_gpu_time_is_lost_or_found(layers: list[tuple[int, float]], interference: float) -> None:
    found = gaps([plan for plan, _ in layers], [time_s for _, time_s in layers])
    all_s = found.gpus * found.iteration_s
    assert found.lengths_s.sum() == pytest.approx(all_s * (1 - found.busy_share), abs=1e-12)
    result = outcomes(found, Background(), np.array([interference]))
    assert np.all(result.slowdown >= 1.0)
    assert np.all((result.background >= 0.0) & (result.background <= 1.0))
    busy = found.busy_share / result.slowdown
    assert np.all(busy + result.idle_share <= 1.0 + 1e-12)
    # Without background work nothing happens.
    assert result.slowdown[0, 0] == 1.0
    assert result.background[0, 0] == 0.0
    assert result.idle_share[0, 0] == pytest.approx(1.0 - found.busy_share)


def test_closed_forms_of_a_gap() -> None:
    """A piece of 1 ms every 1.1 ms; one of three GPUs is waited for 3/4 of a piece in 10 ms."""
    found = gaps([0, 2], [6e-3, 4e-3])
    background = Background(piece_s=1e-3, launch_s=1e-4, small_batch=0.0)
    result = outcomes(found, background, np.array([0.0]))
    one = ACTIONS.index((16, 1))
    assert result.slowdown[0, one] == pytest.approx(1.0 + 0.75e-3 / 10e-3)
    done_s = 18e-3 / 1.1 + 1e-3 * 9 / 4
    assert result.background[0, one] == pytest.approx(done_s / (40e-3 * 1.075))
    assert result.idle_share[0, one] == pytest.approx(18e-3 * (0.1 / 1.1) / (40e-3 * 1.075))


def test_more_interference_is_slower_and_more_pieces_leave_less_idle() -> None:
    found = gaps([0, 2], [6e-3, 4e-3])
    result = outcomes(found, Background(), np.array([0.0, 0.05, 0.2]))
    assert np.all(np.diff(result.slowdown[:, 1:], axis=0) > 0.0)
    by_pieces = [ACTIONS.index((16, pieces)) for pieces in (1, 2, 3, 4)]
    assert np.all(np.diff(result.idle_share[1, by_pieces]) < 0.0)
    assert np.all(np.diff(result.slowdown[1, by_pieces]) > 0.0)


def made(seed: int, **overrides: Any) -> Multiplexing:
    scenario = load_scenario("burst-mux", overrides=overrides, expect=BurstScenario)
    return Multiplexing(scenario.draw("train", seed), seed)


def test_the_interference_drifts_around_its_median() -> None:
    logs = np.log([made(seed, **{"control.episode_steps": 400}).interference / 0.04 for seed in range(150)])
    assert logs.mean() == pytest.approx(0.0, abs=0.1)
    assert logs.std() == pytest.approx(0.7, rel=0.1)
    after = np.corrcoef(logs[:, 0], logs[:, 200])[0, 1]  # two seconds, the time of drift_s
    assert after == pytest.approx(np.exp(-1.0), abs=0.2)


def test_what_is_measured_has_an_error_and_what_happens_is_of_the_action() -> None:
    episode = made(3)
    assert episode.measured_slowdown == 1.0
    ratios = []
    for action in [5, 17, 0] * 100:
        window = episode.step(action)
        assert (window.batch, window.pieces) == ACTIONS[action]
        now = len(episode.windows) - 1
        assert window.slowdown == episode.outcomes.slowdown[now, action]
        ratios.append(np.log(episode.measured_slowdown / window.slowdown))
    assert np.std(ratios) == pytest.approx(0.02, rel=0.2)
    exact = made(3, **{"background.noise_log_sd": 0.0})
    assert exact.step(17).slowdown == exact.measured_slowdown
