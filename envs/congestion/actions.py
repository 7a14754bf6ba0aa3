"""Action scales: [-1, 1], linear or logarithmic, or native, in the units of the network.

Learning algorithms expect [-1, 1]. On the linear scale 0 is half the line rate, close to the fair share of
two senders. Fair shares span orders of magnitude, from 1/2 for two senders to 1/32 for an incast. On the
logarithmic scale, equal changes of an action change the rate by equal factors.
"""

from __future__ import annotations

from sysgym.envs.action_scale import SCALES as SCALES
from sysgym.envs.action_scale import ActionScale as ActionScale
from sysgym.scenarios.errors import UnknownName

NATIVE = "native"
"""Unscaled actions: fractions of the line rate, or native actions of a flow's preset."""

OF_CONTROLLERS = (*SCALES, NATIVE)
OF_SENDERS = ("linear", NATIVE)


def check_form(form: str, known: tuple[str, ...]) -> None:
    """Raise UnknownName unless the environment has an action scale of that name."""
    if form not in known:
        raise UnknownName("action scale", form, known)
