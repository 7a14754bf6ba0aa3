"""Gradient-boosted trees over features of tasks (LightGBM), and checkpoints that contain them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.stragglers.trees import checked_trees
from sysgym.scenarios.errors import MissingExtra, SysgymError
from sysgym.scenarios.files import LARGEST_JSON_BYTES, parse_json, read_limited, write_atomically

FINAL = "final.zip"
EXTRA = "stragglers"
TREES = 250
PARAMETERS = {
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_data_in_leaf": 100,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.5,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}


def fit(features: NDArray[np.float32], target: NDArray[Any], objective: str, seed: int, agent: str) -> Any:
    """Return trees fitted to a target.

    Args:
        features: Shape (n, F).
        target: Shape (n,).
        objective: Objective in LightGBM's notation, such as ``"binary"`` or ``"regression"``.
        seed: Seed for the sampling of rows and features.
        agent: Name of the agent, for the error message.

    Raises:
        MissingExtra: If LightGBM is not installed.
    """
    lightgbm = load_lightgbm(agent)
    data = lightgbm.Dataset(features, label=target.astype(np.float32), params={"verbosity": -1})
    return lightgbm.train({**PARAMETERS, "objective": objective, "seed": seed}, data, num_boost_round=TREES)


def predict(model: Any, features: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the predictions of trees, shape (n,)."""
    return np.asarray(model.predict(features, num_threads=1), dtype=np.float64)


def load_lightgbm(agent: str) -> Any:
    """Import LightGBM and return the module.

    Raises:
        MissingExtra: If LightGBM is not installed.
    """
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtra(EXTRA, f"the agent {agent}") from error
    return lightgbm


def write_checkpoint(data: Mapping[str, Any], out: Path) -> Path:
    """Write a checkpoint to a folder and return its path."""
    path = out / FINAL
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(data).encode())
    return path


class TreesCheckpoint:
    """Checkpoint with trees: one JSON file without code.

    Args:
        path: Path of the file.
        agent: Name of the agent that plays the checkpoint.
        form: Required value of the entry ``format``.
        questions: Names of the required models.

    Attributes:
        data: Content of the file.
        models: LightGBM models by name.

    Raises:
        SysgymError: If the file is not such a checkpoint.
        MissingExtra: If LightGBM is not installed.
    """

    def __init__(self, path: Path, agent: str, form: str, questions: Sequence[str]) -> None:
        self.path, self._agent = path, agent
        self.data = self._read(form)
        lightgbm = load_lightgbm(agent)
        try:
            self._counters: list[str] = self.data["counters"]
            self._features: list[str] = self.data["features"]
            texts = self.data["models"]
            self.models = {
                question: lightgbm.Booster(model_str=checked_trees(texts[question])) for question in questions
            }
            if any(model.num_feature() != len(self._features) for model in self.models.values()):
                raise ValueError("trees over another number of features")
        except (KeyError, TypeError, ValueError, AttributeError, lightgbm.basic.LightGBMError) as error:
            raise self.damaged(error) from error

    def damaged(self, error: Exception) -> SysgymError:
        """Return the error for a file of the right format with invalid contents."""
        return SysgymError(f"{self.path}: damaged checkpoint of the agent {self._agent} ({error!r})")

    def check_features(self, env: gym.Env[Any, Any], names: Sequence[str]) -> None:
        """Check that the environment and this version have the features of the training.

        Args:
            env: The environment to be played.
            names: Names of the features that the agent computes in the environment.

        Raises:
            SysgymError: If counters or features differ from those of the training.
        """
        counters = list(env.unwrapped.counter_names)  # type: ignore[attr-defined]
        if counters != self._counters:
            raise SysgymError(f"{self.path}: trained on the counters {self._counters}, here are {counters}")
        if list(names) != self._features:
            raise SysgymError(f"{self.path}: trained on features that this version does not compute")

    def _read(self, form: str) -> dict[str, Any]:
        if not self.path.is_file():
            raise SysgymError(f"{self.path}: no such checkpoint")
        try:
            data = parse_json(read_limited(self.path, LARGEST_JSON_BYTES))
        except ValueError as error:
            raise SysgymError(
                f"{self.path}: not a checkpoint of the agent {self._agent} ({error})"
            ) from error
        if not isinstance(data, dict) or data.get("format") != form:
            raise SysgymError(f"{self.path}: not a checkpoint of the format {form}")
        return data
