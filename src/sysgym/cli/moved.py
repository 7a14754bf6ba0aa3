"""Renamed commands: an error for a former name, with the present one."""

from __future__ import annotations

from collections.abc import Sequence

MOVED = {
    ("distill", ""): "study distillation",
    ("robustness", ""): "study robustness",
    ("stress", ""): "study stress",
    ("report", "--determinism"): "study determinism",
    ("bench", "--protocol"): "study nurd-release",
}
"""Former command and option (or empty) -> present command."""


def refuse_moved(words: Sequence[str]) -> None:
    """Raise an error if a command line has a former name of a command.

    Args:
        words: Command line without the program's name.

    Raises:
        SysgymError: Names the present command.
    """
    options = {word.partition("=")[0] for word in words[1:]}
    for (command, option), now in MOVED.items():
        if words[:1] == [command] and (not option or option in options):
            from sysgym.errors import SysgymError

            raise SysgymError(f"sysgym {f'{command} {option}'.strip()} is now: sysgym {now}")
