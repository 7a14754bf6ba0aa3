"""Valid names of scenarios, suites, contenders, agents, transports and metrics.

Names become parts of file names, web pages and messages, so they have no slash, quote, angle bracket or
control character. Texts for display, such as titles, are not names.
"""

from __future__ import annotations

import re

from sysgym.scenarios.errors import SysgymError

FILE_NAME = r"^[a-z0-9]+(-[a-z0-9]+)*$"
"""Pattern of scenarios and suites: the file name without its suffix."""

ENV_ID = r"^[A-Za-z0-9_-]+/[A-Za-z0-9_-]+-v[0-9]+$"
"""Pattern of Gymnasium ids."""

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Pattern of contenders, agents within their family, transports and metrics."""

AGENT_NAME = r"^([a-z]+/)?[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Pattern of registered agents: prefixed with the family and a slash if the name is not unique."""

PLAYER_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*( [A-Za-z0-9][A-Za-z0-9_.-]*)*$"
"""Pattern of contenders in tables: names separated by single spaces, as in ``neural from incast-32``."""

LONGEST_NAME = 120
"""Largest length in characters; names become parts of file names."""


def environment_names(env_id: str) -> tuple[str, ...]:
    """Return the names of an environment: its id, the id without namespace, and also without version."""
    name = env_id.partition("/")[2]
    return env_id, name, name.partition("-")[0]


def check_name(kind: str, name: str) -> str:
    """Return a name given by a user, if it is valid.

    Args:
        kind: Kind of the name, such as ``contender``.
        name: The name.

    Raises:
        SysgymError: If it is invalid.
    """
    if len(name) > LONGEST_NAME or not re.fullmatch(NAME, name):
        shown = name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."
        raise SysgymError(
            f"{shown!r} cannot be the name of a {kind}: use letters, digits and _ . - between them, "
            f"at most {LONGEST_NAME}, beginning with a letter or digit"
        )
    return name
