"""Interface of graders to a submission: functions to call, constants to read, a law to simulate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysgym.labs.intake.files import digest, policy_beside
from sysgym.labs.intake.notebooks import read
from sysgym.labs.sandbox.process import Limits, Sandbox, Stopped
from sysgym.labs.sources import definitions, why_unknown

_LINE = re.compile(r"^line (\d+)(?=: )|(?<=\()line (\d+)(?=\)$)")
_UNKNOWN = re.compile(r"^NameError: name '(\w+)' is not defined")
_OF_SYSGYM = re.compile(r"No module named 'sysgym|may not open \S*sysgym")

if TYPE_CHECKING:
    from sysgym.emulator.packets.transports import Transport


class Submission:
    """Python file or notebook of a student.

    Args:
        path: The file.
        limits: Limits of the process in which its functions run.

    Attributes:
        source: Python source of the file.
        sha256: Digest of the submission's files.

    Raises:
        SysgymError: The file cannot be read.
    """

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        self.path = path
        self.source = read(path)
        self.sha256 = digest(path)
        self._limits = limits or Limits()
        self._wanted: tuple[str, ...] = ()
        self._sandbox: Sandbox | None = None

    def need(self, names: Sequence[str]) -> None:
        """Set the names that are used next; the process with the earlier names is ended.

        Raises:
            SubmissionError: A name is not defined.
        """
        self.close()
        definitions(self.source, names)
        self._wanted = tuple(names)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function; see :meth:`Sandbox.call`."""
        return self._started().call(name, arguments)

    def constant(self, name: str) -> Any:
        """Return a constant."""
        return self._started().constant(name)

    def law(self) -> Transport:
        """Return the submission's congestion control law.

        Raises:
            LawError: The law is not written in the language of laws, or cannot be compiled.
        """
        from sysgym.labs.language.laws import compiled, law_of

        return compiled(law_of(self.source))

    def explained(self, words: str) -> str:
        """Return an error's text with places in this submission, and with advice if the cause is known."""
        unknown = _UNKNOWN.match(words)
        if unknown and (why := why_unknown(self.source, unknown[1])):
            return f"NameError: {why}"
        placed = _LINE.sub(lambda found: self.source.place(int(found[1] or found[2])), words)
        if _OF_SYSGYM.search(words):
            where = placed[placed.rindex("(") :] if placed.endswith(")") else ""
            return f"ImportError: graded functions may use Python and NumPy, not sysgym {where}".rstrip()
        return placed

    def close(self) -> None:
        """End the submission's process."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _started(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = Sandbox(definitions(self.source, self._wanted, without="sysgym"), self._limits)
        return self._sandbox


__all__ = ["Stopped", "Submission", "digest", "policy_beside"]
