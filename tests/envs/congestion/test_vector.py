"""The vector forms of DatacenterCC and FlowCC: worlds give the results of single environments."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import sysgym
from sysgym.emulator.packets import network
from sysgym.emulator.packets.growth import with_more_packets
from sysgym.emulator.packets.transports import get_transport
from sysgym.envs.congestion import row_thread_pool
from sysgym.envs.congestion.datacenter.vector import DatacenterCCVector
from sysgym.envs.congestion.flow.vector import FlowCCVector
from sysgym.envs.congestion.vector import WorldVector
from sysgym.envs.lifecycle import ArgumentError, NoEpisode
from sysgym.scenarios.errors import SysgymError, TransportError

REGISTERED = sysgym.__version__
ENV_ID = "sysgym/DatacenterCC-v0"
FLOW_ID = "sysgym/FlowCC-v0"
SHORT = {"control.episode_steps": 5}


def make_vector(num_envs: int, scenario: str = "dumbbell-10g", env_id: str = ENV_ID, **arguments: Any) -> Any:
    return gym.make_vec(
        env_id,
        num_envs=num_envs,
        vectorization_mode="vector_entry_point",
        scenario=scenario,
        overrides=SHORT | arguments.pop("overrides", {}),
        **arguments,
    )


def assert_same(one: Any, other: Any) -> None:
    """Compare infos to the last bit, however deep."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("env_id", "scenario", "arguments"),
    [
        (ENV_ID, "dumbbell-10g", {}),
        (ENV_ID, "incast-32", {"transport": "dctcp", "history": 2}),
        (ENV_ID, "parking-lot-4", {"transport": "bbr"}),
        (ENV_ID, "fattree-k4-websearch", {"features": ["queue", "drop_fraction", "active"]}),
        (ENV_ID, "fattree-k4-websearch", {"features": ["path_utilization", "fair_rate", "ideal"]}),
        (ENV_ID, "dumbbell-10g", {"reward": "step"}),
        (ENV_ID, "leafspine-link-failure", {}),
        (FLOW_ID, "flow-1g-1ms", {}),
        (FLOW_ID, "flow-1g-1ms", {"preset": "orca", "history": 3}),
        (FLOW_ID, "flow-datacenter", {}),
        (FLOW_ID, "aurora-links", {}),
        (FLOW_ID, "genet-links", {}),
    ],
)
def test_every_step_is_that_of_gymnasiums_own_vector_form(
    env_id: str, scenario: str, arguments: dict[str, Any], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Observations, rewards, ends and infos, over three episodes with their resets."""
    monkeypatch.setattr(row_thread_pool, "WORTH_SHARING_S", 0.0)
    vector = make_vector(3, scenario, env_id, threads=threads, **arguments)
    sync = gym.make_vec(
        env_id, num_envs=3, vectorization_mode="sync", scenario=scenario, overrides=SHORT, **arguments
    )
    rng = np.random.default_rng(0)
    for got, expected in zip(vector.reset(seed=7), sync.reset(seed=7), strict=True):
        assert_same(got, expected)
    ends = 0
    for _ in range(14):
        actions = rng.uniform(0.01, 1.0, vector.action_space.shape).astype(np.float32)
        for got, expected in zip(vector.step(actions), step := sync.step(actions), strict=True):
            assert_same(got, expected)
        ends += int(step[3].sum())
    assert ends == 6
    vector.close()
    sync.close()


@pytest.mark.parametrize(("env_id", "scenario"), [(ENV_ID, "dumbbell-10g"), (FLOW_ID, "flow-1g-1ms")])
def test_resets_in_the_same_step_are_those_of_gymnasium(env_id: str, scenario: str) -> None:
    """Episodes of two worlds of three end in other steps, as they were reset later."""
    vector = make_vector(3, scenario, env_id, autoreset_mode=AutoresetMode.SAME_STEP)
    sync = gym.make_vec(
        env_id,
        num_envs=3,
        vectorization_mode="sync",
        scenario=scenario,
        overrides=SHORT,
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )
    assert vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    rng = np.random.default_rng(0)
    mask = {"reset_mask": np.array([False, True, True])}
    for number in range(12):
        if number in (0, 3):
            seeds = {"seed": 7} if number == 0 else {"seed": [1, 2, 3], "options": mask}
            assert_same(vector.reset(**seeds)[0], sync.reset(**copy.deepcopy(seeds))[0])
        actions = rng.uniform(0.01, 1.0, vector.action_space.shape).astype(np.float32)
        *got, infos = vector.step(actions)
        *expected, expected_infos = sync.step(actions)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
        last, expected_last = infos.pop("final_obs", None), expected_infos.pop("final_obs", None)
        assert_same(infos, expected_infos)
        assert (last is None) == (expected_last is None) == (not got[3].any())
        for world in np.flatnonzero(got[3]):
            np.testing.assert_array_equal(last[world], expected_last[world])
            assert infos["final_info"]["episode_metrics"]
    vector.close()
    sync.close()


def test_without_autoreset_an_ended_episode_waits() -> None:
    vector = make_vector(2, autoreset_mode="disabled")
    vector.reset(seed=1)
    ones = np.ones(vector.action_space.shape, np.float32)
    for _ in range(5):
        *_, truncations, _ = vector.step(ones)
    assert truncations.all()
    vector.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(NoEpisode, match=r"environments \[1\] have ended"):
        vector.step(ones)
    vector.reset(options={"reset_mask": np.array([False, True])})
    vector.step(ones)
    vector.close()


def test_modes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ArgumentError, match="expected one of NEXT_STEP, SAME_STEP, DISABLED, got 'later'"):
        make_vector(2, autoreset_mode="later")


def test_worlds_that_differ_are_measured_one_by_one() -> None:
    """The splits of this scenario vary the links' rate: no fabric is common to all worlds."""
    varied = {"splits.train.vary": {"topology.link_rate_bps": [1e9, 5e9, 10e9]}}
    vector = make_vector(4, overrides=varied)
    sync = gym.make_vec(
        ENV_ID, num_envs=4, vectorization_mode="sync", scenario="dumbbell-10g", overrides=SHORT | varied
    )
    rng = np.random.default_rng(0)
    for got, expected in zip(vector.reset(seed=1), sync.reset(seed=1), strict=True):
        assert_same(got, expected)
    assert len({env.fabric.base_rtt_s for env in vector.envs}) > 1
    for _ in range(7):
        actions = rng.uniform(0.01, 1.0, vector.action_space.shape).astype(np.float32)
        for got, expected in zip(vector.step(actions), sync.step(actions), strict=True):
            assert_same(got, expected)
    vector.close()
    sync.close()


def _fails_late(flow: Any, event: Any) -> None:
    flow.state[0] += 1.0
    if flow.state[0] > 100.0 and flow.src == 0:
        raise ValueError("a hundred ACKs")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_transport_that_fails_is_told_of_and_its_world_begins_anew(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_thread_pool, "WORTH_SHARING_S", 0.0)
    failing = replace(get_transport("dctcp"), name="failing", on_ack=_fails_late)
    vector = make_vector(3, transport=failing, threads=threads)
    vector.reset(seed=1)
    ones = np.ones(vector.action_space.shape, np.float32)

    def play() -> None:
        for _ in range(10):
            vector.step(ones)

    with pytest.raises(TransportError, match="a hundred ACKs"):
        play()
    vector.reset(seed=1)
    vector.step(ones)
    vector.close()


@pytest.mark.parametrize("n_rows", [1, 2, 7, 64])
def test_a_crew_gives_each_row_to_one_thread(n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_thread_pool, "WORTH_SHARING_S", 0.0)
    team = row_thread_pool.RowThreadPool(3)
    for _ in range(3):
        rows: list[int] = []
        team.map_rows(lambda first, behind_last: rows.extend(range(first, behind_last)), n_rows)  # noqa: B023
        assert sorted(rows) == list(range(n_rows))
    team.close()


def test_what_a_thread_raises_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_thread_pool, "WORTH_SHARING_S", 0.0)
    team = row_thread_pool.RowThreadPool(2)
    team.map_rows(lambda first, behind_last: None, 8)

    def work(first: int, behind_last: int) -> None:
        if first > 0:
            raise SysgymError("out of order")

    with pytest.raises(SysgymError, match="out of order"):
        team.map_rows(work, 8)
    team.close()


