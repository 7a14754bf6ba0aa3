"""Order of the commands in ``sysgym --help``."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

ORDER = (
    "list",
    "show",
    "run",
    "live",
    "train",
    "bench",
    "report",
    "validate",
    "submit",
    "plot",
    "export",
    "study",
    "trace",
    "new",
    "lab",
    "emulator",
    "fuzz",
    "calibrate",
    "perf",
)
"""The usual commands first, then those for results, policies, traces, own files, the kernel, and checks."""


class OrderedCommands(TyperGroup):
    """Group that lists its commands in ``ORDER``, and any others after them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of the help."""
        places = {name: place for place, name in enumerate(ORDER)}
        return sorted(super().list_commands(ctx), key=lambda name: places.get(name, len(places)))
