"""Agent that uses a learned law as the transport of all flows, without caps on hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
from pydantic import ConfigDict, TypeAdapter, ValidationError

from sysgym.agents.congestion.max import MaxAgent
from sysgym.agents.congestion.world import Action
from sysgym.emulator.packets.transports.neural import INPUTS, OUTPUTS, neural_transport
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import parse_json, read_limited, write_atomically
from sysgym.scenarios.names import FILE_NAME, LONGEST_NAME

FORMAT = "sysgym-neural-1"

LARGEST_LAW_BYTES = 10_000_000
"""Limit of the size of a checkpoint; the package's own has a thousandth of it."""


@dataclass(frozen=True)
class Law:
    """Checkpoint of the agent: one JSON file.

    Attributes:
        parameters: Weights, in the order of :mod:`sysgym.emulator.packets.transports.neural`.
        trained_on: Resolved scenarios of the curriculum.
        total_steps: Decision intervals simulated in training.
        seed: Seed of the search.
        validation: Loss on the validation split; negative values are better than DCTCP.
        hyper_parameters: Hyper-parameters of the search.
        versions: Versions of the packages used in training.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    parameters: Sequence[float]
    trained_on: Sequence[Mapping[str, Any]]
    total_steps: int
    seed: int
    validation: float
    hyper_parameters: Mapping[str, Any]
    versions: Mapping[str, str]

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        names = {"inputs": INPUTS, "outputs": OUTPUTS}
        data = {"format": FORMAT, "agent": NeuralAgent.name, **names, **asdict(self)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(data, indent=1).encode())


@lru_cache(maxsize=1)
def _law_reader() -> TypeAdapter[Law]:
    return TypeAdapter(Law)


def read_law(path: str | PathLike[str]) -> Law:
    """Read a checkpoint.

    Raises:
        SysgymError: If the file does not exist or is not a checkpoint.
    """
    if not Path(path).is_file():
        raise SysgymError(f"{path}: no such checkpoint")
    try:
        data = parse_json(read_limited(Path(path), LARGEST_LAW_BYTES))
        if data.pop("format") != FORMAT or data.pop("inputs") != list(INPUTS):
            raise SysgymError(f"{path}: not a law of the format {FORMAT}, or one with other inputs")
        told = {key: value for key, value in data.items() if key not in ("agent", "outputs")}
        law = _law_reader().validate_json(json.dumps(told))
        for scenario in law.trained_on:
            if not re.fullmatch(FILE_NAME, name := str(scenario.get("name"))) or len(name) > LONGEST_NAME:
                raise SysgymError(f"{path}: trained_on: {name[:LONGEST_NAME]!r} is no scenario's name")
        return law
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        raise SysgymError(
            f"{path}: not a checkpoint of the agent neural ({where}: {first['msg']})"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SysgymError(f"{path}: not a checkpoint of the agent neural ({error!r})") from error


class NeuralAgent:
    """Learned congestion control law for every flow, without caps on hosts.

    Args:
        checkpoint: Path of the checkpoint.
        expected: Name of the agent as requested.

    Attributes:
        env_kwargs: The transport that the environment must be created with.
        n_parameters: Number of weights.

    Raises:
        SysgymError: If the file is not a checkpoint of this agent.
    """

    name = "neural"

    def __init__(self, checkpoint: str | PathLike[str], expected: str = "neural") -> None:
        parameters = read_law(checkpoint).parameters
        self.env_kwargs = {"transport": neural_transport(parameters)}
        self.n_parameters = len(parameters)
        self._uncapped = MaxAgent()

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Look up the action that does not restrict the flows."""
        self._uncapped.begin(env)

    def act(self, observation: Any) -> Action:
        """Return that action."""
        return self._uncapped.act(observation)
