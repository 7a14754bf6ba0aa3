"""One policy for all agents: the VecEnv interface, and a short training that improves the return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO

from sysgym.agents.learned.congestion.shared_policy import ParallelToVectorEnv
from sysgym.envs.congestion import parallel_env
from sysgym.scenarios.errors import SysgymError


def four_flows(**arguments: Any) -> Any:
    overrides = {"workload.flows_per_pair": 4, "control.episode_steps": 25} | arguments.pop("overrides", {})
    return parallel_env("flow-1g-1ms", agents="flows", overrides=overrides, **arguments)


def test_slots_are_agents_of_worlds() -> None:
    slots: Any = ParallelToVectorEnv(four_flows, n_worlds=2)
    assert slots.num_envs == 8
    slots.seed(3)
    first = slots.reset()
    assert first.shape == (8, 14)
    for step in range(25):
        seen, rewards, dones, infos = slots.step(np.full((8, 1), -0.5, np.float32))
        assert (seen.shape, rewards.shape, len(infos)) == ((8, 14), (8,), 8)
        assert dones.all() == (step == 24)
    assert all(info["TimeLimit.truncated"] and info["episode"]["l"] == 25 for info in infos)
    assert all(not np.array_equal(info["terminal_observation"], seen[0]) for info in infos)
    assert infos[0]["episode"]["r"] == pytest.approx(sum(infos[0]["reward_terms"].values()) * 25, rel=0.3)
    assert len(slots.get_attr("episode_seed")) == 8
    slots.close()


def test_equal_seeds_give_equal_slots() -> None:
    traces = []
    for _ in range(2):
        slots: Any = ParallelToVectorEnv(four_flows)
        slots.seed(7)
        trace = [slots.reset()]
        trace += [slots.step(np.full((4, 1), 0.1 * step, np.float32))[0] for step in range(8)]
        traces.append(np.array(trace))
    assert np.array_equal(traces[0], traces[1])


def test_a_number_of_agents_that_varies_is_refused() -> None:
    slots = ParallelToVectorEnv(lambda: parallel_env("dumbbell-10g", agents="flows"))
    slots.seed(0)
    with pytest.raises(SysgymError, match=r"workload\.flows_per_pair"):
        _ = [slots.reset() for _ in range(20)]


def _score(model: Any) -> float:
    slots: Any = ParallelToVectorEnv(lambda: four_flows(split="test"))
    slots.seed(1)
    seen, total = slots.reset(), 0.0
    for _ in range(25):
        action, _ = model.predict(seen, deterministic=True)
        seen, rewards, _, _ = slots.step(action)
        total += float(rewards.sum())
    return total / 25


def test_a_shared_policy_learns_to_share_a_link() -> None:
    """Four senders in the middle of the scale use an eighth of the link; training finds much more."""
    slots = ParallelToVectorEnv(four_flows, n_worlds=4)
    model = PPO(
        "MlpPolicy",
        slots,
        n_steps=64,
        batch_size=256,
        n_epochs=10,
        gamma=0.5,
        learning_rate=2e-3,
        policy_kwargs={"log_std_init": -1.0, "net_arch": [32]},
        seed=0,
        device="cpu",
    )
    before = _score(model)
    model.learn(16 * 64 * 5)
    after = _score(model)
    # All together, a link shared without a queue pays 1.
    assert before < 0.3
    assert after > before + 0.3, (before, after)
