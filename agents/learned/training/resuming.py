"""Resuming of a training run from its newest intact checkpoint. Needs torch."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
"""Of a replay buffer; a million transitions have a few hundred megabytes."""


@dataclass(frozen=True)
class Resumed:
    """The checkpoint that a run goes on from.

    Attributes:
        meta: What it belongs to.
        state: All of the learner, as :func:`.learner.state_of` returned it.
    """

    meta: CheckpointMeta
    state: Mapping[str, Any]


class _Broken(SysgymError):
    """A checkpoint that cannot be read whole."""


def go_on(
    training: Training, new_model: Callable[[], Any], checkpoints: list[Path]
) -> tuple[Any, Resumed | None]:
    """Return a learner at the newest checkpoint that is whole, or at the beginning if there is none.

    Warns of checkpoints that are broken.

    Args:
        training: The run.
        new_model: Makes its learner, of stable-baselines3.
        checkpoints: The run's, newest first.

    Raises:
        SysgymError: If one is of another training or holds no learner, or if none is whole.
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
        raise SysgymError(f"{broken[0]}; there is no other to go on from: train into another folder")
    return new_model(), None


def _restored(training: Training, new_model: Callable[[], Any], path: Path) -> tuple[Any, Resumed]:
    try:
        checkpoint = read_checkpoint(path)
    except SysgymError as error:
        raise _Broken(str(error)) from error
    training.check_same(checkpoint)
    if not checkpoint.learner:
        raise SysgymError(
            f"{path}: holds nothing that training could go on from: it is for playing only, or of an older"
            " version; train into another folder"
        )
    model = new_model()
    try:
        state: Mapping[str, Any] = read_tree(checkpoint.learner)
        restore(model, state)
    except Exception as error:  # damaged state fails wherever torch, NumPy or an environment notices
        raise _Broken(f"{path}: its learner cannot be restored ({_first_line(error)})") from error
    if getattr(model, "replay_buffer", None) is not None:
        buffer = replay_buffer_path(path)
        if not buffer.is_file():
            raise _Broken(
                f"{buffer}: missing; {training.algorithm.name} cannot go on without what it has seen"
            )
        try:
            restore_replay_buffer(model, read_limited(buffer, LARGEST_REPLAY_BUFFER_BYTES))
        except Exception as error:  # as above
            raise _Broken(f"{buffer}: not the replay buffer of {path} ({_first_line(error)})") from error
    return model, Resumed(checkpoint.meta, state)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


@contextmanager
def interrupts_kept() -> Iterator[Callable[[], bool]]:
    """Keep the first Ctrl-C until it is asked for; a second one goes where it would have gone.

    Yields:
        Whether there was one.
    """
    before = signal.getsignal(signal.SIGINT)
    seen = False

    def keep(number: int, frame: Any) -> None:
        nonlocal seen
        seen = True
        signal.signal(signal.SIGINT, before)

    try:
        if callable(before):  # it is not where workers leave Ctrl-C to their parent
            signal.signal(signal.SIGINT, keep)
    except ValueError:
        pass  # only the main thread is told of signals
    try:
        yield lambda: seen
    finally:
        if signal.getsignal(signal.SIGINT) is keep:
            signal.signal(signal.SIGINT, before)
