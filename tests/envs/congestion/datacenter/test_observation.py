"""The observation: every value at its documented index, with its documented size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.envs.congestion.datacenter.measurement import Interval
from sysgym.envs.congestion.datacenter.observation import (
    DEFAULT_FEATURES,
    FEATURES,
    FeatureGroup,
    ObservationBuilder,
)
from sysgym.scenarios.errors import UnknownName

MakeEnv = Callable[..., Any]
MakeInterval = Callable[..., Interval]


def test_the_index_names_every_value(make_env: MakeEnv) -> None:
    env = make_env("iroko-dumbbell-1g", features=("queue", "rate"), history=2)
    assert env.observation_space.shape == (len(env.observation_index),) == (2 * (6 + 4),)
    assert env.observation_index[0] == f"queue[{env.fabric.port_names[0]}] (fraction of the buffer)"
    assert env.observation_index[9] == f"rate[{env.fabric.host_names[3]}] (fraction of the line rate)"
    assert env.observation_index[10] == env.observation_index[0] + ", t-1"
    assert len(set(env.observation_index)) == 20


@pytest.mark.parametrize("feature", FEATURES)
def test_parts_lie_where_the_index_says(make_env: MakeEnv, feature: str) -> None:
    env = make_env("iroko-dumbbell-1g", features=tuple(FEATURES), history=3)
    for age in range(3):
        names = env.observation_index[env.observation_part(feature, age)]
        assert len(names) == (6 if FEATURES[feature].scope == "port" else 4)
        ending = f", t-{age}" if age else ")"
        assert all(name.startswith(f"{feature}[") and name.endswith(ending) for name in names)


def test_values_are_those_of_the_counters(make_env: MakeEnv) -> None:
    env = make_env("incast-32", features=tuple(FEATURES), split="test")
    env.reset(options={"episode_seed": 20_000})
    links = env.fabric.port_links
    for _ in range(12):
        before = env.network.ports(), env.network.hosts()
        observation, *_ = env.step(np.full(33, 0.1, np.float32))
        after = env.network.ports(), env.network.hosts()

        def seen(feature: str, observation: Any = observation) -> Any:
            return observation[env.observation_part(feature)]

        def counted(name: str, which: int, before: Any = before, after: Any = after) -> Any:
            return getattr(after[which], name) - getattr(before[which], name)

        assert seen("queue") == pytest.approx(after[0].queue_bytes[links] / 500_000, abs=1e-6)
        accepted = counted("accepted_packets", 0)[links]
        dropped = counted("dropped_packets", 0)[links]
        marked = counted("marked_packets", 0)[links]
        assert seen("drop_fraction") == pytest.approx(dropped / np.maximum(accepted + dropped, 1), abs=1e-6)
        assert seen("mark_fraction") == pytest.approx(marked / np.maximum(accepted, 1), abs=1e-6)
        sent = counted("sent_bytes", 0)[links] * 8 / (10e9 * 200e-6)
        assert seen("utilization") == pytest.approx(np.clip(sent, 0, 1), abs=1e-6)
        delivered = counted("delivered_bytes", 1) * 8 / (10e9 * 200e-6 * 1460 / 1500)
        assert seen("goodput") == pytest.approx(np.clip(delivered, 0, 1), abs=1e-6)
        assert seen("rate") == pytest.approx(np.full(33, 0.1))
        assert np.array_equal(seen("active"), after[1].active_flows > 0)
        assert np.all(seen("queue_max") >= seen("queue_mean") - 1e-6)
    assert seen("mark_fraction").max() > 0


def test_history_is_newest_first(make_env: MakeEnv) -> None:
    env = make_env("incast-32", history=3)
    size = env.observation_space.shape[0] // 3
    observation, _ = env.reset(seed=0)
    # Before the first decision there is no past: the present stands in.
    assert np.array_equal(observation[:size], observation[size : 2 * size])
    frames = [observation[:size]]
    for _ in range(5):
        observation, *_ = env.step(env.action_space.high)
        frames.insert(0, observation[:size])
        assert np.array_equal(observation[size : 2 * size], frames[1])
    assert np.array_equal(observation[2 * size :], frames[2])


def test_the_observation_is_not_overwritten(make_env: MakeEnv) -> None:
    env = make_env("incast-32", history=2)
    first, _ = env.reset(seed=0)
    kept = first.copy()
    for _ in range(3):
        env.step(env.action_space.high)
    assert np.array_equal(first, kept)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_every_choice_of_features_stays_in_its_space(make_env: MakeEnv, data: Any) -> None:
    features = data.draw(st.lists(st.sampled_from(sorted(FEATURES)), min_size=1, unique=True))
    scenario = data.draw(st.sampled_from(["dumbbell-10g", "incast-32", "iroko-dumbbell-10m"]))
    env = make_env(scenario, features=tuple(features), history=data.draw(st.integers(1, 3)))
    observation, _ = env.reset(seed=data.draw(st.integers(0, 100)))
    assert env.observation_space.contains(observation)
    for _ in range(12):
        rates = data.draw(st.floats(0.001, 1.0)) * np.ones(env.action_space.shape, np.float32)
        observation, *_ = env.step(rates)
        assert env.observation_space.contains(observation)


def test_a_squashed_delay_of_one_half_doubles_the_base_rtt(make_interval: MakeInterval) -> None:
    fabric = make_interval().fabric
    queued = fabric.base_rtt_s * 1e9 / 8
    builder = ObservationBuilder(fabric, ("queue_delay",), 1)
    frame = builder.frame(make_interval(queue_byte_s=queued * 1e-3))
    assert frame == pytest.approx(np.full(6, 0.5))


def test_a_doubled_rtt_is_one_half(make_interval: MakeInterval) -> None:
    fabric = make_interval().fabric
    builder = ObservationBuilder(fabric, ("rtt",), 1)
    frame = builder.frame(make_interval(rtt_sum_s=[2 * fabric.base_rtt_s, 0, 0, 0], rtt_samples=[1, 0, 0, 0]))
    assert frame == pytest.approx([0.5, 0, 0, 0])


def test_the_base_rtt_is_that_of_an_empty_network(make_env: MakeEnv) -> None:
    env = make_env("dumbbell-10g", overrides={"workload.flows_per_pair": 1})
    env.reset(seed=0)
    for _ in range(12):
        env.step(np.full(8, 0.001, np.float32))
    lowest = np.nanmin(env.network.flows().rtt_min_s)
    # Hosts add a random delay of less than a packet time.
    assert env.fabric.base_rtt_s == pytest.approx(lowest, rel=0.05)


@pytest.mark.parametrize("features", [(), ("queue", "queue")])
def test_features_are_checked(make_env: MakeEnv, features: Any) -> None:
    with pytest.raises(ValueError, match="one or more names, none of them twice"):
        make_env(features=features)


def test_a_feature_is_a_name_or_a_group(make_env: MakeEnv) -> None:
    with pytest.raises(ValueError, match="expected names or FeatureGroup objects, got <class 'object'>"):
        make_env(features=[object])


def test_history_is_checked(make_env: MakeEnv) -> None:
    with pytest.raises(ValueError, match="at least 1 interval"):
        make_env(history=0)
    with pytest.raises(ValueError, match="expected 0 to 1"):
        make_env(history=2).observation_part("rate", 2)


def test_a_part_that_is_not_there(make_env: MakeEnv) -> None:
    with pytest.raises(UnknownName, match='no feature of this observation is named "queue_max"'):
        make_env().observation_part("queue_max")


def test_default_features_exist() -> None:
    assert set(DEFAULT_FEATURES) <= set(FEATURES)


def test_a_feature_group_may_be_an_object(make_env: MakeEnv) -> None:
    full = FeatureGroup("full", "host", "0 or 1", "whether it may send", lambda interval: interval.action)
    env = make_env(features=["queue", full], action_scale="native")
    env.reset(seed=0)
    observation, *_ = env.step(np.full(env.action_space.shape, 0.25, np.float32))
    assert observation[env.observation_part("full")] == pytest.approx(0.25)
    assert "full[" in env.observation_index[-1]


PATHS = "path_queue_delay", "path_mark_fraction", "path_utilization"


def test_features_of_paths_are_those_of_the_ports_that_the_data_of_a_host_passes(make_env: MakeEnv) -> None:
    env = make_env("iroko-fattree-10m", features=(*DEFAULT_FEATURES, *PATHS), split="test")
    env.reset(seed=3)
    observation, *_ = env.step(np.full(16, 0.5, np.float32))
    ports = {int(link): port for port, link in enumerate(env.fabric.port_links)}
    for host, route in zip(env.network.flows().src, env.network.routes(), strict=True):
        passed = [ports[link] for link in route.tolist() if link in ports]
        assert len(passed) == 5  # of switches in the source's pod, the core, and the other pod
        for name in ("queue_delay", "mark_fraction", "utilization"):
            expected = observation[env.observation_part(name)][passed].max()
            assert observation[env.observation_part(f"path_{name}")][host] == expected
    assert len(set(observation[env.observation_part("path_queue_delay")].tolist())) > 2


def test_a_host_without_data_has_no_path(make_env: MakeEnv) -> None:
    env = make_env("iroko-dumbbell-10m", features=PATHS)
    env.reset(seed=0)
    observation, *_ = env.step(np.full(4, 0.9, np.float32))
    delays = observation[env.observation_part("path_queue_delay")]
    assert np.all(delays[:2] > 0.1)
    assert not delays[2:].any()


def test_the_ideal_is_the_fair_share(make_env: MakeEnv) -> None:
    env = make_env("iroko-dumbbell-10m", features=("ideal", "goodput"))
    observation, _ = env.reset(seed=0)
    assert not observation[env.observation_part("ideal")].any()  # nothing has been sent for any time
    for _ in range(5):
        observation, *_ = env.step(np.full(4, 0.5, np.float32))
    ideal = observation[env.observation_part("ideal")]
    # Two senders share the core, less a little for ACKs.
    assert ideal == pytest.approx([0.5, 0.5, 0.0, 0.0], abs=0.01)
    assert observation[env.observation_part("goodput")] == pytest.approx(ideal, abs=0.01)
