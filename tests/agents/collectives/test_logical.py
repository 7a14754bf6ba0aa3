"""Plans along paths of devices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from sysgym.agents.collectives.logical import Router


def test_of_paths_of_equal_time_the_one_with_fewer_hops_is_used() -> None:
    """0.1 + 0.7 is less than 0.8 in floating point."""
    hops = {(0, 1): 0, (1, 2): 1, (0, 2): 2}
    durations_s = np.array([0.1, 0.7, 0.8])
    assert durations_s[0] + durations_s[1] < durations_s[2]
    task: Any = SimpleNamespace(
        n_devices=3,
        durations_s=durations_s,
        plan_hops=lambda phase: hops,
        collective=SimpleNamespace(owners=np.array([0])),
    )
    phase: Any = None
    router = Router(task, phase)
    router.send(chunk=0, source=0, target=2)
    assert router._transfers == [(0, 2)]
