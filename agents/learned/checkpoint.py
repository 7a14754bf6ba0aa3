"""Checkpoints: one zip file with the learner's state, the policy as plain arrays, and what they belong to.

``meta.json`` says what was trained on what; ``policy.npz`` plays without torch (absent where the policy is
not a plain network); ``learner.npz`` is what training goes on from (absent in a checkpoint that is for
playing only). None of them can hold code. Checkpoints of the format before this one had ``model.zip`` instead
of ``learner.npz``, a file of stable-baselines3 with pickles inside, which is read only by who trusts it.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import metadata
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, StringConstraints, TypeAdapter, ValidationError

from sysgym.agents.learned.arrays import check_members, read_member
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import Network, network_from_bytes
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import make_folder, parse_json, write_atomically
from sysgym.scenarios.names import AGENT_NAME, ENV_ID, FILE_NAME, LONGEST_NAME

FORMAT = "sysgym-checkpoint-2"
PICKLED_FORMAT = "sysgym-checkpoint-1"
"""Before :data:`FORMAT`; the learner's state is a pickle in it."""

LARGEST_META_BYTES = 4_000_000
"""Two hundred times the longest of the package's entries."""

MOST_FRAMES = 64
"""Decision intervals of an observation."""

_MOST_FEATURES = 100
_NO_CONTROLS = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
_Label = Annotated[str, StringConstraints(pattern=_NO_CONTROLS, max_length=1000)]
"""One line that is shown and exported as it is."""
_EnvId = Annotated[str, StringConstraints(pattern=ENV_ID, max_length=LONGEST_NAME)]
_AgentName = Annotated[str, StringConstraints(pattern=AGENT_NAME, max_length=LONGEST_NAME)]


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= LONGEST_NAME
        and re.fullmatch(_NO_CONTROLS, value) is not None
    )


_ENV_KEYWORDS: Mapping[str, Callable[[Any], bool]] = {
    "features": lambda value: (
        isinstance(value, list) and len(value) <= _MOST_FEATURES and all(map(_is_name, value))
    ),
    "history": lambda value: type(value) is int and 1 <= value <= MOST_FRAMES,
    "reward": _is_name,
}
"""What else an environment is made with, and whether a value can be one."""


@dataclass(frozen=True)
class CheckpointMeta:
    """What a checkpoint belongs to.

    Attributes:
        agent: Name of the algorithm, such as ``ppo``.
        env_id: Gymnasium id.
        scenario: The scenario, resolved.
        env_kwargs: What else the environment was made with and has to be made with again.
        observation_index: What stood at every index of the observation.
        action_scale: Name, low and high of the action scale.
        total_steps: Environment steps so far.
        wall_s: Time spent training so far, s.
        seed: Seed of the training run.
        n_envs: Environments side by side.
        hyper_parameters: All that were set.
        versions: Of what trained it.
        distilled_from: Of a student: its teacher, and how it was taught; empty otherwise.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    agent: _AgentName
    env_id: _EnvId
    scenario: dict[str, Any]
    env_kwargs: dict[_Label, Any]
    observation_index: list[_Label]
    action_scale: dict[str, Any]
    total_steps: int
    wall_s: float
    seed: int
    n_envs: int
    hyper_parameters: dict[str, Any]
    versions: dict[_Label, _Label] = field(default_factory=dict)
    distilled_from: dict[str, Any] = field(default_factory=dict)

    @property
    def scenario_name(self) -> str:
        """Name of the scenario."""
        return str(self.scenario["name"])

    @property
    def family(self) -> str:
        """Family of the scenario."""
        return str(self.scenario.get("family"))

    @classmethod
    def from_json(cls, text: str | bytes) -> CheckpointMeta:
        """Read what ``json.dumps(asdict(meta))`` wrote, from anyone.

        Raises:
            ValueError: If a field is missing, unknown or of another type.
        """
        if len(text) > LARGEST_META_BYTES:
            raise ValueError(f"longer than {LARGEST_META_BYTES / 1e6:g} MB")
        try:
            meta = _meta_reader().validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            plain = first["type"] == "string_pattern_mismatch"
            said = "Input should be a name or one line of plain text" if plain else first["msg"]
            raise ValueError(f"{where or 'the whole'}: {said}") from error
        scenario = meta.scenario.get("name")
        if not isinstance(scenario, str):
            raise ValueError("scenario: has no name")
        if len(scenario) > LONGEST_NAME or not re.fullmatch(FILE_NAME, scenario):
            raise ValueError(f"scenario: {scenario[:LONGEST_NAME]!r} cannot be its name")
        for name, value in meta.env_kwargs.items():
            if name not in _ENV_KEYWORDS or not _ENV_KEYWORDS[name](value):
                raise ValueError(
                    f"env_kwargs: no environment is made with {name[:LONGEST_NAME]} = "
                    f"{repr(value)[:LONGEST_NAME]}"
                )
        return meta


@lru_cache(maxsize=1)
def _meta_reader() -> TypeAdapter[CheckpointMeta]:
    return TypeAdapter(CheckpointMeta)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as read.

    Attributes:
        path: Where it came from.
        meta: What it belongs to.
        policy: The policy, if it is a network that NumPy plays.
        learner: What training goes on from, as :mod:`.learner` writes it; empty in a checkpoint that is for
            playing only.
        pickled: stable-baselines3's file, which can hold code, where nothing else plays the policy: in a
            checkpoint of :data:`PICKLED_FORMAT`; empty otherwise.
    """

    path: Path
    meta: CheckpointMeta
    policy: Network | None
    learner: bytes
    pickled: bytes = b""


