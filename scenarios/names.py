"""Names: what scenarios, suites, contenders, agents, transports and metrics may be called.

Names become parts of file names, of web pages and of messages, so that they hold no slash, no quote, no
angle bracket and no control character. Texts that are shown as they are, such as titles, are not names.
"""

from __future__ import annotations

import re

from sysgym.scenarios.errors import SysgymError

FILE_NAME = r"^[a-z0-9]+(-[a-z0-9]+)*$"
"""Scenarios and suites: the file's name without its suffix."""

ENV_ID = r"^[A-Za-z0-9_-]+/[A-Za-z0-9_-]+-v[0-9]+$"
"""Gymnasium ids."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Contenders, agents within their family, transports and metrics."""

AGENT_NAME = r"^([a-z]+/)?[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Agents as they are registered: with their family before a slash where another has one of that name."""

PLAYER_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*( [A-Za-z0-9][A-Za-z0-9_.-]*)*$"
"""Contenders as tables have them: several names with single spaces, such as ``neural from incast-32``."""

LONGEST_NAME = 120
"""Characters; file names are made of names."""


def check_name(kind: str, name: str) -> str:
    """Return a name that a user gave.

    Args:
        kind: Of what, such as ``contender``.
        name: The name.

    Raises:
        SysgymError: It is none.
    """
    if len(name) > LONGEST_NAME or not re.fullmatch(NAME, name):
        shown = name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."
        raise SysgymError(
            f"{shown!r} cannot be the name of a {kind}: use letters, digits and _ . - between them, "
            f"at most {LONGEST_NAME}, beginning with a letter or digit"
        )
    return name
