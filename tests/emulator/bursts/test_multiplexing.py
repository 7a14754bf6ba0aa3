"""Background work in the gaps: gaps by hand, conservation of GPU time, monotony, drift."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.bursts.layers import Layers
from sysgym.emulator.bursts.multiplexing import (
    ACTIONS,
    BATCHES,
    ENDS,
    Gaps,
    Multiplexing,
    Outcomes,
    gaps_of,
    interference_of,
    outcomes,
)
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
    # GPU 1 comes back before the third layer, where 2 and 3 stay in their gap; they do before the first.
    assert sorted(zip(found.returns, found.staying, strict=True)) == [(1.0, 2.0), (2.0, 0.0)]
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


def gpu_time_of_pieces(result: Outcomes, background: Background) -> Any:
    """Return the share of all GPUs' time in which pieces run, by action."""
    batch = np.array([batch for batch, _ in ACTIONS], np.float64)
    efficiency = batch / np.maximum(batch + background.small_batch, 1e-9)
    best = BATCHES[-1] / (BATCHES[-1] + background.small_batch)
    return result.background * best / np.where(batch > 0.0, efficiency, 1.0)


@settings(max_examples=100, deadline=None)
@given(plans, st.floats(0.0, 0.5), st.floats(1e-5, 1e-2), st.floats(0.0, 1e-3), st.floats(0.0, 8.0))
def test_no_gpu_time_is_lost_or_found(
    layers: list[tuple[int, float]], interference: float, piece_s: float, launch_s: float, small_batch: float
) -> None:
    found = gaps([plan for plan, _ in layers], [time_s for _, time_s in layers])
    all_s = found.gpus * found.iteration_s
    assert found.lengths_s.sum() == pytest.approx(all_s * (1 - found.busy_share), abs=1e-12)
    background = Background(piece_s=piece_s, launch_s=launch_s, small_batch=small_batch)
    result = outcomes(found, background, np.array([interference]))
    assert np.all(result.slowdown >= 1.0)
    assert np.all((result.background >= 0.0) & (result.background <= 1.0 + 1e-12))
    assert np.all(result.idle_share >= 0.0)
    shares = found.busy_share / result.slowdown + gpu_time_of_pieces(result, background) + result.idle_share
    np.testing.assert_allclose(shares, 1.0, rtol=1e-12)
    # Without background work nothing happens.
    assert result.slowdown[0, 0] == 1.0
    assert result.background[0, 0] == 0.0
    assert result.idle_share[0, 0] == pytest.approx(1.0 - found.busy_share)


def test_closed_forms_of_a_gap() -> None:
    """A piece of 1 ms every 1.1 ms; the last of three GPUs is waited for 3/4 of a piece in 10 ms.

    With an interference of 0.1, layers and gaps are longer by a tenth.
    """
    found = gaps([0, 2], [6e-3, 4e-3])
    background = Background(piece_s=1e-3, launch_s=1e-4, small_batch=0.0)
    result = outcomes(found, background, np.array([0.0, 0.1]))
    one = ACTIONS.index((16, 1))
    for row, slowed in enumerate((0.0, 0.1)):
        slowdown = 1.0 + slowed + 0.75e-3 / 10e-3
        assert result.slowdown[row, one] == pytest.approx(slowdown)
        gaps_s, residuals_s, waits_s = 18e-3 * (1 + slowed), 3 * 0.5e-3, 4 * 0.75e-3
        done_s = gaps_s / 1.1 + residuals_s + slowed * 22e-3
        assert result.background[row, one] == pytest.approx(done_s / (40e-3 * slowdown))
        idle_s = gaps_s * (0.1 / 1.1) + waits_s - residuals_s
        assert result.idle_share[row, one] == pytest.approx(idle_s / (40e-3 * slowdown))


def test_gpus_that_are_not_needed_yet_go_on_while_the_foreground_waits() -> None:
    """GPU 1 is waited for half a piece on average, while GPUs 2 and 3 stay in their gap."""
    found = gaps([0, 1], [6e-3, 4e-3])
    result = outcomes(found, Background(piece_s=1e-3, launch_s=0.0, small_batch=0.0), np.array([0.0]))
    one = ACTIONS.index((16, 1))
    done_s = 26e-3 + 2 * 0.5e-3 + 0.5e-3
    assert result.background[0, one] == pytest.approx(done_s / (40e-3 * 1.05))
    assert result.idle_share[0, one] == pytest.approx(0.5e-3 / (40e-3 * 1.05))  # GPU 0


@pytest.mark.parametrize(("exponent", "n"), [(0, 3), (1, 2)])
def test_residual_pieces_are_those_of_uniform_draws(exponent: int, n: int) -> None:
    """Waits are the largest, and the work that is left the sum, of n residual times."""
    found = gaps([exponent, 2], [6e-3, 4e-3])
    background = Background(piece_s=1e-3, launch_s=0.0, small_batch=0.0)
    result = outcomes(found, background, np.array([0.0]))
    one = ACTIONS.index((16, 1))
    residuals_s = 1e-3 * np.random.default_rng(7).random((100_000, n))
    all_s = 40e-3 * result.slowdown[0, one]
    wait_s = 10e-3 * (result.slowdown[0, one] - 1.0)
    assert wait_s == pytest.approx(residuals_s.max(axis=1).mean(), rel=0.01)
    done_s = result.background[0, one] * all_s - found.lengths_s.sum()
    assert done_s == pytest.approx(residuals_s.sum(axis=1).mean(), rel=0.01)
    idle_s = 4 * residuals_s.max(axis=1) - residuals_s.sum(axis=1)
    assert result.idle_share[0, one] * all_s == pytest.approx(idle_s.mean(), rel=0.01)


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


@settings(max_examples=40, deadline=None)
@given(plans, st.floats(0.0, 1.0), st.integers(1, len(ACTIONS) - 1))
def test_the_interference_of_a_slowdown_is_found_again(
    layers: list[tuple[int, float]], interference: float, action: int
) -> None:
    found = gaps([plan for plan, _ in layers], [time_s for _, time_s in layers])
    slowdown = outcomes(found, Background(), np.array([interference])).slowdown[0, action]
    ends = outcomes(found, Background(), ENDS)
    assert interference_of(ends, action, slowdown) == pytest.approx(interference, abs=1e-9)
    assert interference_of(ends, action, 0.5) == 0.0


def test_measured_shares_are_those_of_the_measured_slowdown() -> None:
    """Without an error they are the true ones; with one, they have no more of the truth than it has."""
    exact, noisy = made(3, **{"background.noise_log_sd": 0.0}), made(3)
    assert noisy.measured_shares == (0.0, 1.0 - noisy.gaps.busy_share)
    for action in (5, 17, 0) * 5:
        happened, one = exact.step(action), noisy.step(action)
        assert exact.measured_shares == pytest.approx((happened.background, happened.idle_share))
        assert one == happened
        if action == 0:
            assert noisy.measured_shares == (0.0, 1.0 - noisy.gaps.busy_share)
            continue
        background, idle_share = noisy.measured_shares
        used = noisy.gaps.busy_share / noisy.measured_slowdown
        implied = Outcomes(*(np.array([[value]] * len(ACTIONS)).T for value in (1.0, background, idle_share)))
        pieces = gpu_time_of_pieces(implied, noisy.scenario.background)[0, action]
        assert used + pieces + idle_share == pytest.approx(1.0)
