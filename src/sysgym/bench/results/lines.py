"""Append-only file of lines that survives a crash of the process or the machine at any time."""

from __future__ import annotations

import os
from pathlib import Path

from sysgym.errors import StorageError
from sysgym.scenarios.files import own_file, storing, sync_folder, write_all


class LineFile:
    """File to which one process appends lines.

    A line is stored permanently once :meth:`append` has returned: the line is flushed to the disk, and so is
    the folder of a new file. If writing was interrupted, the last line has no newline and is removed when the
    file is opened again.

    Args:
        path: The file; created if it does not exist.
        whole_bytes: Length of the complete lines that were read from the file. The rest is removed: a line
            that was cut off, or whose bytes never reached the disk.

    Attributes:
        torn_bytes: Number of bytes removed.

    Raises:
        StorageError: If the file cannot be written, or its lines have changed since they were read.
    """

    def __init__(self, path: Path, whole_bytes: int) -> None:
        self.path = path
        self._broken = ""
        with storing(path):
            is_new = not path.exists()
            self._file = own_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                if is_new:
                    sync_folder(path.parent)
                self.torn_bytes = os.fstat(self._file).st_size - whole_bytes
                if self.torn_bytes:
                    self._check_torn(whole_bytes)
                    os.ftruncate(self._file, whole_bytes)
            except BaseException:
                os.close(self._file)
                raise

    def _check_torn(self, whole_bytes: int) -> None:
        """Check that no complete line would be removed, which a process without the lock may have added."""
        os.lseek(self._file, whole_bytes, os.SEEK_SET)
        *lines, _ = os.read(self._file, max(self.torn_bytes, 0)).split(b"\n")
        if self.torn_bytes < 0 or any(b"\0" not in line for line in lines):
            raise StorageError(
                self.path,
                "another process has changed it since it was read; wait for that process to end, "
                "then run the same command",
            )

    def append(self, line: bytes) -> None:
        """Add a line and flush it to the disk.

        Args:
            line: Line that ends with a newline.

        Raises:
            StorageError: If the line was not written, because the disk is full or fails. After a failed flush
                the content of the disk is unknown, and further lines are refused until the file is reopened.
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
            # The system may have dropped the bytes, and the next flush would succeed without them.
            self._broken = "an earlier line could not be flushed to the disk"
            self._cut(size)
            raise StorageError(self.path, error) from error

    def _cut(self, size: int) -> None:
        """Remove a partly written line, so that the next line does not continue it."""
        try:
            os.ftruncate(self._file, size)
        except OSError:
            self._broken = "an earlier line was written in part and could not be removed"

    def close(self) -> None:
        """Close the file; closing it again has no effect."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
