"""Locks of folders, so that two processes never write to one."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import make_folder, own_file, storing

LOCK = ".lock"

_log = logging.getLogger(__name__)

_TRY_EVERY_S = 0.5


@contextmanager
def alone_in(folder: Path, does: str, *, wait_s: float = 0.0, name: str = LOCK) -> Iterator[None]:
    """Lock a folder until the end of the block; the system releases the lock when this process ends.

    Windows lacks such locks; there, nothing is locked.

    Args:
        folder: Folder to lock; it is made.
        does: What a process does that holds the lock, for the error, such as ``trains in``.
        wait_s: Time to wait for another process, s; may be infinite. A wait is logged.
        name: Name of the lock's file. A block inside another one needs a name of its own.

    Raises:
        SysgymError: If another process, or another block of this one, still holds the lock.
        StorageError: If the folder cannot be made or locked.
    """
    make_folder(folder)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with storing(folder):
        handle = own_file(folder / name, os.O_RDWR | os.O_CREAT)
    try:
        began_s = time.monotonic()
        waits = False
        with storing(folder):
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= began_s + wait_s:
                        raise SysgymError(
                            f"{folder}: another process {does} this folder; wait for it to end, "
                            "or choose another folder"
                        ) from None
                    if not waits:
                        _log.info("%s: another process %s this folder; waiting for it to end", folder, does)
                        waits = True
                time.sleep(_TRY_EVERY_S)
        yield
    finally:
        os.close(handle)
