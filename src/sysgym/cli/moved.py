"""Earlier spellings of commands: each is answered with the present one."""

from __future__ import annotations

from collections.abc import Sequence

MOVED = {
    ("distill", ""): "study distillation",
    ("robustness", ""): "study robustness",
    ("stress", ""): "study stress",
    ("report", "--determinism"): "study determinism",
    ("bench", "--protocol"): "study nurd-release",
}
"""Command and option, if it takes one, of an earlier spelling -> the command of today."""


def refuse_moved(words: Sequence[str]) -> None:
    """Raise an error if a command line has an earlier spelling.

    Args:
        words: Command line without the program's name.

    Raises:
        SysgymError: Names the command of today.
    """
    options = {word.partition("=")[0] for word in words[1:]}
    for (command, option), now in MOVED.items():
        if words[:1] == [command] and (not option or option in options):
            from sysgym.errors import SysgymError

            raise SysgymError(f"sysgym {f'{command} {option}'.strip()} is now: sysgym {now}")