def test_a_small_packet_pool_grows_in_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many packets as a window of 4,096 lets into the network do not fit into the pool at first."""
    grown: list[int] = []

    def counted(state: Any) -> Any:
        grown.append(len(state.packets))
        return with_more_packets(state)

    monkeypatch.setattr(network, "with_more_packets", counted)
    big = {"queue.buffer_bytes": 50_000_000}
    overrides = big | {"control.decision_interval_s": 5e-3, "workload.flows_per_pair": 8}
    single = gym.make(ENV_ID, scenario="dumbbell-10g", transport="cubic", overrides=SHORT | overrides)
    vector = make_vector(2, transport="cubic", threads=2, overrides=overrides)
    vector.reset(seed=3)
    single.reset(seed=3)
    for _ in range(3):
        observations, *_ = vector.step(np.ones(vector.action_space.shape, np.float32))
        np.testing.assert_array_equal(
            observations[0], single.step(np.ones(single.action_space.shape or (), np.float32))[0]
        )
    assert grown, "no pool had to grow"
    vector.close()


@pytest.mark.parametrize(
    ("env_id", "scenario", "kind"),
    [(ENV_ID, "dumbbell-10g", DatacenterCCVector), (FLOW_ID, "flow-1g-1ms", FlowCCVector)],
)
def test_it_declares_its_autoreset_mode(env_id: str, scenario: str, kind: type[WorldVector]) -> None:
    vector = make_vector(2, scenario, env_id)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert isinstance(vector, kind)
    assert vector.action_space == gym.vector.utils.batch_space(vector.single_action_space, 2)
    vector.close()


@pytest.mark.parametrize(("env_id", "scenario"), [(ENV_ID, "dumbbell-10g"), (FLOW_ID, "flow-1g-1ms")])
def test_every_world_is_drawn_as_it_is_alone(env_id: str, scenario: str) -> None:
    vector = make_vector(2, scenario, env_id, render_mode="rgb_array")
    single = gym.make(
        env_id, scenario=scenario, overrides=SHORT, render_mode="rgb_array", disable_env_checker=True
    )
    vector.reset(seed=4)
    single.reset(seed=5)
    for _ in range(3):
        vector.step(np.full(vector.action_space.shape, 0.2, np.float32))
        single.step(np.full(single.action_space.shape or (), 0.2, np.float32))
    np.testing.assert_array_equal(vector.render()[1], single.render())
    vector.close()
    single.close()


def test_seeds_for_each_world_and_a_mask() -> None:
    vector = make_vector(3)
    first, _ = vector.reset(seed=[4, 5, 4])
    np.testing.assert_array_equal(first[0], first[2])
    assert (vector.envs[0].episode_seed, vector.envs[1].episode_seed) != (None, None)
    vector.step(np.ones(vector.action_space.shape, np.float32))
    mask = np.array([True, False, False])
    _, infos = vector.reset(options={"reset_mask": mask, "episode_seed": 12})
    np.testing.assert_array_equal(infos["_episode_seed"], mask)
    assert infos["episode_seed"][0] == 12
    assert vector.envs[0].network.now_s < vector.envs[1].network.now_s
    with pytest.raises(ValueError, match="one for each of 3 worlds, got 2"):
        vector.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="reset_mask: expected 3 booleans"):
        vector.reset(options={"reset_mask": np.ones(2, np.bool_)})
    vector.close()


@pytest.mark.parametrize(
    ("env_id", "scenario", "n_actions"), [(ENV_ID, "dumbbell-10g", 8), (FLOW_ID, "flow-1g-1ms", 1)]
)
def test_bad_actions_move_no_world(env_id: str, scenario: str, n_actions: int) -> None:
    vector = make_vector(2, scenario, env_id)
    good = np.ones(vector.action_space.shape, np.float32)
    with pytest.raises(gym.error.ResetNeeded):
        vector.step(good)
    vector.reset(seed=0)
    before = [env.network.now_ns for env in vector.envs]
    with pytest.raises(
        ValueError, match=rf"expected an array of shape \(2, {n_actions}\) .*, got shape \({n_actions},\)"
    ):
        vector.step(good[0])
    bad = good.copy()
    bad[1, -1] = np.nan
    with pytest.raises(ValueError, match=rf"finite numbers, got nan at index \(1, {n_actions - 1}\)"):
        vector.step(bad)
    assert [env.network.now_ns for env in vector.envs] == before
    vector.step(good)
    vector.close()
    vector.close()


@pytest.mark.parametrize("arguments", [{"num_envs": 0}, {"num_envs": 2, "threads": 0}])
@pytest.mark.parametrize("kind", [DatacenterCCVector, FlowCCVector])
def test_sizes_below_one_are_refused(kind: Any, arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected at least 1"):
        kind(**arguments)
