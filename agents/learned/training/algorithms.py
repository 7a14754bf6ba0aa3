"""Learning algorithms: their packages, and hyper-parameters suited to these environments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from sysgym.agents.info import AgentInfo
from sysgym.agents.registry import agent_info, list_agents
from sysgym.scenarios.errors import MissingExtra, UnknownName
from sysgym.scenarios.family import load_entry

EXTRA = "train"

SET_POLICY = "sysgym.agents.learned.sets.policy:SetPolicy"

_POLICY_KEYS = ("log_std_init", "net_arch")
"""Hyper-parameters that are passed to stable-baselines3 in ``policy_kwargs``."""

_NOT_TO_CHOOSE = frozenset(
    (
        "self",
        "policy",
        "env",
        "seed",
        "device",
        "verbose",
        "tensorboard_log",
        "_init_setup_model",
        "action_noise",
    )
)
"""Arguments of the algorithm classes that training sets itself."""

ACTION_NOISE_STD = "action_noise_std"
"""Hyper-parameter: standard deviation of a deterministic policy's exploration, for actions in [-1, 1]."""

FINAL_LEARNING_RATE = "final_learning_rate"
"""Hyper-parameter: learning rate at the end of training, to which the initial rate decreases linearly."""

_NETWORK = {"net_arch": (64, 64)}

# The effect of a rate on queues ends within a few decisions: a short horizon suffices and reduces variance.
# Exploration is narrow because the noise of all hosts adds up in the network.
_ON_POLICY = {"gamma": 0.5, "gae_lambda": 0.9, "log_std_init": -2.0, **_NETWORK}
_MASKED = {
    "n_steps": 256,
    "batch_size": 256,
    "n_epochs": 5,
    "learning_rate": 1e-3,
    "gae_lambda": 0.95,
    "ent_coef": 0.01,
}
# REINFORCE as in Iroko's runs (RLlib's PG): returns of the batch, their mean as the baseline, no critic.
_NO_CRITIC = {"n_steps": 50, "gae_lambda": 1.0, "vf_coef": 0.0, "normalize_advantage": True}
_OFF_POLICY = {"gamma": 0.9, "learning_rate": 1e-3, "batch_size": 128, "learning_starts": 1_000, **_NETWORK}
_DETERMINISTIC = {ACTION_NOISE_STD: 0.1, **_OFF_POLICY}


