"""Plays a law of single flows in networks: it brings the transport, and leaves its hosts uncapped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import gymnasium as gym

from sysgym.agents.congestion.max import MaxAgent
from sysgym.agents.congestion.world import Action
from sysgym.agents.learned.checkpoint import write_atomically
from sysgym.emulator.packets.transports.neural import INPUTS, OUTPUTS, neural_transport
from sysgym.scenarios.errors import SysgymError

FORMAT = "sysgym-neural-1"


@dataclass(frozen=True)
class Law:
    """The checkpoint of the agent: one JSON file.

    Attributes:
        parameters: Weights, in the order of :mod:`sysgym.emulator.packets.transports.neural`.
        trained_on: Resolved scenarios of the curriculum.
        total_steps: Decision intervals simulated in training.
        seed: Of the search.
        validation: Loss on the validation split; below 0 is better than DCTCP.
        hyper_parameters: Of the search.
        versions: Of what trained it.
    """

    parameters: Sequence[float]
    trained_on: Sequence[Mapping[str, Any]]
    total_steps: int
    seed: int
    validation: float
    hyper_parameters: Mapping[str, Any]
    versions: Mapping[str, str]

    def write(self, path: Path) -> None:
        """Write the file at once or not at all."""
        names = {"inputs": INPUTS, "outputs": OUTPUTS}
        data = {"format": FORMAT, "agent": NeuralAgent.name, **names, **asdict(self)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(data, indent=1).encode())


def read_law(path: str | PathLike[str]) -> Law:
    """Read a checkpoint.

    Raises:
        SysgymError: If there is none, or the file is something else.
    """
    try:
        data = json.loads(Path(path).read_bytes())
        if data.pop("format") != FORMAT or data.pop("inputs") != list(INPUTS):
            raise SysgymError(f"{path}: not a law of the format {FORMAT}, or one with other inputs")
        return Law(**{key: value for key, value in data.items() if key not in ("agent", "outputs")})
    except OSError as error:
        raise SysgymError(f"{path}: no such checkpoint ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SysgymError(f"{path}: not a checkpoint of the agent neural ({error!r})") from error


class NeuralAgent:
    """A learned law for every flow; nobody caps the hosts.

    Args:
        checkpoint: What training wrote.
        expected: Name under which it was asked for.

    Attributes:
        env_kwargs: The transport that the environment must be made with.
        n_parameters: Weights.

    Raises:
        SysgymError: If the file is no checkpoint of this agent.
    """

    name = "neural"

    def __init__(self, checkpoint: str | PathLike[str], expected: str = "neural") -> None:
        parameters = read_law(checkpoint).parameters
        self.env_kwargs = {"transport": neural_transport(parameters)}
        self.n_parameters = len(parameters)
        self._uncapped = MaxAgent()

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Look up the action that leaves the flows to themselves."""
        self._uncapped.begin(env)

    def act(self, observation: Any) -> Action:
        """Return it."""
        return self._uncapped.act(observation)
