"""Fair rates of hosts, compared with their definition and with values computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sysgym.agents import make_agent
from sysgym.envs.congestion.datacenter.fair_rates import LoadedLinks, progressive_filling

MakeEnv = Callable[..., Any]


@st.composite
def divisions(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    """Draw what hosts put on links, how many flows they have, and what links carry."""
    n_hosts, n_links = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    shares = st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0])
    load = draw(arrays.arrays(np.float64, (n_hosts, n_links), elements=shares))
    # The host's own cable: everything that it sends.
    load = np.concatenate([load, np.eye(n_hosts)], axis=1)
    weight = draw(arrays.arrays(np.int64, n_hosts, elements=st.integers(0, 4)))
    capacity = draw(arrays.arrays(np.float64, n_links + n_hosts, elements=st.floats(1e6, 1e10)))
    return load, weight, capacity


@given(divisions())
def test_rates_are_max_min_fair(division: tuple[Any, Any, Any]) -> None:
    """Nothing is overfull, and every host stands before a full link on which nobody has more for a flow."""
    load, weight, capacity_bps = division
    rates_bps = progressive_filling(load, weight, capacity_bps)
    used_bps = rates_bps @ load
    assert np.all(used_bps <= capacity_bps * (1 + 1e-6))
    assert np.all(rates_bps[weight == 0] == 0.0)
    full = used_bps >= capacity_bps * (1 - 1e-6)
    level_bps = rates_bps / np.maximum(weight, 1)
    for host in np.flatnonzero(weight):
        highest = [
            level_bps[(load[:, link] > 0) & (weight > 0)].max()
            for link in np.flatnonzero(full & (load[host] > 0))
        ]
        assert any(level_bps[host] >= level * (1 - 1e-6) for level in highest)


def test_two_links_by_hand() -> None:
    # Three hosts: the first crosses both links, the others one each; the second link is twice as fast.
    load = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    rates = progressive_filling(load, np.ones(3), np.array([1.0, 2.0]))
    assert rates == pytest.approx([0.5, 0.5, 1.5])
    # With three flows behind it, the first gets three of four parts of its bottleneck.
    rates = progressive_filling(load, np.array([3, 1, 1]), np.array([1.0, 2.0]))
    assert rates == pytest.approx([0.75, 0.25, 1.25])


def all_to_all(make_env: MakeEnv, hosts: int) -> Any:
    """Return an environment at the start of an episode in which all hosts of a switch send to each other."""
    switch = {"kind": "single_switch", "hosts": hosts, "link_rate_bps": 10e9, "link_delay_s": 1e-6}
    workload = {"kind": "long_lived", "pairs": "all_to_all"}
    env = make_env("incast-32", overrides={"topology": switch, "workload": workload})
    env.reset(seed=0)
    return env


def test_acks_have_room(make_env: MakeEnv) -> None:
    """Everybody sends to everybody: on every cable data r and the ACKs of as much data, r * 60 / 1500."""
    env = all_to_all(make_env, 5)
    shares = LoadedLinks(env.network, env.fabric).static_shares()
    assert shares == pytest.approx(np.full(5, 1 / (1 + 60 / 1500)), rel=1e-4)


def test_only_links_with_acks_have_room_for_them(make_env: MakeEnv) -> None:
    """Hosts 2 and 3 send to each other, so their cables carry ACKs; 0 sends to 1, which does not send."""
    env = all_to_all(make_env, 4)
    flows = env.network.flows()
    pairs = list(zip(flows.src.tolist(), flows.dst.tolist(), strict=True))
    active = np.array([pairs.index(pair) for pair in ((0, 1), (2, 3), (3, 2))])
    load = LoadedLinks(env.network, env.fabric).host_load(active)
    rates_bps = load.fair_rates_bps(env.fabric.topology.link_rate_bps)
    both = 10e9 / (1 + 60 / 1500)
    assert rates_bps == pytest.approx([10e9, 0.0, both, both], rel=1e-4)


def test_one_of_the_features_is_the_share_that_fixed_fair_sets(make_env: MakeEnv) -> None:
    env = make_env("iroko-fattree-10m", features=["fair_rate"], split="test")
    agent = make_agent("fixed_fair")
    for seed in (1, 2):
        observation, _ = env.reset(seed=seed)
        agent.begin(env)
        expected = LoadedLinks(env.network, env.fabric).static_shares()
        assert len(set(expected.round(3).tolist())) > 2  # not the same for all
        assert observation == pytest.approx(expected, rel=1e-6)
        assert env.actions.rates(agent.act(observation)) == pytest.approx(expected, rel=1e-5)
