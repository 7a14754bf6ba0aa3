"""Going on: from the newest checkpoint to the same total, never from the start or with other settings."""

from __future__ import annotations

import csv
import shutil
import signal
import subprocess
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO, SAC

from sysgym.agents import make_agent
from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.train import newest_checkpoint
from sysgym.envs.congestion.datacenter_cc import DatacenterCC
from sysgym.scenarios.errors import SysgymError

Train = Callable[..., Path]


@pytest.fixture
def run(ppo_run: Path, tmp_path: Path) -> Path:
    """A run of 96 steps, to go on with."""
    return shutil.copytree(ppo_run, tmp_path / "run")


def model_of(checkpoint: Path, kind: Any = PPO) -> Any:
    """Return the learner in a checkpoint."""
    return kind.load(BytesIO(read_checkpoint(checkpoint).model), device="cpu")


def policy_bytes(checkpoint: Path) -> bytes:
    """Return a checkpoint's policy as a file."""
    policy = read_checkpoint(checkpoint).policy
    assert policy is not None
    return policy.to_bytes()


def files(folder: Path) -> dict[Path, bytes]:
    """Return all files with their contents."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_goes_on_to_the_same_total(run: Path, train_tiny: Train, tmp_path: Path) -> None:
    before, old_meta = files(run), read_checkpoint(run / "final.zip").meta
    told: list[int] = []
    final = train_tiny(run, total_steps=192, resume=True, progress=told.append)
    straight = train_tiny(tmp_path / "straight", total_steps=192)
    resumed, expected = model_of(final), model_of(straight)
    assert resumed.num_timesteps == expected.num_timesteps == 192
    # Six rollouts of two epochs each: nothing was learned twice or left out.
    assert resumed._n_updates == expected._n_updates == 12
    steps = [
        group["step"].item()
        for group in resumed.policy.optimizer.state_dict()["state"].values()
        if "step" in group
    ]
    assert set(steps) == {12 * 2}, "two batches an epoch: the optimiser's count went on too"
    assert told[0] > 96
    meta = read_checkpoint(final).meta
    assert meta.total_steps == 192
    assert meta.wall_s > old_meta.wall_s
    # What was there has stayed, but for what goes on.
    after = files(run)
    goes_on = {Path("final.zip"), Path("progress.csv")}
    assert {path for path in before if before[path] != after[path]} == goes_on
    assert after[Path("progress.csv")].startswith(before[Path("progress.csv")])
    assert {path.name for path in (run / "checkpoints").iterdir()} == {
        f"step_{n:09d}.zip" for n in range(32, 193, 32)
    }


def test_the_curve_goes_on_from_the_checkpoint(run: Path, train_tiny: Train) -> None:
    """Steps behind the newest checkpoint are done again: the curve must not have them twice."""
    for steps in (64, 96):
        (run / "checkpoints" / f"step_{steps:09d}.zip").unlink()
    train_tiny(run, total_steps=96, resume=True)
    with (run / "progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["total_steps"]) for row in rows] == [16 * (1 + episode // 2) for episode in range(12)]
    walls_s = [float(row["wall_s"]) for row in rows]
    assert walls_s == sorted(walls_s)


def test_going_on_draws_new_episodes(
    run: Path, train_tiny: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    reset = DatacenterCC.reset

    def reset_and_note(env: DatacenterCC, **arguments: Any) -> Any:
        answer = reset(env, **arguments)
        drawn.append(answer[1]["episode_seed"])
        return answer

    monkeypatch.setattr(DatacenterCC, "reset", reset_and_note)
    train_tiny(tmp_path / "new", total_steps=96)
    first = set(drawn)
    drawn.clear()
    train_tiny(run, total_steps=192, resume=True)
    # Two environments begin an episode more than the twelve that end.
    assert len(first) == len(set(drawn)) == 14
    assert not first & set(drawn)


def test_going_on_twice_from_one_point_does_the_same(run: Path, train_tiny: Train, tmp_path: Path) -> None:
    twin = shutil.copytree(run, tmp_path / "twin")
    final = train_tiny(run, total_steps=128, resume=True)
    assert policy_bytes(train_tiny(twin, total_steps=128, resume=True)) == policy_bytes(final)
    assert policy_bytes(final) != policy_bytes(run / "checkpoints" / "step_000000096.zip")


def test_a_finished_run_is_finished(run: Path, train_tiny: Train) -> None:
    told: list[int] = []
    policy = policy_bytes(run / "final.zip")
    curve = (run / "progress.csv").read_bytes()
    final = train_tiny(run, resume=True, progress=told.append)
    assert told == []
    assert policy_bytes(final) == policy
    assert read_checkpoint(final).meta.total_steps == 96
    assert (run / "progress.csv").read_bytes() == curve


def test_resume_begins_where_there_is_nothing(ppo_run: Path, train_tiny: Train, tmp_path: Path) -> None:
    assert policy_bytes(train_tiny(tmp_path / "new", resume=True)) == policy_bytes(ppo_run / "final.zip")


def test_the_newest_is_the_one_with_the_most_steps(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) is None
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    # A write that was killed, a stranger, and counts that do not sort as text.
    for name in ("step_999999999.zip", "step_1000000000.zip", ".step_2000000000.zip.7.tmp", "step_best.zip"):
        (folder / name).write_bytes(b"")
    assert newest_checkpoint(tmp_path) == folder / "step_1000000000.zip"


@pytest.mark.parametrize(
    ("agent", "changed", "what"),
    [
        ("a2c", {}, "agent: ppo"),
        ("ppo", {"scenario": "iroko-dumbbell-1g"}, "scenario: iroko-dumbbell-10m"),
        ("ppo", {"overrides": {"control.episode_steps": 9}}, "scenario: iroko-dumbbell-10m"),
        ("ppo", {"history": 2}, "environment: {'history': 1}"),
        ("ppo", {"features": ["queue"]}, "environment"),
        ("ppo", {"reward": "queue"}, "environment"),
        ("ppo", {"action_scale": "linear"}, "action scale: log"),
        ("ppo", {"hyper_parameters": {"n_steps": 32}}, "hyper-parameters"),
        ("ppo", {"seed": 1}, "seed: 0"),
        ("ppo", {"n_envs": 1}, "number of environments: 2"),
    ],
)
def test_other_settings_are_refused(
    run: Path, train_tiny: Train, agent: str, changed: dict[str, Any], what: str
) -> None:
    before = files(run)
    with pytest.raises(SysgymError, match="cannot go on, it was trained with another") as raised:
        train_tiny(run, agent, total_steps=192, resume=True, **changed)
    assert what in str(raised.value)
    assert str(run) in str(raised.value)
    assert files(run) == before, "nothing is touched"


def test_off_policy_goes_on_with_what_it_has_seen(sac_run: Path, train_tiny: Train, tmp_path: Path) -> None:
    run = shutil.copytree(sac_run, tmp_path / "run")
    final = train_tiny(run, "sac", total_steps=160, resume=True)
    resumed = model_of(final, SAC)
    assert resumed.num_timesteps == 160
    resumed.load_replay_buffer(run / "replay_buffer.pkl")
    # Steps of the two environments lie side by side.
    assert resumed.replay_buffer.size() == 80
    early = model_of(sac_run / "final.zip", SAC)
    early.load_replay_buffer(sac_run / "replay_buffer.pkl")
    assert early.replay_buffer.size() == 48
    kept = resumed.replay_buffer.observations[:48]
    assert np.array_equal(kept, early.replay_buffer.observations[:48])
    assert kept.any()


def test_off_policy_without_what_it_has_seen_is_refused(
    sac_run: Path, train_tiny: Train, tmp_path: Path
) -> None:
    run = shutil.copytree(sac_run, tmp_path / "run")
    (run / "replay_buffer.pkl").unlink()
    with pytest.raises(SysgymError, match=r"replay_buffer\.pkl: missing; sac cannot go on"):
        train_tiny(run, "sac", total_steps=160, resume=True)


TRAIN_FOR_LONG = """
import sys
from sysgym.agents.learned import train

