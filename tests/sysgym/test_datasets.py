"""Episodes as datasets of Minari."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.datasets import record_dataset
from sysgym.errors import SysgymError, UnknownName
from sysgym.scenarios import load_scenario

pytest.importorskip("minari")
pytest.importorskip("h5py")
SHORT = {"control.episode_steps": 5}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Minari keeps its datasets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def test_a_dataset_has_the_first_episodes_of_its_split() -> None:
    dataset = record_dataset("incast-32", contender="dctcp", split="test", n_episodes=2, overrides=SHORT)
    assert dataset.spec.dataset_id == "sysgym/incast-32/dctcp-test-v0"
    episodes: list[Any] = list(dataset.iterate_episodes())
    first = load_scenario("incast-32").splits["test"].first_seed
    assert [set(episode.infos["episode_seed"]) for episode in episodes] == [{first}, {first + 1}]
    for episode in episodes:
        assert episode.observations.shape[0] == 6
        assert episode.truncations.tolist() == [False] * 4 + [True]
        paid = sum(term[1:] for term in episode.infos["reward_terms"].values())
        np.testing.assert_allclose(episode.rewards, paid)
        goodput = episode.infos["episode_metrics"]["goodput_bps"]
        assert np.isnan(goodput).tolist() == [True] * 5 + [False]
    env = dataset.recover_environment()
    observation, _ = env.reset(options={"episode_seed": first})
    np.testing.assert_array_equal(observation, episodes[0].observations[0])
    for action, reward in zip(episodes[0].actions, episodes[0].rewards, strict=True):
        assert env.step(action)[1] == reward
    env.close()


def test_observations_that_are_dictionaries_are_stored_by_key() -> None:
    dataset = record_dataset("google-2011", contender="spark", split="validation", n_episodes=1)
    (episode,) = dataset.iterate_episodes()
    assert isinstance(episode.observations, dict)
    assert {len(part) for part in episode.observations.values()} == {len(episode.rewards) + 1}


def test_what_cannot_be_recorded_is_said() -> None:
    with pytest.raises(UnknownName, match="split"):
        record_dataset("incast-32", split="tset")
    with pytest.raises(SysgymError, match="n_episodes: expected from 1"):
        record_dataset("incast-32", n_episodes=0)
    record_dataset("collective-ring-16", contender="ring", n_episodes=1)
    with pytest.raises(SysgymError, match=r'"sysgym/collective-ring-16/ring-train-v0" exists already'):
        record_dataset("collective-ring-16", contender="ring", n_episodes=1)
