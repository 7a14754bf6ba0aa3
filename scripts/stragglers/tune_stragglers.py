"""Tune the constants of straggler agents on validation jobs, with the same care for all.

    python scripts/stragglers/tune_stragglers.py google-2011 results/tuning-google-2011
    python scripts/stragglers/tune_stragglers.py google-2011-mitigation results/tuning-google-2011-mitigation

Writes a suite with every agent at every point of its grid to the folder, runs it with `sysgym bench` (the
same command resumes it), and prints the best point of each agent and the mean scores of all. In prediction
the score is F1 over time; in mitigation it is the episode's return, which is completion time and the price of
wasted work, and every agent both relaunches and copies. Agents that learn across jobs learn from the train
split. No test job is played.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from sysgym.bench.results.rows import Row, read_rows
from sysgym.scenarios import StragglerScenario, load_scenario
from sysgym.scenarios.files import write_atomically

JOBS = 20
MITIGATION = "sysgym/StragglerMitigation-v0"
TRAINING_STEPS = 3000

Point = dict[str, float | str]
Grid = dict[str, tuple[float, ...]]

_CONTAMINATION: Grid = {"contamination": (0.1, 0.02, 0.05, 0.2, 0.4)}
GRIDS: dict[str, Grid] = {
    "random_rate": {"rate": (0.1, 0.02, 0.05, 0.2, 0.5)},
    "clock": {"share": (0.95, 0.3, 0.5, 0.7, 0.85)},
    "spark": {"quantile": (0.75, 0.25), "multiplier": (1.5, 1.1, 2.0)},
    "late": {"cap": (0.1, 0.05, 0.2, 0.4)},
    "mantri": {"limit": (0.25, 0.1, 0.5), "factor": (2.0, 1.0)},
    "speed": {"memory": (1.0, 0.5), "least": (0.15, 0.3, 0.0, -0.15), "most": (0.15, 0.1)},
    "gbtr": {"share": (1.0, 0.95, 0.9, 0.8, 0.7)},
    "nurd": {"alpha": (0.0, -0.5, -0.25, -0.1, 0.1, 0.25, 0.5)},
    "nurd_nc": {"share": (1.0, 4.0, 16.0, 64.0, 256.0)},
    "pu_en": {"limit": (0.5, 0.1, 0.25, 0.4, 0.6)},
    "pu_bagging": {"limit": (0.0, -1.0, -0.5, -0.25, 0.25)},
    "tobit": {"ridge": (0.1, 0.01, 1.0)},
    "wrangler": {"confidence": (0.7, 0.5, 0.6, 0.8, 0.9)},
    "iforest": _CONTAMINATION,
    "hbos": _CONTAMINATION,
    "knn": _CONTAMINATION,
    "lof": _CONTAMINATION,
    "pca": _CONTAMINATION,
}
"""Agent -> constant -> values, the published or usual one first."""

IN_MITIGATION: dict[str, Grid] = {
    "flag_all": {},
    **{agent: GRIDS[agent] for agent in ("random_rate", "clock")},
    "spark": {"quantile": (0.75, 0.25), "multiplier": (1.5, 1.1, 2.0, 3.0)},
    **{agent: GRIDS[agent] for agent in ("late", "mantri")},
    # A second attempt does not help against a large input, and time is part of how far behind a task is.
    "speed": {
        "memory": (0.0,),
        "elapsed": (1.0,),
        "near": (10.0,),
        "least": (0.15, 1.0),
        "most": (0.05, 0.01, 0.02, 0.1, 1.0),
    },
    "gbtr": {"share": (1.0, 0.9, 0.7)},
    "nurd": {"alpha": (0.0, -0.5, -0.25, 0.25)},
    "nurd_nc": {"share": (1.0, 16.0, 64.0)},
    "pu_en": {"limit": (0.5, 0.1, 0.25)},
    "pu_bagging": {"limit": (0.0, -1.0, -0.5)},
    "tobit": {"ridge": (0.1, 1.0)},
    "wrangler": {"confidence": (0.7, 0.5, 0.6, 0.8, 0.9, 0.97)},
    "iforest": {"contamination": (0.1, 0.005, 0.02, 0.05, 0.2)},
    **{agent: {"contamination": (0.1, 0.005, 0.02)} for agent in ("hbos", "knn", "lof", "pca")},
    "transfer": {"limit": (0.1, 0.01, 0.02, 0.05, 0.2, 0.3, 0.5, 0.7)},
}
"""The same where agents relaunch and copy. In prediction, transfer's limit is fitted in training."""


