"""Ids of PettingZoo: there whatever is imported first, and nothing is imported for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sysgym

REGISTERED = sysgym.__version__
pettingzoo = pytest.importorskip("pettingzoo", minversion="1.27")
ID = "sysgym/ParallelCC-v0"


@pytest.mark.parametrize("imports", ["sysgym, pettingzoo", "pettingzoo, sysgym"])
def test_the_id_is_there_in_whatever_order_they_are_imported(imports: str) -> None:
    code = f"import {imports}; print([one for one in pettingzoo.parallel_registry if 'sysgym' in one])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.stdout == f"['{ID}']\n", done.stderr


def test_sysgym_imports_no_pettingzoo() -> None:
    code = "import sys, sysgym; print('pettingzoo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_an_environment_made_by_its_id_plays() -> None:
    env = pettingzoo.make(
        "parallel",
        ID,
        scenario="dumbbell-10g",
        overrides={"workload.flows_per_pair": 2, "control.episode_steps": 3},
    )
    observations, _ = env.reset(seed=1)
    assert list(observations) == [f"flow_{number}" for number in range(len(observations))]
    steps = 0
    while env.agents:
        env.step({agent: env.action_space(agent).sample() for agent in env.agents})
        steps += 1
    assert steps == 3
    env.close()