@dataclass(frozen=True)
class Algorithm:
    """Learning algorithm of stable-baselines3 or sb3-contrib.

    Attributes:
        name: Name of the algorithm.
        module: Module of its class.
        class_name: Name of its class.
        hyper_parameters: Hyper-parameters that differ from the package's defaults.
        discrete_actions: Whether it supports discrete actions besides continuous ones.
        masks: Whether it requires a mask of the allowed actions.
        over_sets: Whether its policy observes a set of choices or of hosts.
        over_hosts: Whether its policy applies one network to every host.
        policy: Name of a policy of the package, or ``module:class`` of a policy of sysgym.
        features: Required feature groups of the observation; None: the user's choice.
        episode_steps: Largest number of steps of an episode in training; None: the scenario's.
        action_scale: Required scale of rates; None: the user's choice.
    """

    name: str
    module: str
    class_name: str
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    discrete_actions: bool = True
    masks: bool = False
    over_sets: bool = False
    over_hosts: bool = False
    policy: str = "MlpPolicy"
    features: tuple[str, ...] | None = None
    episode_steps: int | None = None
    action_scale: str | None = None

    def load_policy(self) -> Any:
        """Return the argument ``policy`` for the class of the algorithm.

        Raises:
            MissingExtra: If the extra is not installed.
        """
        module, colon, name = self.policy.partition(":")
        if not colon:
            return self.policy
        try:
            return getattr(import_module(module), name)
        except ImportError as error:
            raise MissingExtra(EXTRA, f"training {self.name}") from error

    def load_class(self) -> Any:
        """Import and return the class of the algorithm.

        Raises:
            MissingExtra: If the extra is not installed.
        """
        try:
            return getattr(import_module(self.module), self.class_name)
        except ImportError as error:
            raise MissingExtra(EXTRA, f"training {self.name}") from error

    def _policy_keys(self) -> list[str]:
        """Return the names of the hyper-parameters that are arguments of the policy."""
        keys = [] if self.policy == SET_POLICY else list(_POLICY_KEYS)
        if ":" in self.policy:
            parameters = inspect.signature(self.load_policy().__init__).parameters.values()
            own = (one.name for one in parameters if one.kind is one.KEYWORD_ONLY)
            keys += [name for name in own if name != "set_shape"]
        return keys

    def names(self) -> set[str]:
        """Return the names of all hyper-parameters."""
        of_class = set(inspect.signature(self.load_class().__init__).parameters) - _NOT_TO_CHOOSE
        own = {FINAL_LEARNING_RATE} | ({ACTION_NOISE_STD} & set(self.hyper_parameters))
        return of_class | set(self._policy_keys()) | own

    def arguments(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the class: the algorithm's hyper-parameters, overridden by the user's.

        Raises:
            UnknownName: If the algorithm has no such hyper-parameter.
        """
        known = self.names()
        for name in chosen:
            if name not in known:
                raise UnknownName(f"hyper-parameter of {self.name}", name, known)
        merged = {**self.hyper_parameters, **chosen}
        policy = {key: merged.pop(key) for key in self._policy_keys() if key in merged}
        if "net_arch" in policy:
            policy["net_arch"] = list(policy["net_arch"])
        merged["policy_kwargs"] = {**policy, **merged.get("policy_kwargs", {})}
        return merged


ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "ppo",
            "stable_baselines3",
            "PPO",
            {"n_steps": 256, "batch_size": 128, "n_epochs": 10, "learning_rate": 1e-3, **_ON_POLICY},
        ),
        Algorithm("a2c", "stable_baselines3", "A2C", {"n_steps": 16, **_ON_POLICY}),
        Algorithm("reinforce", "stable_baselines3", "A2C", {**_ON_POLICY, **_NO_CRITIC}),
        Algorithm("trpo", "sb3_contrib", "TRPO", {"n_steps": 256, **_ON_POLICY}),
        Algorithm(
            "maskable_ppo", "sb3_contrib", "MaskablePPO", {**_MASKED, "net_arch": (128, 128)}, masks=True
        ),
        Algorithm(
            "maskable_ppo_set",
            "sb3_contrib",
            "MaskablePPO",
            _MASKED,
            masks=True,
            over_sets=True,
            policy=SET_POLICY,
        ),
        Algorithm("sac", "stable_baselines3", "SAC", _OFF_POLICY, discrete_actions=False),
        Algorithm("tqc", "sb3_contrib", "TQC", _OFF_POLICY, discrete_actions=False),
        Algorithm("td3", "stable_baselines3", "TD3", _DETERMINISTIC, discrete_actions=False),
        Algorithm("ddpg", "stable_baselines3", "DDPG", _DETERMINISTIC, discrete_actions=False),
    )
}
"""General algorithms; families may declare further ones."""


def declared_algorithms() -> dict[str, str]:
    """Return the entry points of the algorithms declared by families, by name."""
    infos = (agent_info(agent) for agent in list_agents())
    return {info.name: info.algorithm for info in infos if info.algorithm}


def has_algorithm(info: AgentInfo) -> bool:
    """Return whether an agent is trained by a general algorithm or by one declared by its family."""
    return info.learned and (bool(info.algorithm) or info.short_name in ALGORITHMS)


def is_over_hosts(agent: str, family: str) -> bool:
    """Return whether the policies of a learning agent apply one function to every host.

    Raises:
        UnknownName: If there is no such agent.
    """
    info = agent_info(agent, family)
    return info.over_hosts if info.trainer else get_algorithm(agent).over_hosts


def get_algorithm(name: str) -> Algorithm:
    """Return a general algorithm, or one declared by a family, by name.

    Raises:
        UnknownName: If there is no algorithm of this name.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    declared = declared_algorithms()
    if name not in declared:
        raise UnknownName("learning algorithm", name, [*ALGORITHMS, *declared])
    found: Algorithm = load_entry(declared[name])
    return found
