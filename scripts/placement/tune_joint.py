"""Tune the agents of JointPlacement on episodes of the train split, with the same care for all.

    python scripts/placement/tune_joint.py joint-unseen --episodes 150 --out results/tuning-joint

Every agent with constants is played at each of the 24 points of its grid on the same episodes. The point
with the least mean regret, price of measurements included, is printed with its mean on the validation split,
beside greedy, which has no constants, and the oracle. The means of all points are in the folder, one file for
each agent, and are not computed again. No test episode is played.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium as gym

import sysgym
from sysgym.agents import make_agent, play_episode
from sysgym.scenarios import load_scenario
from sysgym.scenarios.files import write_atomically

REGISTERED = sysgym.__version__
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "greedy": {},
    "placement/oracle": {},
    "topk": {"measured": (2, 3, 4, 6, 8, 12), "repeats": (1, 2, 3, 4)},
    "ucb": {"width": (0.5, 1.0, 2.0), "prior_sd": (0.05, 0.1, 0.2, 0.3), "noise_sd": (0.1, 0.2)},
    "bayes": {
        "residual_sd": (0.05, 0.1, 0.2),
        "level_sd": (0.3, 0.6),
        "collective_sd": (0.0, 0.1),
        "noise_sd": (0.1, 0.2),
    },
}


def main() -> None:
    """Play all points and print the best of each agent."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario")
    parser.add_argument(
        "--episodes", type=int, default=150, help="of the train split; validation has as many"
    )
    parser.add_argument("--agent", choices=GRIDS, action="append", help="only this agent; may be repeated")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for agent in given.agent or GRIDS:
        path = given.out / f"{agent.replace('/', '-')}-{given.episodes}.json"
        known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
        grid = GRIDS[agent]
        points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        for point in points:
            name = json.dumps(point)
            if name not in known:
                known[name] = mean_regret(given.scenario, "train", agent, point, given.episodes)
                write_atomically(path, json.dumps(known, indent=1).encode())
        best = min(points, key=lambda point: known[json.dumps(point)])
        held_out = mean_regret(given.scenario, "validation", agent, best, given.episodes)
        least = known[json.dumps(best)]
        print(f"{agent}: {best or 'no constants'}  train {least:.4f}  validation {held_out:.4f}", flush=True)


def mean_regret(scenario: str, split: str, agent: str, point: Mapping[str, Any], episodes: int) -> float:
    """Return the mean net regret over the first episodes of a split."""
    loaded = load_scenario(scenario)
    env = gym.make(loaded.env_id, scenario=scenario, split=split, disable_env_checker=True)
    player = make_agent(agent, family="placement", **point)
    first = loaded.splits[split].first_seed
    regrets = []
    for seed in range(first, first + episodes):
        _, info = play_episode(env, player, options={"episode_seed": seed})
        regrets.append(info["episode_metrics"]["net_regret"])
    env.close()
    return fmean(regrets)


if __name__ == "__main__":
    main()
