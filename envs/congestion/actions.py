"""The numbers of an action: on a scale of [-1, 1], or native, as the network takes them.

Learners expect [-1, 1]. On the linear scale 0 is half the line rate, near the share of two senders. Shares of
a link span orders of magnitude, 1/2 for two senders, 1/32 for an incast: on the logarithmic scale a step of
the policy changes a rate by the same factor everywhere.
"""

from __future__ import annotations

from sysgym.envs.action_scale import SCALES as SCALES
from sysgym.envs.action_scale import ActionScale as ActionScale
from sysgym.scenarios.errors import UnknownName

NATIVE = "native"
"""Not scaled: rates as fractions of the line rate, or the numbers of a flow's preset."""

OF_CONTROLLERS = (*SCALES, NATIVE)
OF_SENDERS = ("linear", NATIVE)


def check_form(form: str, known: tuple[str, ...]) -> None:
    """Raise UnknownName unless the environment has that form of actions."""
    if form not in known:
        raise UnknownName("action scale", form, known)
