"""Error of a trace that cannot be read."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from sysgym.scenarios.errors import SysgymError


class TraceError(SysgymError):
    """Raised when a trace is missing, empty, damaged, of another format, or holds no usable job.

    Attributes:
        path: The file or folder.
        got: Content found there.
        expected: Content expected there.
        remedy: How to fix it.
    """

    def __init__(self, path: str | PathLike[str], got: str, expected: str, remedy: str) -> None:
        self.path, self.got, self.expected, self.remedy = fspath(path), got, expected, remedy
        super().__init__(
            f"{self.path}: {got}\n  expected  {expected}\n  to do     {remedy}",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the constructor's arguments."""
        return (type(self), (self.path, self.got, self.expected, self.remedy))
