"""Proximal policy optimisation in one file, on the vector form of an environment.

python examples/ppo_single_file.py
python examples/ppo_single_file.py --scenario dumbbell-10g --action-scale linear --steps 100000

Needs torch and nothing else of a learning library. The hyper-parameters are those of ``sysgym train ppo``;
the algorithm is that of Schulman et al., arXiv:1707.06347, with generalised advantages (arXiv:1506.02438).
Prints the mean return of training episodes as it goes, and at the end that of the policy's mean actions on
test episodes, beside DCTCP's.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions import Normal

import sysgym  # noqa: F401  registers the environments
from sysgym.agents import make_agent, play_episode

ENV_ID = "sysgym/DatacenterCC-v0"
FIRST_TEST_SEED = 20_000

GAMMA = 0.5
"""Discount: an action has little effect after some intervals (docs/training.md)."""
LAMBDA = 0.9
CLIP = 0.2
ROLLOUT_STEPS = 256
EPOCHS = 10
MINIBATCH = 128
LEARNING_RATE = 1e-3
FIRST_LOG_STD = -2.0
VALUE_WEIGHT = 0.5
MOST_GRADIENT = 0.5


class ActorCritic(nn.Module):
    """Two networks: the mean of the actions, and the value of a state.

    Args:
        n_observed: Length of an observation.
        n_actions: Length of an action.
    """

    def __init__(self, n_observed: int, n_actions: int) -> None:
        super().__init__()
        self.mean = network(n_observed, n_actions, last_gain=0.01)
        self.value = network(n_observed, 1, last_gain=1.0)
        self.log_std = nn.Parameter(torch.full((n_actions,), FIRST_LOG_STD))

    def forward(self, observations: torch.Tensor) -> tuple[Normal, torch.Tensor]:
        """Return the distribution of actions, and the values."""
        return Normal(self.mean(observations), self.log_std.exp()), self.value(observations).squeeze(-1)


class Rollout(NamedTuple):
    """Some steps of all environments, in tensors of shape (n_steps * n_envs, ...)."""

    observations: torch.Tensor
    actions: torch.Tensor
    log_probabilities: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor


def network(n_in: int, n_out: int, last_gain: float) -> nn.Sequential:
    """Return a network with two hidden layers and orthogonal weights."""
    sizes, gains = (n_in, 64, 64, n_out), (2**0.5, 2**0.5, last_gain)
    layers: list[nn.Module] = []
    for before, after, gain in zip(sizes, sizes[1:], gains, strict=False):
        layer = nn.Linear(before, after)
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Learner:
    """PPO.

    Args:
        scenario: Name of the scenario.
        action_scale: Mapping from actions to rates.
        n_envs: Number of environments.
        seed: Seed of everything.
    """

    def __init__(self, scenario: str, action_scale: str, n_envs: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.envs: Any = gym.make_vec(
            ENV_ID,
            num_envs=n_envs,
            vectorization_mode="vector_entry_point",
            scenario=scenario,
            split="train",
            action_scale=action_scale,
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
        n_observed, n_actions = (
            int(np.prod(space.shape or ()))
            for space in (self.envs.single_observation_space, self.envs.single_action_space)
        )
        self.policy = ActorCritic(n_observed, n_actions)
        self.optimiser = torch.optim.Adam(self.policy.parameters(), LEARNING_RATE, eps=1e-5)
        self.shuffling = np.random.default_rng(seed)
        self.observations = as_tensor(self.envs.reset(seed=seed)[0])
        self.so_far = np.zeros(n_envs)
        self.returns: list[float] = []

    @torch.no_grad()
    def collect(self) -> Rollout:
        """Play some steps, and estimate advantages."""
        n_envs = self.envs.num_envs
        kept: dict[str, list[torch.Tensor]] = {
            name: [] for name in ("observations", "actions", "log_probabilities", "values", "rewards", "next")
        }
        ended = np.zeros((ROLLOUT_STEPS, n_envs), bool)
        for step in range(ROLLOUT_STEPS):
            chances, values = self.policy(self.observations)
            actions = chances.sample()
            after, rewards, terminated, truncated, infos = self.envs.step(actions.clamp(-1.0, 1.0).numpy())
            ended[step] = terminated | truncated
            following = as_tensor(after)
            last = following.clone()
            for env in np.flatnonzero(ended[step]):
                last[env] = as_tensor(infos["final_obs"][env])
            # Episodes are cut off, not over: the last state keeps its value.
            beyond = self.policy(last)[1] * as_tensor(~terminated)
            for name, one in zip(
                kept,
                (
                    self.observations,
                    actions,
                    chances.log_prob(actions).sum(-1),
                    values,
                    as_tensor(rewards),
                    beyond,
                ),
                strict=True,
            ):
                kept[name].append(one)
            self._note(rewards, ended[step])
            self.observations = following
        values, rewards_, beyond = (torch.stack(kept[name]) for name in ("values", "rewards", "next"))
        advantages = torch.zeros_like(values)
        running = torch.zeros(n_envs)
        for step in reversed(range(ROLLOUT_STEPS)):
            difference = rewards_[step] + GAMMA * beyond[step] - values[step]
            running = difference + GAMMA * LAMBDA * running * as_tensor(~ended[step])
            advantages[step] = running
        return Rollout(
            torch.cat(kept["observations"]),
            torch.cat(kept["actions"]),
            torch.cat(kept["log_probabilities"]),
            advantages.flatten(),
            (advantages + values).flatten(),
        )

    def learn(self, rollout: Rollout) -> None:
        """Improve the policy by a rollout."""
        for _ in range(EPOCHS):
            order = self.shuffling.permutation(len(rollout.actions))
            for first in range(0, len(order), MINIBATCH):
                chosen = torch.as_tensor(order[first : first + MINIBATCH])
                observations, actions, log_before, advantages, returns = (part[chosen] for part in rollout)
                chances, values = self.policy(observations)
                ratio = (chances.log_prob(actions).sum(-1) - log_before).exp()
                advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
                gain = torch.min(ratio * advantages, ratio.clamp(1.0 - CLIP, 1.0 + CLIP) * advantages).mean()
                loss = VALUE_WEIGHT * (values - returns).square().mean() - gain
                self.optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.policy.parameters(), MOST_GRADIENT)
                self.optimiser.step()

    def _note(self, rewards: np.ndarray, ended: np.ndarray) -> None:
        self.so_far += rewards
        self.returns += self.so_far[ended].tolist()
        self.so_far[ended] = 0.0


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """Return an array as float32."""
    return torch.as_tensor(np.asarray(array, np.float32))


@torch.no_grad()
def test_return(policy: ActorCritic, scenario: str, action_scale: str, n_episodes: int) -> float:
    """Return the mean return of the policy's mean action on test episodes."""
    env = gym.make(ENV_ID, scenario=scenario, split="test", action_scale=action_scale)
    total = 0.0
    for number in range(n_episodes):
        observation, _ = env.reset(options={"episode_seed": FIRST_TEST_SEED + number})
        over = False
        while not over:
            action = policy.mean(as_tensor(observation)).clamp(-1.0, 1.0).numpy()
            observation, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            over = terminated or truncated
    return total / n_episodes


