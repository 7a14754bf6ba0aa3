"""Checkpoints: one zip file with the learner's state, the policy as plain arrays, and what they belong to.

``meta.json`` says what was trained on what; ``policy.npz`` plays without torch (absent where the policy is
not a plain network); ``model.zip`` is stable-baselines3's own file, with the optimiser and the step counter,
for going on (empty in a checkpoint that is for playing only).
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

from sysgym.agents.learned.set_net import Network, network_from_bytes
from sysgym.scenarios.errors import SysgymError

FORMAT = "sysgym-checkpoint-1"


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

    agent: str
    env_id: str
    scenario: dict[str, Any]
    env_kwargs: dict[str, Any]
    observation_index: list[str]
    action_scale: dict[str, Any]
    total_steps: int
    wall_s: float
    seed: int
    n_envs: int
    hyper_parameters: dict[str, Any]
    versions: dict[str, str] = field(default_factory=dict)
    distilled_from: dict[str, Any] = field(default_factory=dict)

    @property
    def scenario_name(self) -> str:
        """Name of the scenario."""
        return str(self.scenario["name"])


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as read.

    Attributes:
        path: Where it came from.
        meta: What it belongs to.
        policy: The policy, if it is a network that NumPy plays.
        model: stable-baselines3's file; empty in a checkpoint that is for playing only.
    """

    path: Path
    meta: CheckpointMeta
    policy: Network | None
    model: bytes


def write_checkpoint(path: Path, meta: CheckpointMeta, policy: Network | None, model: bytes) -> None:
    """Write a checkpoint; a reader sees the old file or the whole new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = BytesIO()
    text = json.dumps({"format": FORMAT, **asdict(meta)}, indent=1)
    with zipfile.ZipFile(file, "w") as archive:
        _add(archive, "meta.json", text.encode(), zipfile.ZIP_DEFLATED)
        if policy is not None:
            _add(archive, "policy.npz", policy.to_bytes(), zipfile.ZIP_DEFLATED)
        _add(archive, "model.zip", model, zipfile.ZIP_STORED)
    write_atomically(path, file.getvalue())


def _add(archive: zipfile.ZipFile, name: str, data: bytes, how: int) -> None:
    # A ZipInfo has no time of its own: the same content is the same file.
    archive.writestr(zipfile.ZipInfo(name), data, compress_type=how)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under another name, flush it to disk and rename it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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
        data = json.loads(archive.read("meta.json"))
        if data.pop("format", None) != FORMAT:
            raise SysgymError(f"{path}: not a checkpoint of the format {FORMAT}")
        model = archive.read("model.zip")
        has_policy = "policy.npz" in archive.namelist()
        policy = network_from_bytes(archive.read("policy.npz")) if has_policy else None
    return Checkpoint(path, CheckpointMeta(**data), policy, model)
