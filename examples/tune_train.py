"""Search of hyper-parameters of ``sysgym train`` by Ray Tune.

python examples/tune_train.py
python examples/tune_train.py --agent a2c --steps 40000 --learning-rates 3e-4 1e-3 3e-3 --seeds 1 2 3
python examples/tune_train.py --resume

Each trial is a training with one learning rate and one seed, which writes what ``sysgym train`` writes. Its
result is the return of training episodes in its ``progress.csv``; learning rates are compared by the mean
over seeds. ``--resume`` goes on after Ctrl-C or a crash: trials that have ended are kept, the others continue
from their newest checkpoint. ``scripts/agents/run_rllib.sh`` makes a virtual environment with Tune.
"""

from __future__ import annotations

import argparse
import csv
import logging
import os
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported
# Tune would keep the output that Ray's own loggers write; training writes its own.
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")

import ray
from ray import tune

NAME = "sysgym-train"
RETURN = "episode_return_mean"


def run_trial(chosen: dict[str, Any]) -> dict[str, float]:
    """Train, or go on, and return the last row of the curve."""
    from sysgym.agents.learned import train

    # A folder of our own: that of Tune has another name after a restart of the trial.
    out = Path(chosen["out"]) / f"lr{chosen['learning_rate']:g}-seed{chosen['seed']}"
    train(
        chosen["agent"],
        chosen["scenario"],
        total_steps=chosen["steps"],
        out=out,
        seed=chosen["seed"],
        action_scale=chosen["action_scale"],
        hyper_parameters={"learning_rate": chosen["learning_rate"]},
        resume=True,
    )
    with (out / "progress.csv").open(newline="") as file:
        last = list(csv.DictReader(file))[-1]
    return {name: float(value) for name, value in last.items()}


def new_tuner(given: argparse.Namespace, folder: Path) -> tune.Tuner:
    """Return a search of all learning rates and seeds, or the one that was begun in the folder."""
    trainable = tune.with_resources(run_trial, {"cpu": 1})
    if given.resume:
        # The trials keep their learning rates, seeds and other settings.
        return tune.Tuner.restore(str(folder / NAME), trainable, resume_unfinished=True, resume_errored=True)
    return tune.Tuner(
        trainable,
        param_space={
            "learning_rate": tune.grid_search(given.learning_rates),
            "seed": tune.grid_search(given.seeds),
            "agent": given.agent,
            "scenario": given.scenario,
            "action_scale": given.action_scale,
            "steps": given.steps,
            "out": str(folder / "trainings"),
        },
        tune_config=tune.TuneConfig(metric=RETURN, mode="max"),
        run_config=tune.RunConfig(name=NAME, storage_path=str(folder), verbose=0),
    )


def main() -> None:
    """Search, and print every trial and the best learning rate."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--agent", default="ppo")
    options.add_argument("--scenario", default="iroko-dumbbell-10m")
    options.add_argument("--action-scale", default="linear", choices=("log", "linear"))
    options.add_argument("--steps", type=int, default=10_000, help="environment steps of each training")
    options.add_argument("--learning-rates", type=float, nargs="+", default=[3e-4, 3e-3])
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    options.add_argument("--out", type=Path, default=Path("runs/tune"))
    options.add_argument("--resume", action="store_true", help="go on with the search in --out")
    given = options.parse_args()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    found = new_tuner(given, given.out.absolute()).fit()
    of_rates: dict[float, list[float]] = {}
    for trial in found:
        if trial.error or not trial.config or RETURN not in (trial.metrics or {}):
            print("a training has not ended; --resume goes on")
            continue
        rate, seed = trial.config["learning_rate"], trial.config["seed"]
        of_rates.setdefault(rate, []).append(trial.metrics[RETURN])
        print(f"learning rate {rate:g}, seed {seed}: return {trial.metrics[RETURN]:.1f}")
    if of_rates:
        best = max(of_rates, key=lambda rate: fmean(of_rates[rate]))
        print(f"best learning rate: {best:g}, mean return {fmean(of_rates[best]):.1f}")
    ray.shutdown()


if __name__ == "__main__":
    main()
