"""Evaluator of congestion control laws for ADRS and OpenEvolve: a program in, numbers out, nothing trusted.

python examples/openevolve/evaluator.py examples/openevolve/initial_program.py
python examples/openevolve/evaluator.py PROGRAM --split test     # what a paper should report

``evaluate`` is what these frameworks call. The program is read, not imported: the small language of the labs
(docs/labs.md) has arithmetic, conditions and loops on the state of a flow, and reaches no file, module or
network. It runs in a process of its own with limits of time and memory, so that an endless loop costs a score
and not the search. Searches play seeds of the train split only.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

LIMIT_S = 300.0
MEMORY_BYTES = 6_000_000_000
SCENARIOS = ("dumbbell-10g", "incast-32", "fattree-k4-websearch")
N_SEEDS = 2
OVERRIDES = {"control.episode_steps": 100}
RIVAL = "dctcp"
WORST = {"combined_score": -10.0}
"""Score of a program that cannot be used."""


def evaluate(program_path: str, split: str = "train") -> dict[str, Any]:
    """Return the scores of a program; ``combined_score`` is 0 for DCTCP, and higher is better.

    Args:
        program_path: Python file with the functions of a law.
        split: Split of the scenarios' seeds.
    """
    command = [sys.executable, __file__, program_path, "--split", split, "--here"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return WORST | {"error": f"took more than {LIMIT_S:g} s; a loop that does not end?"}
    if done.returncode != 0:
        return WORST | {"error": done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def scores(source: str, split: str) -> dict[str, float]:
    """Return the scores of a law, in this process.

    The score of a scenario is the mean of the logarithms of ratios to DCTCP's: its goodput, and the inverse
    of its p99 queueing delay; where flows end, the number of them, and the inverse of their p99 slowdown.
    """
    from sysgym.labs.language.laws import law_of

    law = law_of(source)
    found = {}
    for scenario in SCENARIOS:
        own, rival = played(scenario, law, split), played(scenario, RIVAL, split)
        gains = [gain(own, rival, "goodput_bps")]
        if "completed_flows" in rival:
            # A law could gain by leaving large flows unfinished: their number counts too.
            gains += [gain(own, rival, "completed_flows"), gain(rival, own, "fct_slowdown_p99")]
        else:
            gains.append(gain(rival, own, "queue_delay_p99_s"))
        found[scenario] = max(sum(gains) / len(gains), WORST["combined_score"])
    return {"combined_score": sum(found.values()) / len(found), **found}


def gain(own: dict[str, float], other: dict[str, float], metric: str) -> float:
    """Return the binary logarithm of a ratio of metrics; of no flow that ended, the worst score."""
    if own.get(metric, 0.0) <= 0.0 or other.get(metric, 0.0) <= 0.0:
        return WORST["combined_score"]
    return math.log2(own[metric] / other[metric])


def played(scenario: str, law: Any, split: str) -> dict[str, float]:
    """Return the mean metrics of a law's episodes."""
    import gymnasium as gym
    import numpy as np

    import sysgym  # noqa: F401  registers the environments
    from sysgym.agents import make_agent, play_episode
    from sysgym.scenarios import load_scenario

    first = load_scenario(scenario).splits[split].first_seed
    env = gym.make(
        "sysgym/DatacenterCC-v0",
        scenario=scenario,
        split=split,
        transport=law,
        action_scale="native",
        overrides=OVERRIDES,
    )
    episodes = [
        play_episode(env, make_agent("max"), options={"episode_seed": first + number})[1]["episode_metrics"]
        for number in range(N_SEEDS)
    ]
    return {name: float(np.mean([one[name] for one in episodes if name in one])) for name in episodes[0]}


def limit_memory() -> None:
    """Limit the memory of this process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def main() -> None:
    """Evaluate a program and print its scores."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("program", type=Path)
    options.add_argument("--split", default="train", choices=("train", "validation", "test"))
    options.add_argument("--here", action="store_true", help="in this process, under its limits")
    given = options.parse_args()
    if given.here:
        limit_memory()
        print(json.dumps(scores(given.program.read_text(), given.split)))
    else:
        print(json.dumps(evaluate(str(given.program), given.split), indent=1))


if __name__ == "__main__":
    main()