def write_checkpoint(path: Path, meta: CheckpointMeta, policy: Network | None, learner: bytes) -> None:
    """Write a checkpoint; a reader sees the old file or the whole new one, never a part."""
    make_folder(path.parent)
    file = BytesIO()
    text = json.dumps({"format": FORMAT, **asdict(meta)}, indent=1)
    with zipfile.ZipFile(file, "w") as archive:
        _add(archive, "meta.json", text.encode(), zipfile.ZIP_DEFLATED)
        if policy is not None:
            _add(archive, "policy.npz", policy.to_bytes(), zipfile.ZIP_DEFLATED)
        if learner:
            _add(archive, "learner.npz", learner, zipfile.ZIP_STORED)
    write_atomically(path, file.getvalue())


def _add(archive: zipfile.ZipFile, name: str, data: bytes, how: int) -> None:
    # A ZipInfo has no time of its own: the same content is the same file.
    archive.writestr(zipfile.ZipInfo(name), data, compress_type=how)


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of each package; those that are not installed are left out."""
    found = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def read_checkpoint(path: str | PathLike[str]) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        SysgymError: If there is none, or the file is something else.
    """
    path = Path(path)
    if not path.is_file():
        raise SysgymError(f"{path}: no such checkpoint")
    try:
        return _read(path)
    except SysgymError:
        raise
    except Exception as error:
        # What a damaged or foreign archive raises in zipfile, json and NumPy has no common root.
        raise SysgymError(f"{path}: not a checkpoint of sysgym ({error})") from error


def _read(path: Path) -> Checkpoint:
    with zipfile.ZipFile(path) as archive:
        check_members(archive, path.stat().st_size)
        data = parse_json(read_member(archive, "meta.json", LARGEST_META_BYTES))
        if not isinstance(data, dict):
            raise ValueError("meta.json: expected an object")
        found = data.pop("format", None)
        if found not in (FORMAT, PICKLED_FORMAT):
            raise SysgymError(f"{path}: not a checkpoint of the format {FORMAT}")
        try:
            meta = CheckpointMeta.from_json(json.dumps(data))
        except ValueError as error:
            raise ValueError(f"meta.json: {error}") from error

        def member(name: str) -> bytes:
            return read_member(archive, name) if name in archive.namelist() else b""

        network = member("policy.npz")
        policy = network_from_bytes(network) if network else None
        n_inputs = policy.weights[0].shape[1] if isinstance(policy, Mlp) else None
        sets_numbers = "low" in meta.action_scale
        if sets_numbers and n_inputs not in (None, len(meta.observation_index)):
            raise ValueError("policy.npz: takes another number of inputs than the observation has")
        if found == PICKLED_FORMAT:
            return Checkpoint(path, meta, policy, b"", member("model.zip") if policy is None else b"")
        return Checkpoint(path, meta, policy, member("learner.npz"))
