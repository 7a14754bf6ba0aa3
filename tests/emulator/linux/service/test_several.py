"""Several environments at once on one machine, with one service and with two, are independent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from tests.emulator.linux.service.helpers import child, wait_until
from tests.emulator.linux.service.on_kernel import sid_of, traces

REGISTERED = sysgym.__version__

pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("linux_backend")]


def environment(transport: str) -> Any:
    return gym.make(
        "sysgym/DatacenterCC-v0",
        scenario="linux-dumbbell-100m",
        transport=transport,
        backend="linux",
        action_scale="native",
        overrides={"control.episode_steps": 10},
        disable_env_checker=True,
    )


def goodput_bps(env: Any, share: float, steps: int = 10) -> float:
    """Mean of the second half of an episode with all caps at a share of the line rate."""
    found = []
    for _ in range(steps):
        action = np.full(env.action_space.shape or (), share, np.float32)
        found.append(env.step(action)[-1]["metrics"]["goodput_bps"])
    return float(np.mean(found[steps // 2 :]))


def in_processes(act: Callable[[int], object], n: int, folder: Path) -> list[Any]:
    """Runs something in several processes at once; returns what each of them has returned."""

    def write(number: int) -> int:
        (folder / f"{number}.json").write_text(json.dumps(act(number)))
        return 17

    pids = [child(lambda number=number: write(number)) for number in range(n)]  # type: ignore[misc]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [17] * n
    return [json.loads((folder / f"{number}.json").read_text()) for number in range(n)]


def test_two_environments_of_one_process() -> None:
    one, other = environment("cubic"), environment("dctcp")
    for env in (one, other):
        env.reset(seed=1)
    # 100 Mb/s less headers are 97.3 Mb/s; the other's hosts are capped at a tenth meanwhile.
    goodput_bps(other, 0.1, steps=5)
    assert goodput_bps(one, 1.0) > 60e6
    assert goodput_bps(other, 0.1, steps=5) == pytest.approx(2 * 10e6 * 1460 / 1500, rel=0.2)
    one.close()
    other.close()


def test_two_processes_each_with_a_service_of_its_own(tmp_path: Path) -> None:
    def act(number: int) -> tuple[str, float]:
        env = environment(("dctcp", "newvegas")[number])
        env.reset(seed=number)
        rate_bps = goodput_bps(env, 1.0)
        private = env.unwrapped.network._private
        env.close()
        return sid_of(private), rate_bps

    (one, one_bps), (other, other_bps) = in_processes(act, 2, tmp_path)
    assert one != other
    assert min(one_bps, other_bps) > 50e6
    for sid in (one, other):
        # The service ends by itself, once it has seen that its only client has gone.
        wait_until(lambda sid=sid: not Path("/run/sysgym", sid).exists() and traces(sid) == [])  # type: ignore[misc]
