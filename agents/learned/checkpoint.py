"""Checkpoints: zip files with the learner's state, the policy as plain arrays, and metadata.

``meta.json`` describes the training. ``policy.npz`` can be played without torch; it is absent if the network
is not supported in NumPy. ``learner.npz`` is the state from which training resumes; it is absent in a
checkpoint for playing only. None of them can hold code. Checkpoints of the previous format have ``model.zip``
instead of ``learner.npz``, a file of stable-baselines3 that contains pickles and is read only if it is
trusted.
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
"""Format before :data:`FORMAT`, in which the learner's state is a pickle."""

LARGEST_META_BYTES = 4_000_000
"""Limit of the size of ``meta.json``: several hundred times the largest one in the package."""

MOST_FRAMES = 64
"""Limit of the number of decision intervals in an observation."""

_MOST_FEATURES = 100
_NO_CONTROLS = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
_Label = Annotated[str, StringConstraints(pattern=_NO_CONTROLS, max_length=1000)]
"""Single line of text without control characters, which is shown and exported unchanged."""
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
    "preset": _is_name,
    "reward": _is_name,
}
"""Arguments of environments that metadata may contain, each with a check of its value."""


@dataclass(frozen=True)
class CheckpointMeta:
    """Metadata of a checkpoint.

    Attributes:
        agent: Name of the algorithm, such as ``ppo``.
        env_id: Gymnasium id.
        scenario: The resolved scenario.
        env_kwargs: Other arguments with which the environment was created, and must be created again.
        observation_index: Name of every value of the observation.
        action_scale: Name, low and high of the action scale.
        total_steps: Environment steps so far.
        wall_s: Training time so far, s.
        seed: Seed of the training run.
        n_envs: Number of parallel environments.
        hyper_parameters: All hyper-parameters that were set.
        versions: Versions of the packages used in training.
        distilled_from: For a student, its teacher and the distillation recipe; empty otherwise.
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
        """Return the metadata from untrusted text written by ``json.dumps(asdict(meta))``.

        Raises:
            ValueError: If a field is missing, unknown or of the wrong type.
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
    """Contents of a checkpoint.

    Attributes:
        path: Path of the file.
        meta: Metadata.
        policy: The policy, if it is a network supported in NumPy.
        learner: State from which training resumes, as written by :mod:`.learner`; empty in a checkpoint for
            playing only.
        pickled: File of stable-baselines3, which can hold code. It is only set for a checkpoint of
            :data:`PICKLED_FORMAT` without a policy in NumPy.
    """

    path: Path
    meta: CheckpointMeta
    policy: Network | None
    learner: bytes
    pickled: bytes = b""


def write_checkpoint(path: Path, meta: CheckpointMeta, policy: Network | None, learner: bytes) -> None:
    """Write a checkpoint atomically, so that readers see either the old file or the complete new one."""
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
    # A ZipInfo has no timestamp, so the same contents give the same file.
    archive.writestr(zipfile.ZipInfo(name), data, compress_type=how)


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def read_checkpoint(path: str | PathLike[str]) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        SysgymError: If the file does not exist or is not a checkpoint.
    """
    path = Path(path)
    if not path.is_file():
        raise SysgymError(f"{path}: no such checkpoint")
    try:
        return _read(path)
    except SysgymError:
        raise
    except Exception as error:
        # The exceptions of zipfile, json and NumPy for damaged or foreign archives have no common base.
        raise SysgymError(f"{path}: not a checkpoint of sysgym ({error})") from error


_OF_OTHERS = "_stable_baselines3_version"
"""Member of every file that a model of stable-baselines3 saves."""


def _read(path: Path) -> Checkpoint:
    with zipfile.ZipFile(path) as archive:
        check_members(archive, path.stat().st_size)
        if _OF_OTHERS in archive.namelist():
            raise SysgymError(
                f"{path}: a file of stable-baselines3, expected a checkpoint written by sysgym train; load it"
                " in Python and write one with sysgym.agents.save_policy(model, FILE)"
            )
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
            raise ValueError("policy.npz: the number of inputs differs from the size of the observation")
        if found == PICKLED_FORMAT:
            return Checkpoint(path, meta, policy, b"", member("model.zip") if policy is None else b"")
        return Checkpoint(path, meta, policy, member("learner.npz"))
