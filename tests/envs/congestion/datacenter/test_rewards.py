"""Rewards: required properties of the default, and the formulas of Iroko's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sysgym.envs.congestion.datacenter.derived import goodput_share
from sysgym.envs.congestion.datacenter.measurement import Interval
from sysgym.envs.congestion.datacenter.rewards import (
    _REWARDS,
    Reward,
    get_reward,
    gini_coefficient,
    jain_index,
    register_reward,
    share_of_round_trip,
)
from sysgym.scenarios.errors import UnknownName

MakeEnv = Callable[..., Any]
MakeInterval = Callable[..., Interval]

IDEAL_BYTES = 60_000.0
"""Payload in 1 ms at half of 1 Gb/s, near enough."""


def total(name: str, interval: Interval) -> float:
    return sum(get_reward(name).terms(interval).values())


def with_queue(interval: Interval, fraction: Any) -> NDArray[np.float64]:
    """Queue counters with one port of the core filled to a fraction of the buffer."""
    queue = np.zeros(interval.fabric.topology.n_links)
    queue[interval.fabric.port_links[0]] = fraction * interval.fabric.buffer_bytes
    return queue


@pytest.mark.parametrize(
    ("action", "expected"),
    [([0.5, 0.5, 1.0, 1.0], 1.375), ([0.5, 0.5, 0.5, 0.5], 1.0), ([1.0, 1.0, 1.0, 1.0], 2.0)],
)
def test_irokos_step_pays_receivers_for_rates_they_do_not_use(
    make_interval: MakeInterval, action: Any, expected: Any
) -> None:
    assert total("step", make_interval(action=action)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "action", "queue", "expected"),
    [
        ("action", [0.2, 0.4, 0.6, 0.8], 0.5, 0.5),
        ("queue", [0.5] * 4, 0.5, -0.25),
        ("std_dev", [0.2, 0.4, 0.6, 0.8], 0.0, -np.std([0.2, 0.4, 0.6, 0.8])),
        ("joint_queue", [0.5] * 4, 0.25, 0.5 * (1 - 2 * 0.25)),
        ("fairness", [1.0, 0.5, 0.5, 0.5], 0.0, 2.5**2 / (4 * 1.75)),
        ("fair_queue", [1.0, 0.5, 0.5, 0.5], 0.2, 0.625 - 0.2 * 0.625 + 1.0 * 0.8),
        ("fair_queue", [1.0] * 4, 0.2, 1.0 - 0.2 + 0.8),
        ("gini", [0.5] * 4, 0.0, 0.0),
        ("gini", [0.2, 0.4, 0.6, 0.8], 0.0, (-3 * 0.2 - 0.4 + 0.6 + 3 * 0.8) / (4 * 2.0)),
        ("step", [0.5] * 4, 0.30, 0.5 + 0.5 - 0.30),
        ("step", [0.5] * 4, 0.31, -0.5 - 0.31),
    ],
)
def test_irokos_formulas(
    make_interval: MakeInterval, name: str, action: Any, queue: Any, expected: Any
) -> None:
    interval = make_interval(action=action)
    interval = make_interval(action=action, queue_bytes=with_queue(interval, queue))
    assert total(name, interval) == pytest.approx(expected)


def test_irokos_queue_adds_all_ports_before_squaring(make_interval: MakeInterval) -> None:
    interval = make_interval()
    tenth = 0.1 * interval.fabric.buffer_bytes
    assert total("queue", make_interval(queue_bytes=tenth)) == pytest.approx(-(0.6**2))


def test_irokos_paper_form(make_interval: MakeInterval) -> None:
    fabric = make_interval().fabric
    sent = np.zeros(fabric.topology.n_links)
    sent[fabric.topology.host_downlink[2:]] = 0.5 * 1e9 / 8 * 1e-3
    tenth = 0.1 * fabric.buffer_bytes
    interval = make_interval(action=[0.2, 0.4, 0.6, 0.8], sent_bytes=sent, queue_bytes=tenth)
    terms = get_reward("iroko_paper").terms(interval)
    assert terms["bandwidth"] == pytest.approx(1.0)
    assert terms["queue"] == pytest.approx(-(6 / 4) * 6 * 0.01)
    assert terms["std_dev"] == pytest.approx(-np.std([0.2, 0.4, 0.6, 0.8]))


def test_default_pays_the_fair_share_and_no_more(make_interval: MakeInterval) -> None:
    ideal = [IDEAL_BYTES, IDEAL_BYTES, 0.0, 0.0]
    terms = get_reward("default").terms(make_interval(ideal_bytes=ideal, delivered_bytes=ideal))
    assert terms == {"goodput": pytest.approx(1.0), "queueing": 0.0, "loss": 0.0}
    unfair = make_interval(ideal_bytes=ideal, delivered_bytes=[2 * IDEAL_BYTES, 0.0, 0.0, 0.0])
    assert total("default", unfair) == pytest.approx(0.5)


def test_default_does_not_look_at_allowed_rates(make_interval: MakeInterval) -> None:
    ideal = [IDEAL_BYTES, IDEAL_BYTES, 0.0, 0.0]
    rewards = {
        total("default", make_interval(ideal_bytes=ideal, delivered_bytes=ideal, action=action))
        for action in (0.1, 0.5, 1.0)
    }
    assert len(rewards) == 1


def test_default_charges_for_waiting_and_loss(make_interval: MakeInterval) -> None:
    fabric = make_interval().fabric
    base_rtt_s, exits = fabric.base_rtt_s, fabric.topology.host_downlink[2:]
    sent = np.zeros(fabric.topology.n_links)
    sent[exits] = IDEAL_BYTES
    waiting = np.zeros(fabric.topology.n_links)
    # Every byte waits a base RTT on top of the time that its own packet takes to be sent.
    waiting[exits] = IDEAL_BYTES * (base_rtt_s + 0.5 * 1500 * 8 / 1e9)
    terms = get_reward("default").terms(
        make_interval(
            sent_bytes=sent,
            accepted_packets=sent / 1500,
            queue_byte_s=waiting,
            dropped_bytes=2 * IDEAL_BYTES / 12,
        )
    )
    assert terms["queueing"] == pytest.approx(-0.5 * 0.5)
    dropped = fabric.topology.n_links * 2 * IDEAL_BYTES / 12
    assert terms["loss"] == pytest.approx(-dropped / (dropped + 2 * IDEAL_BYTES))


def test_a_queue_that_nothing_leaves_is_the_worst(make_interval: MakeInterval) -> None:
    terms = get_reward("default").terms(make_interval(queue_byte_s=10.0))
    assert terms["queueing"] == -0.5


@given(
    st.lists(st.floats(0.0, 1e9), min_size=1, max_size=20).flatmap(
        lambda ideal: st.tuples(
            st.just(ideal), st.lists(st.floats(0.0, 1e9), min_size=len(ideal), max_size=len(ideal))
        )
    )
)
def test_goodput_is_a_share_of_the_ideal(pair: Any) -> None:
    ideal, delivered = (np.array(values) for values in pair)
    assert 0.0 <= goodput_share(delivered, ideal) <= 1.0 + 1e-12
    assert goodput_share(ideal, ideal) == pytest.approx(1.0)


@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=30))
def test_fairness_indices_are_bounded_and_ignore_order(values: Any) -> None:
    array = np.array(values)
    assert 1.0 / len(values) - 1e-9 <= jain_index(array) <= 1.0 + 1e-9
    assert -1e-9 <= gini_coefficient(array) < 1.0
    assert gini_coefficient(array) == pytest.approx(gini_coefficient(array[::-1]), abs=1e-12)


def test_gini_is_the_mean_difference_over_twice_the_mean() -> None:
    values = np.array([0.1, 0.7, 0.2, 0.9, 0.9])
    pairs = np.abs(values[:, None] - values[None, :]).mean()
    assert gini_coefficient(values) == pytest.approx(pairs / (2 * values.mean()))


def test_share_of_round_trip() -> None:
    assert share_of_round_trip(0.0, 1e-3) == 0.0
    assert share_of_round_trip(1e-3, 1e-3) == 0.5
    assert share_of_round_trip(np.inf, 1e-3) == 1.0


def test_weights_are_named(make_interval: MakeInterval) -> None:
    heavy = get_reward("default").with_weights({"queueing": 2.0})
    assert heavy.terms(make_interval(queue_byte_s=10.0))["queueing"] == -2.0
    assert get_reward("default").weights["queueing"] == 0.5
    with pytest.raises(UnknownName, match='did you mean "queueing"'):
        get_reward("default").with_weights({"queuing": 2.0})


def test_unknown_reward() -> None:
    with pytest.raises(UnknownName, match='did you mean "joint_queue"'):
        get_reward("joint_queu")


def test_every_reward_is_finite_where_nothing_happens(make_interval: MakeInterval) -> None:
    for name in _REWARDS:
        for duration_s in (0.0, 1e-3):
            assert np.isfinite(total(name, make_interval(duration_s=duration_s)))


def test_a_reward_of_ones_own(make_env: MakeEnv) -> None:
    @register_reward("test_only_bytes", scale=2.0)
    def only_bytes(interval: Interval, weights: Mapping[str, float]) -> dict[str, float]:
        """Bytes delivered."""
        return {"bytes": weights["scale"] * float(interval.delivered_bytes.sum())}

    env = make_env(reward="test_only_bytes")
    env.reset(seed=0)
    _, reward, _, _, info = env.step(env.action_space.high)
    for _ in range(5):
        _, reward, _, _, info = env.step(env.action_space.high)
    assert reward == info["reward_terms"]["bytes"] > 0


def test_a_reward_may_be_an_object(make_env: MakeEnv) -> None:
    own = Reward(
        "own", lambda interval, weights: {"rate": weights["rate"] * interval.action.mean()}, {"rate": 3}
    )
    env = make_env(reward=own, action_scale="native")
    env.reset(seed=0)
    _, reward, _, _, info = env.step(np.full(env.action_space.shape, 0.5, np.float32))
    assert info["reward_terms"] == {"rate": reward}
    assert reward == pytest.approx(1.5)
