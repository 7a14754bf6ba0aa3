"""Cache of what was read from a large trace: NumPy arrays and JSON, without pickles.

Everything in the folder of a selection was computed from the files of the trace and can be removed at any
time. A part is one file of the trace, so that an interrupted reading goes on after the last complete part.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.trace_errors import TraceError
from sysgym.scenarios.files import make_folder, replacing, storing
from sysgym.scenarios.locks import alone_in

_VERSION = 1  # of the content; the next version reads the trace again
_INDEX = "index"
_PARTS = "parts"
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)

Arrays = dict[str, NDArray[Any]]


def cache_folder() -> Path:
    """Return the folder of all selections, below ``XDG_CACHE_HOME`` or ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "sysgym" / "traces"


class TraceCache:
    """Arrays that were made from one selection of one trace's files.

    Args:
        files: The trace's files. Another size or time of change makes another selection.
        selection: What was selected, as JSON data.

    Attributes:
        folder: Where the arrays are.
    """

    def __init__(self, files: Sequence[Path], selection: Mapping[str, Any]) -> None:
        states = [(str(path.resolve()), path.stat()) for path in files]
        identity = {
            "version": _VERSION,
            "selection": dict(selection),
            "files": [(path, state.st_size, state.st_mtime_ns) for path, state in states],
        }
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self.folder = cache_folder() / digest[:20]

    def locked(self) -> AbstractContextManager[None]:
        """Let one process at a time make the arrays; others wait until it has finished or ended."""
        return alone_in(self.folder, "reads a trace into", wait_s=math.inf)

    def index(self) -> Arrays | None:
        """Return the arrays of :meth:`finish`; None if the trace has not been read entirely."""
        return _loaded(self.folder / f"{_INDEX}.npz")

    def part(self, name: str) -> Arrays | None:
        """Return a part; None if it has not been kept."""
        return _loaded(self.folder / _PARTS / f"{name}.npz")

    def keep_part(self, name: str, arrays: Arrays) -> None:
        """Keep a part.

        Raises:
            StorageError: It cannot be written.
        """
        make_folder(self.folder / _PARTS)
        _write(self.folder / _PARTS / f"{name}.npz", arrays)

    def finish(self, index: Arrays) -> None:
        """Keep the index, which says that all is there, and drop the parts.

        Raises:
            StorageError: It cannot be written.
        """
        _write(self.folder / f"{_INDEX}.npz", index)
        shutil.rmtree(self.folder / _PARTS, ignore_errors=True)

    def new_column(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an array in a file of the folder, to be filled; it has a row even if it needs none.

        Raises:
            StorageError: The file cannot be made.
        """
        path = self.folder / f"{name}.npy"
        with storing(path):  # an array without rows cannot be mapped
            return np.lib.format.open_memmap(path, "w+", dtype, (max(shape[0], 1), *shape[1:]))

    def rows(self, name: str, rows: slice) -> NDArray[Any]:
        """Return some rows of an array in a file of the folder, as a copy.

        Raises:
            TraceError: The file has been removed or damaged since the trace was read.
        """
        path = self.folder / f"{name}.npy"
        try:
            return np.array(np.load(path, mmap_mode="r", allow_pickle=False)[rows])
        except _UNREADABLE as error:
            raise TraceError(
                path,
                f"a file of the cache cannot be read ({error})",
                "what was read from the trace before",
                f"remove the folder {self.folder} and run the command again",
            ) from error


def packed(data: Any) -> NDArray[Any]:
    """Return JSON data as an array."""
    return np.frombuffer(json.dumps(data).encode(), np.uint8)


def unpacked(array: NDArray[Any]) -> Any:
    """Return the JSON data in an array."""
    return json.loads(array.tobytes())


def _write(path: Path, arrays: Arrays) -> None:
    with replacing(path) as file:
        np.savez(file, **cast("dict[str, Any]", arrays))


def _loaded(path: Path) -> Arrays | None:
    """Return the arrays of a file; None if there is none or it is damaged."""
    with suppress(*_UNREADABLE), path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
    return None