def points(agent: str, grid: Grid, actions: tuple[str, ...]) -> list[tuple[str, Point]]:
    """Return the names and parameters of an agent's contenders."""
    found: list[tuple[str, Point]] = []
    for action in actions:
        for values in itertools.product(*grid.values()):
            point: Point = dict(zip(grid, values, strict=True))
            if action:
                point["action"] = action
            found.append((f"{agent}-{len(found)}", point))
    return found


def suite_of(scenario: str, trained_on: str, n_jobs: int, agents: Sequence[str]) -> str:
    """Return the suite that plays every point on the first jobs of the validation split.

    Args:
        scenario: Scenario that is played.
        trained_on: Scenario on whose train split transfer learns, in mitigation.
        n_jobs: Number of jobs.
        agents: Agents to tune; empty: all.
    """
    loaded = load_scenario(scenario, expect=StragglerScenario)
    mitigates = loaded.env_id == MITIGATION
    actions = ("relaunch", "copy") if mitigates else ("",)
    grids = IN_MITIGATION if mitigates else GRIDS
    if unknown := set(agents) - set(grids):
        sys.exit(f"no grid for {', '.join(sorted(unknown))}; there is one for {', '.join(grids)}")
    chosen = {agent: grid for agent, grid in grids.items() if not agents or agent in agents}
    contenders = [
        f'{{ name = "{name}", agent = "{agent}", parameters = {inline(point)} }}'
        for agent, grid in chosen.items()
        for name, point in points(agent, grid, actions)
    ]
    lines = [
        "schema = 1",
        'name = "tuning"',
        f'title = "Constants of straggler agents on {scenario}"',
        'description = "Every agent at every point of its grid, on validation jobs."',
    ]
    if mitigates and "transfer" in chosen:
        lines += ["[[training]]", 'agent = "transfer"', f'scenario = "{trained_on}"', "seed = 1"]
        lines += [f"total_steps = {TRAINING_STEPS}"]
    lines += ["[[tasks]]", f'scenario = "{scenario}"', 'split = "validation"']
    lines += [f'trained_on = "{trained_on}"'] if mitigates else []
    lines += ["contenders = [", *(f"    {one}," for one in contenders), "]"]
    first = loaded.splits["validation"].seeds[0]
    lines += [f"seeds = {{ first = {first}, count = {n_jobs} }}", ""]
    for metric, better in (
        ("f1_over_time", "higher"),
        ("completion_reduction", "higher"),
        ("waste_share", "lower"),
    ):
        lines += ["[[metrics]]", f'name = "{metric}"', f'direction = "{better}"', f'label = "{metric}"']
    return "\n".join(lines) + "\n"


def inline(point: Point) -> str:
    """Return parameters as an inline table of TOML."""
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in point.items()) + " }"


def score(row: Row) -> float:
    """Return what is tuned: the return in mitigation, F1 over time in prediction."""
    return row.total_reward if row.env_id == MITIGATION else row.metrics["f1_over_time"]


def main() -> None:
    """Run the suite and print the choices."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trained-on", help="scenario on whose train split transfer learns")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--agents", nargs="+", default=(), help="only these agents")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    suite = given.folder / "tuning.toml"
    trained_on = given.trained_on or given.scenario
    write_atomically(suite, suite_of(given.scenario, trained_on, given.jobs, given.agents).encode())
    command = [sys.executable, "-m", "sysgym", "bench", str(suite), "--out", str(given.folder / "rows")]
    if code := subprocess.run(command, check=False).returncode:
        sys.exit(code)  # the bench has said why
    scores: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in read_rows(given.folder / "rows"):
        parameters = dict(row.contender.parameters)
        action = str(parameters.pop("action", ""))
        scores[row.contender.agent, action][inline(parameters)].append(score(row))
    best_points = []
    for (agent, action), by_point in scores.items():
        means = {point: fmean(values) for point, values in by_point.items()}
        best = max(means, key=means.__getitem__)
        print(f"{agent} {action}: {best}")
        print("    " + "  ".join(f"{point} {mean:.4f}" for point, mean in means.items()))
        best_points.append((agent, action, best))
    print("Contenders of a suite:")
    for agent, action, best in best_points:
        constants = ", ".join(filter(None, (f'action = "{action}"' if action else "", best[2:-2].strip())))
        name = f"{agent}-{action}" if action else agent
        print(f'    {{ name = "{name}", agent = "{agent}", parameters = {{ {constants} }} }},')


if __name__ == "__main__":
    main()
