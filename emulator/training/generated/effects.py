"""Effects that a replay does not know: jitter, launches, interference, other jobs' traffic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sysgym.scenarios.errors import Problem, ScenarioError

MOST_INTERFERENCE = 0.3
"""Largest interference: transfers of two levels of links at once leave an accelerator some computing."""

_MOST_BACKGROUND = 0.9


@dataclass(frozen=True)
class Effects:
    """What makes the truth finer than a replay, besides links that are shared.

    Attributes:
        jitter_log_sd: Standard deviation of the logarithm of each computation's time, of its own.
        launch_s: Time after each computation until the next operation can start.
        interference: Share of an accelerator's computing that a collective takes while it runs as fast as the
            slowest link of its ring can; a slower one takes less, in proportion, and for longer. From 0 to
            0.3.
        background_share: Share of the time in which another job sends on an uplink of a node; then it gets a
            max-min fair share of the bandwidth.
        background_s: Mean time of such a transfer if it is alone.

    Raises:
        ScenarioError: A value is out of range.
    """

    jitter_log_sd: float = 0.0
    launch_s: float = 0.0
    interference: float = 0.0
    background_share: float = 0.0
    background_s: float = 1e-3

    def __post_init__(self) -> None:
        if problems := tuple(self._problems()):
            raise ScenarioError("<effects>", problems=problems)

    def _problems(self) -> Iterator[Problem]:
        for key, most in (
            ("jitter_log_sd", np.inf),
            ("launch_s", np.inf),
            ("interference", MOST_INTERFERENCE),
            ("background_share", _MOST_BACKGROUND),
        ):
            value = getattr(self, key)
            if not (np.isfinite(value) and 0.0 <= value <= most):
                expected = "a finite number, at least 0" if most == np.inf else f"from 0 to {most:g}"
                yield Problem(key, value, expected)
        if not (np.isfinite(self.background_s) and self.background_s > 0.0):
            yield Problem("background_s", self.background_s, "a finite number, more than 0")


LEVELS = {
    "links alone": Effects(),
    "interference": Effects(0.05, 5e-6, 0.1),
    "strong interference": Effects(0.05, 5e-6, 0.3),
    "other jobs": Effects(0.05, 5e-6, 0.1, 0.3),
}
"""Effects by name, more and more of them; the values are assumed."""