def dctcp_return(scenario: str, n_episodes: int) -> float:
    """Return the mean return of DCTCP on test episodes."""
    env = gym.make(ENV_ID, scenario=scenario, split="test", transport="dctcp", action_scale="native")
    agent = make_agent("max")
    played = [
        play_episode(env, agent, options={"episode_seed": FIRST_TEST_SEED + number})[0]
        for number in range(n_episodes)
    ]
    return float(np.mean(played))


def main() -> None:
    """Train and test."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--scenario", default="incast-32")
    options.add_argument("--action-scale", default="log", choices=("log", "linear"))
    options.add_argument("--steps", type=int, default=40_000, help="decisions to train for")
    options.add_argument("--envs", type=int, default=4)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tests", type=int, default=5, help="test episodes")
    given = options.parse_args()
    learner = Learner(given.scenario, given.action_scale, given.envs, given.seed)
    for number in range(max(given.steps // (ROLLOUT_STEPS * given.envs), 1)):
        learner.learn(learner.collect())
        if learner.returns:
            steps = (number + 1) * ROLLOUT_STEPS * given.envs
            print(f"{steps:7d} steps  return {np.mean(learner.returns[-10:]):8.1f}", flush=True)
    learned = test_return(learner.policy, given.scenario, given.action_scale, given.tests)
    print(f"test episodes: learned {learned:.1f}, DCTCP {dctcp_return(given.scenario, given.tests):.1f}")


if __name__ == "__main__":
    main()
