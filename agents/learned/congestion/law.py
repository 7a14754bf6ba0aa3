"""Checkpoints of congestion control laws for single flows, and the agent that plays such a checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
from pydantic import ConfigDict, TypeAdapter, ValidationError

from sysgym.agents.congestion.max import MaxAgent
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.constants import Constant
from sysgym.envs.congestion.base import Array
from sysgym.scenarios.errors import SysgymError, UnknownName
from sysgym.scenarios.files import parse_json, read_limited, write_atomically
from sysgym.scenarios.names import FILE_NAME, LONGEST_NAME

LARGEST_LAW_BYTES = 10_000_000
"""Limit of the size of a checkpoint: a thousand times the largest one in the package."""


@dataclass(frozen=True)
class Law:
    """Checkpoint of a law: one JSON file.

    Attributes:
        parameters: Parameters of the transport, in the order of the transport.
        trained_on: Resolved scenarios of the curriculum.
        total_steps: Decision intervals simulated in training.
        seed: Seed of the search.
        validation: Loss on the validation split; smaller is better.
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


@lru_cache(maxsize=1)
def _law_reader() -> TypeAdapter[Law]:
    return TypeAdapter(Law)


@dataclass(frozen=True)
class LawForm:
    """Common parts of the checkpoints of an agent.

    Attributes:
        agent: Name of the agent.
        format: Name of the file's format.
        names: Names that describe the parameters, such as the inputs of a network; stored in every file.
        transport: Function from parameters to the transport.
        constants: Constants of which the parameters are values; empty if parameters have no names, such as
            weights.
    """

    agent: str
    format: str
    names: Mapping[str, Sequence[str]]
    transport: Callable[[Sequence[float]], Transport]
    constants: Sequence[Constant] = ()

    def write(self, law: Law, path: Path) -> None:
        """Write a checkpoint atomically."""
        data = {"format": self.format, "agent": self.agent, **self.names, **asdict(law)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(data, indent=1).encode())

    def read(self, path: str | PathLike[str]) -> Law:
        """Read a checkpoint.

        Raises:
            SysgymError: If the file does not exist or is not a checkpoint of this form.
        """
        if not Path(path).is_file():
            raise SysgymError(f"{path}: no such checkpoint")
        try:
            data = parse_json(read_limited(Path(path), LARGEST_LAW_BYTES))
            told = {key: value for key, value in data.items() if key not in ("format", "agent", *self.names)}
            if data["format"] != self.format:
                raise SysgymError(
                    f"{path}: a law of the format {str(data['format'])[:LONGEST_NAME]!r}, expected"
                    f" {self.format!r}; search for it anew (sysgym train {self.agent}), or use the version"
                    " of sysgym that wrote it"
                )
            for key, expected in self.names.items():
                if data[key] != list(expected):
                    raise SysgymError(
                        f"{path}: other {key} than those of the agent {self.agent}, which are, in order:"
                        f" {', '.join(expected)}"
                    )
            law = _law_reader().validate_json(json.dumps(told))
            for scenario in law.trained_on:
                if not re.fullmatch(FILE_NAME, name := str(scenario.get("name"))) or len(name) > LONGEST_NAME:
                    raise SysgymError(
                        f"{path}: trained_on: {name[:LONGEST_NAME]!r} is not the name of a scenario"
                    )
            return law
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part)[:40] for part in first["loc"])
            raise SysgymError(
                f"{path}: not a checkpoint of the agent {self.agent} ({where}: {first['msg']})"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SysgymError(f"{path}: not a checkpoint of the agent {self.agent} ({error!r})") from error


class LawAgent:
    """Congestion control law for every flow, without caps on hosts.

    Args:
        checkpoint: Path of the checkpoint.
        expected: Name of the agent as requested.
        **changes: Values of constants that replace those of the checkpoint.

    Attributes:
        form: Form of the checkpoints.
        name: Name of the agent.
        env_kwargs: The transport that the environment must be created with.
        n_parameters: Number of the law's parameters.

    Raises:
        SysgymError: If the file is not a checkpoint of this agent, or a value is outside its bounds.
        UnknownName: If the law has no such constant.
    """

    form: ClassVar[LawForm]
    name: ClassVar[str]

    def __init__(self, checkpoint: str | PathLike[str], expected: str = "", **changes: float) -> None:
        parameters = self.form.read(checkpoint).parameters
        self.env_kwargs = {"transport": self.form.transport(parameters).with_constants(changes)}
        self.n_parameters = len(parameters)
        self._uncapped = MaxAgent()

    @classmethod
    def check_arguments(cls, changes: Mapping[str, Any]) -> None:
        """Check values of constants without a checkpoint; raises the errors of the constructor."""
        if constants := cls.form.constants:
            cls.form.transport([constant.value for constant in constants]).with_constants(changes)
        elif changes:
            raise UnknownName(f"constant of {cls.name}", next(iter(changes)), ())

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Look up the action that does not restrict the flows."""
        self._uncapped.begin(env)

    def act(self, observation: Any) -> Array:
        """Return the action that does not restrict the flows."""
        return self._uncapped.act(observation)
