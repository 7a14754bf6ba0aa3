"""Minari datasets of episodes, for offline reinforcement learning. Requires the extra ``minari``.

A dataset contains episodes of one contender in one split of a scenario, so that episodes of the test split
are never used for training by mistake::

    from sysgym.datasets import record_dataset

    train = record_dataset("incast-32", contender="dctcp", split="train", n_episodes=20)
    test = record_dataset("incast-32", contender="dctcp", split="test", n_episodes=5)
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from sysgym.errors import MissingExtra, SysgymError, UnknownName

if TYPE_CHECKING:
    from os import PathLike

    from minari import MinariDataset

__all__ = ["record_dataset"]


def record_dataset(
    scenario: str | PathLike[str],
    *,
    contender: str = "dctcp",
    split: str = "train",
    n_episodes: int = 10,
    overrides: Mapping[str, Any] | None = None,
    dataset_id: str | None = None,
    author: str | None = None,
) -> MinariDataset:
    """Run the first episodes of a split and store them as a local Minari dataset.

    Every step includes the info of :class:`sysgym.envs.wrappers.CompleteInfo`, and every episode its seed.
    The dataset contains the resolved scenario, so that ``recover_environment`` creates the same environment.

    Args:
        scenario: Name or path of the scenario.
        contender: Contender, as for ``sysgym run``.
        split: ``"train"``, ``"validation"`` or ``"test"``.
        n_episodes: Number of episodes, the first seeds of the split.
        overrides: Dotted keys of the scenario to replace.
        dataset_id: Minari id of the dataset; None: ``sysgym/SCENARIO/CONTENDER-SPLIT-v0``.
        author: Name of the author, stored in the dataset.

    Raises:
        MissingExtra: If Minari is not installed.
        UnknownName: If there is no such scenario, contender or split.
        SysgymError: If the split has fewer seeds, or the dataset exists.
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ImportError as error:
        raise MissingExtra("minari", "record_dataset") from error
    from sysgym.bench.contenders import parse_contender
    from sysgym.bench.results.versions import versions
    from sysgym.bench.run.episodes import make_contender, play
    from sysgym.envs.wrappers import CompleteInfo
    from sysgym.scenarios import load_scenario
    from sysgym.scenarios.schema.splits import SPLIT_NAMES

    loaded = load_scenario(scenario, overrides=overrides)
    if split not in SPLIT_NAMES:
        raise UnknownName("split", split, SPLIT_NAMES)
    chosen = parse_contender(contender, family=loaded.family).with_shipped(loaded.name)
    seeds = loaded.splits[split]
    first = seeds.first_seed
    if n_episodes < 1 or first + n_episodes - 1 not in seeds:
        raise SysgymError(f"n_episodes: expected from 1 to the seeds of the split {split}, got {n_episodes}")
    plain = re.sub(r"[^-\w]+", "-", chosen.name).strip("-")
    dataset_id = dataset_id or f"sysgym/{loaded.name}/{plain}-{split}-v0"
    if dataset_id in minari.list_local_datasets():
        raise SysgymError(
            f'the dataset "{dataset_id}" exists already; delete it with minari.delete_dataset, or choose'
            " another dataset_id"
        )
    env, agent = make_contender(loaded.resolved(), split, chosen)
    recorder = _Recorder(CompleteInfo(env))
    try:
        for seed in range(first, first + n_episodes):
            play(recorder, agent, seed)
        about = {
            "scenario_sha256": loaded.sha256(),
            "split": split,
            "seeds": [first, first + n_episodes - 1],
            "versions": versions(learned=chosen.learned),
        }
        with warnings.catch_warnings():
            # Minari warns about missing links and addresses, which only the author knows.
            warnings.filterwarnings("ignore", message=r"`\w+` is set to None", category=UserWarning)
            return minari.create_dataset_from_buffers(
                dataset_id=dataset_id,
                buffer=[EpisodeBuffer(id=number, **kept) for number, kept in enumerate(recorder.episodes)],
                env=recorder.env,
                algorithm_name=chosen.name,
                author=author,
                description=f"{chosen.name} on {loaded.name}, split {split}: {json.dumps(about)}",
                requirements=[f"sysgym=={versions()['sysgym']}"],
            )
    finally:
        recorder.close()


class _Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper that stores episodes; Minari's own data collector requires jax to combine steps.

    Attributes:
        episodes: Fields of Minari's ``EpisodeBuffer`` for each episode.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.episodes: list[dict[str, Any]] = []
        self._first: dict[str, Any] = {}
        self._steps: list[tuple[Any, Any, Any, bool, bool, dict[str, Any]]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and discard an unfinished one."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._first = {"seed": seed, "options": options, "observation": observation, "info": info}
        self._steps = []
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step and store the episode if it has ended."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps.append((action, observation, float(reward), terminated, truncated, info))
        if terminated or truncated:
            actions, observations, rewards, terminations, truncations, infos = zip(*self._steps, strict=True)
            self.episodes.append(
                {
                    "seed": self._first["seed"],
                    "options": self._first["options"],
                    "observations": _by_key([self._first["observation"], *observations]),
                    "actions": _by_key(actions),
                    "rewards": list(rewards),
                    "terminations": list(terminations),
                    "truncations": list(truncations),
                    "infos": _by_key([self._first["info"], *infos]),
                }
            )
        return observation, reward, terminated, truncated, info


def _by_key(values: Sequence[Any]) -> Any:
    """Stack values into an array, and dictionaries of equal structure into a dictionary of arrays."""
    if isinstance(values[0], dict):
        return {key: _by_key([value[key] for value in values]) for key in values[0]}
    return np.array(values)