print("begun", flush=True)
train(
    "ppo", "iroko-dumbbell-10m", total_steps=10**8, out=sys.argv[1], n_envs=2, checkpoint_every=10**8,
    overrides={
        "control.episode_steps": 8, "control.decision_interval_s": 0.01, "workload.start_jitter_s": 0.005
    },
    hyper_parameters={"n_steps": 16, "batch_size": 16, "n_epochs": 2, "net_arch": (8,)},
    progress=lambda steps: print(steps, flush=True),
)
"""


def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(
    train_tiny: Train, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    run = tmp_path / "run"
    process = start(TRAIN_FOR_LONG, run)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    while int(process.stdout.readline() or 10**9) < 200:
        pass
    assert not (run / "checkpoints").exists(), "only the interruption writes one"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT, errors
    assert "KeyboardInterrupt" in errors
    newest = newest_checkpoint(run)
    assert newest is not None
    done = read_checkpoint(newest).meta.total_steps
    assert newest.name == f"step_{done:09d}.zip"
    assert done >= 200
    assert not (run / "final.zip").exists(), "it is not finished"
    assert make_agent("ppo", checkpoint=newest).name == "ppo"
    final = train_tiny(run, total_steps=done + 64, resume=True)
    assert read_checkpoint(final).meta.total_steps == done + 64
