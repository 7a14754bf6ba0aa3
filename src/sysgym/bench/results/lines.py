"""A file of lines that only grows: what was appended stays, whatever stops the process or the machine."""

from __future__ import annotations

import os
from pathlib import Path

from sysgym.errors import StorageError
from sysgym.scenarios.files import own_file, storing, sync_folder, write_all


class LineFile:
    """A file to which one process appends lines.

    A line is there for good once :meth:`append` has returned: it is flushed to the disk, and so is the
    folder of a new file. A line whose writing was cut short is the last one and ends without a newline;
    whoever opens the file the next time cuts it off.

    Args:
        path: The file; it is made if it is not there.
        whole_bytes: Length of the whole lines in it; what follows is cut off.

    Attributes:
        torn_bytes: How much was cut off.

    Raises:
        StorageError: It cannot be written.
    """

    def __init__(self, path: Path, whole_bytes: int) -> None:
        self.path = path
        self._broken = ""
        with storing(path):
            is_new = not path.exists()
            self._file = own_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                if is_new:
                    sync_folder(path.parent)
                self.torn_bytes = os.fstat(self._file).st_size - whole_bytes
                if self.torn_bytes:
                    os.ftruncate(self._file, whole_bytes)
            except BaseException:
                os.close(self._file)
                raise

    def append(self, line: bytes) -> None:
        """Add a line and flush it to the disk.

        Args:
            line: Ends with a newline.

        Raises:
            StorageError: It is not in the file: the disk is full or fails. After a flush that failed nobody
                knows what the disk holds, and every further line is refused until the file is opened again.
        """
        if self._broken:
            raise StorageError(self.path, self._broken)
        size = os.fstat(self._file).st_size
        try:
            write_all(self._file, line)
        except OSError as error:
            self._cut(size)
            raise StorageError(self.path, error) from error
        try:
            os.fsync(self._file)
        except OSError as error:
            # The system may have given the bytes up, and would call the next flush a success all the same.
            self._broken = "an earlier line could not be flushed to the disk"
            self._cut(size)
            raise StorageError(self.path, error) from error

    def _cut(self, size: int) -> None:
        """Take back what was written: the next line must not be glued to a part of this one."""
        try:
            os.ftruncate(self._file, size)
        except OSError:
            self._broken = "an earlier line was written in part and could not be taken back"

    def close(self) -> None:
        """Close the file; nothing where it is closed."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
