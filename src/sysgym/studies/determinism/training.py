"""Single training of the determinism study: ``python -m sysgym.studies.determinism.training FOLDER``.

Each training has its own process, because the numbers of threads of the numerical libraries are fixed when
they are loaded, and because the state of a process (caches, hash seeds, thread pools) must not be shared
between runs.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sysgym.bench.run.pool import ONE_THREAD
from sysgym.errors import SysgymError
from sysgym.scenarios.files import make_folder, read_json, write_atomically

RESULT = "result.json"
JOB = "job.json"
LOG = "log.txt"
TRAINING = "training"


@dataclass(frozen=True)
class Run:
    """Training run with its settings.

    Attributes:
        arm: Name of the arm.
        number: Number of the run within the arm, from 0.
        scenario: Resolved scenario.
        agent: Learning algorithm.
        total_steps: Number of environment steps.
        n_envs: Number of parallel environments.
        hyper_parameters: Hyperparameters of the algorithm.
        seed: Seed of everything random: initial weights, exploration, order of batches, environments.
        n_threads: Number of threads of torch, its libraries and the simulator.
        deterministic: Whether torch may only use deterministic operations.
        episode_seeds: Seeds of the validation split for the evaluation.
        versions: Versions of the software.
    """

    arm: str
    number: int
    scenario: Mapping[str, Any]
    agent: str
    total_steps: int
    n_envs: int
    hyper_parameters: Mapping[str, Any]
    seed: int
    n_threads: int
    deterministic: bool
    episode_seeds: tuple[int, ...]
    versions: Mapping[str, str]

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return f"{self.arm}-{self.number}"

    def to_json(self) -> dict[str, Any]:
        """Return the values that identify a result as one of this run, as JSON data."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return data


@dataclass(frozen=True)
class RunResult:
    """Result of a training.

    Attributes:
        checkpoint: Checkpoint of the policy.
        returns: Returns of the episodes of the validation split, in order.
        wall_s: Wall time of the training, s.
        cpu_s: Processor time of the training, s.
        about: Libraries and threads of the process.
    """

    checkpoint: Path
    returns: tuple[float, ...]
    wall_s: float
    cpu_s: float
    about: Mapping[str, Any]


def finished(run: Run, folder: Path) -> RunResult | None:
    """Return the result of a run in its folder; None if it is missing or damaged, so that it is repeated."""
    try:
        data = read_json(folder / run.name / RESULT)
        result = data["result"]
        # Results written by older versions have only checkpoints of stable-baselines3.
        checkpoint = folder / run.name / TRAINING / Path(result.pop("checkpoint", "final.zip")).name
        if data["run"] != run.to_json() or not checkpoint.is_file():
            return None
        return RunResult(checkpoint, tuple(result.pop("returns")), **result)
    except (SysgymError, AttributeError, KeyError, TypeError):
        return None


def carry_out(run: Run, folder: Path, tell: Callable[[int], None]) -> RunResult:
    """Train in a new process and wait for it; an interrupted training is restarted from the beginning.

    It is not resumed, because the study does not cover the determinism of resumed trainings.

    Args:
        run: The training.
        folder: Folder of the study.
        tell: Callback with the number of completed steps.

    Raises:
        SysgymError: The process failed; its output is in the run's folder.
    """
    place = folder / run.name
    shutil.rmtree(place, ignore_errors=True)
    make_folder(place)
    write_atomically(place / JOB, json.dumps(run.to_json()).encode())
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, str(run.n_threads))}
    # Random unless the user chose one, so that dependence on the order of sets becomes visible.
    environment.setdefault("PYTHONHASHSEED", "random")
    with (place / LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sysgym.studies.determinism.training", str(place)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip().isdigit():
                    tell(int(line))
            code = process.wait()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
    result = finished(run, folder)
    if code != 0 or result is None:
        last = (place / LOG).read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        raise SysgymError(
            f"{run.name}: the training failed ({last or f'exit code {code}'}); see {place / LOG}"
        )
    return result


def _main(place: Path) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole process group; the parent stops its workers
    data = json.loads((place / JOB).read_bytes())
    run = Run(**{**data, "episode_seeds": tuple(data["episode_seeds"])})
    import torch

    from sysgym.agents.learned import train
    from sysgym.bench.contenders import parse_contender
    from sysgym.bench.run.episodes import make_contender, play
    from sysgym.scenarios import scenario_from_resolved

    torch.use_deterministic_algorithms(run.deterministic)
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    scenario = scenario_from_resolved(run.scenario)
    checkpoint = train(
        run.agent,
        scenario,
        total_steps=run.total_steps,
        out=place / TRAINING,
        seed=run.seed,
        n_envs=run.n_envs,
        hyper_parameters=run.hyper_parameters,
        checkpoint_every=run.total_steps,
        n_threads=run.n_threads,
        # If the parent process has ended, writing fails, which ends this process as well.
        progress=lambda steps: print(steps, flush=True),
    )
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    contender = parse_contender(f"{run.agent}@{checkpoint}", (), scenario.family, scenario.env_id)
    env, agent = make_contender(run.scenario, "validation", contender)
    returns = [play(env, agent, seed).total_reward for seed in run.episode_seeds]
    env.close()
    result = {
        "checkpoint": checkpoint.name,
        "returns": returns,
        "wall_s": round(wall_s, 3),
        "cpu_s": round(cpu_s, 3),
        "about": {
            "torch_threads": torch.get_num_threads(),
            "torch_deterministic": torch.are_deterministic_algorithms_enabled(),
            "torch_mkl": torch.backends.mkl.is_available(),  # type: ignore[no-untyped-call]
            "torch_cpu": torch.backends.cpu.get_cpu_capability(),
            "cpus": os.cpu_count(),
            "platform": platform.platform(),
        },
    }
    write_atomically(place / RESULT, json.dumps({"run": data, "result": result}, indent=1).encode() + b"\n")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
