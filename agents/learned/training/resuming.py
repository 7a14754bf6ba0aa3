"""Resumption of a training run from its newest intact checkpoint. Requires torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sysgym.agents.learned.arrays import read_tree
from sysgym.agents.learned.checkpoint import CheckpointMeta, read_checkpoint
from sysgym.agents.learned.training.learner import replay_buffer_path, restore, restore_replay_buffer
from sysgym.agents.learned.training.run import Training
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import read_limited

LARGEST_REPLAY_BUFFER_BYTES = 8_000_000_000
"""Limit of the size of a replay buffer; a million transitions take a few hundred megabytes."""


@dataclass(frozen=True)
class Resumed:
    """Checkpoint from which a run resumes.

    Attributes:
        meta: Metadata.
        state: State of the learner, as returned by :func:`.learner.state_of`.
    """

    meta: CheckpointMeta
    state: Mapping[str, Any]


class _Broken(SysgymError):
    """Raised for a checkpoint that cannot be read completely."""


def go_on(
    training: Training, new_model: Callable[[], Any], checkpoints: list[Path]
) -> tuple[Any, Resumed | None]:
    """Return a learner restored from the newest intact checkpoint, or a new one if there is no checkpoint.

    Broken checkpoints are skipped with a warning.

    Args:
        training: The run.
        new_model: Function that returns a new learner of stable-baselines3.
        checkpoints: Checkpoints of the run, newest first.

    Raises:
        SysgymError: If a checkpoint belongs to another training run or holds no learner, or if none of the
            checkpoints is intact.
    """
    broken: list[_Broken] = []
    for path in checkpoints:
        try:
            found = _restored(training, new_model, path)
        except _Broken as error:
            broken.append(error)
            continue
        if broken:
            warnings.warn(f"{broken[0]}; going on from {path} instead", stacklevel=2)
        return found
    if broken:
        raise SysgymError(
            f"{broken[0]}; there is no other checkpoint to resume from; train into another folder"
        )
    return new_model(), None


def _restored(training: Training, new_model: Callable[[], Any], path: Path) -> tuple[Any, Resumed]:
    try:
        checkpoint = read_checkpoint(path)
    except SysgymError as error:
        raise _Broken(str(error)) from error
    training.check_same(checkpoint)
    if not checkpoint.learner:
        raise SysgymError(
            f"{path}: training cannot resume from it: it is for playing only, or from an older version;"
            " train into another folder"
        )
    model = new_model()
    try:
        state: Mapping[str, Any] = read_tree(checkpoint.learner)
        restore(model, state)
    except Exception as error:  # damaged state can raise anything in torch, NumPy or an environment
        raise _Broken(f"{path}: its learner cannot be restored ({_first_line(error)})") from error
    if getattr(model, "replay_buffer", None) is not None:
        buffer = replay_buffer_path(path)
        if not buffer.is_file():
            raise _Broken(
                f"{buffer}: missing; {training.algorithm.name} cannot resume without its replay buffer"
            )
        try:
            restore_replay_buffer(model, read_limited(buffer, LARGEST_REPLAY_BUFFER_BYTES))
        except Exception as error:  # a damaged buffer can raise anything in torch or NumPy
            raise _Broken(f"{buffer}: not the replay buffer of {path} ({_first_line(error)})") from error
    return model, Resumed(checkpoint.meta, state)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
