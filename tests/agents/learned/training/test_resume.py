"""Resuming a training: from the newest checkpoint to the same total, with the same settings only."""

from __future__ import annotations

import csv
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sysgym.agents import make_agent
from sysgym.agents.learned.arrays import read_tree, write_tree
from sysgym.agents.learned.checkpoint import read_checkpoint, write_checkpoint
from sysgym.agents.learned.training.train import checkpoints_in
from sysgym.scenarios.errors import SysgymError

Train = Callable[..., Path]


@pytest.fixture
def run(ppo_run: Path, tmp_path: Path) -> Path:
    """A run of 96 steps, to go on with."""
    return shutil.copytree(ppo_run, tmp_path / "run")


def state_in(checkpoint: Path) -> Any:
    """Return the whole state of the learner in a checkpoint."""
    return read_tree(read_checkpoint(checkpoint).learner)


def curve_of(run: Path) -> list[tuple[str, str]]:
    """Return steps and mean returns; what is left of a curve's row is time."""
    with (run / "progress.csv").open(newline="") as file:
        return [(row["total_steps"], row["episode_return_mean"]) for row in csv.DictReader(file)]


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
    resumed, expected = state_in(final), state_in(straight)
    assert resumed["counters"] == expected["counters"]
    assert resumed["counters"]["num_timesteps"] == 192
    # Six rollouts of two epochs each: nothing was learned twice or left out.
    assert resumed["counters"]["_n_updates"] == 12
    optimizer = resumed["parameters"]["policy.optimizer"]["state"]
    steps = {group["step"].item() for group in optimizer.values()}
    assert steps == {12 * 2}, "two batches an epoch: the optimiser's count went on too"
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


SETTINGS: dict[str, dict[str, Any]] = {
    # Rollouts of 12 and 10 steps end within episodes of 8.
    "ppo": {"n_steps": 12, "batch_size": 8, "n_epochs": 2, "net_arch": (8,), "use_sde": True},
    "a2c": {"n_steps": 10, "net_arch": (8,)},
    "ppo_hosts": {"n_steps": 12, "batch_size": 8, "n_epochs": 2},
    # A replay buffer that is full, random actions at first, and noise of the agent's own.
    **{
        agent: {"learning_starts": 16, "batch_size": 16, "buffer_size": 70, "net_arch": (8,)}
        for agent in ("sac", "ddpg")
    },
}


@pytest.mark.parametrize("agent", SETTINGS)
def test_it_goes_on_as_if_it_had_never_stopped(agent: str, train_tiny: Train, tmp_path: Path) -> None:
    chosen = {"hyper_parameters": SETTINGS[agent], "checkpoint_every": 20}
    straight = train_tiny(tmp_path / "straight", agent, total_steps=110, **chosen)
    for total_steps in (48, 110):
        stopped = train_tiny(tmp_path / "stopped", agent, total_steps=total_steps, resume=True, **chosen)
    # Networks, optimisers, counters, all chance, and what the environments were doing, to the last bit.
    assert read_checkpoint(stopped).learner == read_checkpoint(straight).learner
    assert curve_of(tmp_path / "stopped") == curve_of(tmp_path / "straight")


def test_a_broken_checkpoint_gives_way_to_the_one_before(
    run: Path, train_tiny: Train, tmp_path: Path
) -> None:
    straight = train_tiny(tmp_path / "straight", total_steps=192)
    newest = run / "checkpoints" / "step_000000096.zip"
    newest.write_bytes(newest.read_bytes()[:-40])
    with pytest.warns(UserWarning, match=r"96\.zip: not a checkpoint.*going on from .*64\.zip instead"):
        final = train_tiny(run, total_steps=192, resume=True)
    assert read_checkpoint(final).learner == read_checkpoint(straight).learner


@pytest.mark.parametrize("part", ["parameters", "random", "environments", "counters"])
def test_a_learner_that_lacks_a_part_is_broken(run: Path, train_tiny: Train, part: str) -> None:
    newest = run / "checkpoints" / "step_000000096.zip"
    found = read_checkpoint(newest)
    state = read_tree(found.learner)
    del state[part]
    write_checkpoint(newest, found.meta, found.policy, write_tree(state))
    with pytest.warns(UserWarning, match=rf"96\.zip: its learner cannot be restored .*{part}"):
        train_tiny(run, total_steps=128, resume=True)


def test_with_no_whole_checkpoint_it_says_so(run: Path, train_tiny: Train) -> None:
    for path in (run / "checkpoints").iterdir():
        path.write_bytes(b"")
    with pytest.raises(
        SysgymError, match=r"96\.zip: not a checkpoint.*there is no other checkpoint to resume from"
    ):
        train_tiny(run, total_steps=192, resume=True)


def test_what_is_for_playing_only_is_refused(run: Path, train_tiny: Train) -> None:
    newest = run / "checkpoints" / "step_000000096.zip"
    found = read_checkpoint(newest)
    write_checkpoint(newest, found.meta, found.policy, b"")
    with pytest.raises(SysgymError, match="training cannot resume from it"):
        train_tiny(run, total_steps=192, resume=True)


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
    assert checkpoints_in(tmp_path) == []
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    # A write that was killed, a stranger, and counts that do not sort as text.
    for name in ("step_999999999.zip", "step_1000000000.zip", ".step_2000000000.zip.7.tmp", "step_best.zip"):
        (folder / name).write_bytes(b"")
    assert checkpoints_in(tmp_path) == [folder / "step_1000000000.zip", folder / "step_999999999.zip"]


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
    with pytest.raises(SysgymError, match="cannot resume, it was trained with a different") as raised:
        train_tiny(run, agent, total_steps=192, resume=True, **changed)
    assert what in str(raised.value)
    assert str(run) in str(raised.value)
    assert files(run) == before, "nothing is touched"


def test_off_policy_falls_back_with_what_it_had_seen_by_then(
    sac_run: Path, train_tiny: Train, tmp_path: Path
) -> None:
    run = shutil.copytree(sac_run, tmp_path / "run")
    buffers = sorted(path.name for path in (run / "checkpoints").glob("*.npz"))
    assert buffers == ["step_000000064.replay.npz", "step_000000096.replay.npz"], "the newest two"
    straight = train_tiny(tmp_path / "straight", "sac", total_steps=128)
    (run / "checkpoints" / buffers[-1]).write_bytes(b"PK")
    with pytest.warns(UserWarning, match=r"96\.replay\.npz: not the replay buffer .*from .*64\.zip instead"):
        final = train_tiny(run, "sac", total_steps=128, resume=True)
    assert read_checkpoint(final).learner == read_checkpoint(straight).learner


def test_off_policy_without_what_it_has_seen_is_refused(
    sac_run: Path, train_tiny: Train, tmp_path: Path
) -> None:
    run = shutil.copytree(sac_run, tmp_path / "run")
    for buffer in (run / "checkpoints").glob("*.npz"):
        buffer.unlink()
    with pytest.raises(SysgymError, match=r"96\.replay\.npz: missing; sac cannot resume"):
        train_tiny(run, "sac", total_steps=160, resume=True)


TRAIN_FOR_LONG = """
import signal, sys, traceback
from sysgym.agents.learned import train

print("begun", flush=True)
try:
    train(
        "ppo", "iroko-dumbbell-10m", total_steps=10**8, out=sys.argv[1], n_envs=2, checkpoint_every=10**8,
        overrides={
            "control.episode_steps": 8, "control.decision_interval_s": 0.01, "workload.start_jitter_s": 0.005
        },
        hyper_parameters={"n_steps": 16, "batch_size": 16, "n_epochs": 2, "net_arch": (8,)},
        progress=lambda steps: print(steps, flush=True),
    )
except KeyboardInterrupt:
    traceback.print_exc()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)
"""
"""A program that ends by the signal if training raises KeyboardInterrupt.

Python would do that itself, but where tabulate is installed torch imports it at exit, and Python forgets.
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
    newest = checkpoints_in(run)[0]
    done = read_checkpoint(newest).meta.total_steps
    assert newest.name == f"step_{done:09d}.zip"
    assert done >= 200
    assert not (run / "final.zip").exists(), "it is not finished"
    assert make_agent("ppo", checkpoint=newest).name == "ppo"
    final = train_tiny(run, total_steps=done + 64, resume=True)
    assert read_checkpoint(final).meta.total_steps == done + 64
    straight = train_tiny(tmp_path / "straight", total_steps=done + 64)
    assert read_checkpoint(final).learner == read_checkpoint(straight).learner


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["counters"].update(num_timesteps="x"),
        lambda state: state["counters"].update(_n_updates={"a": 1}),
        lambda state: state["counters"].update(_n_updates=-1),
        lambda state: state.update(observations=state["observations"][:0]),
        lambda state: state.update(observations={}),
        lambda state: state.update(episode_starts=state["episode_starts"][:0]),
        lambda state: state.update(episode_starts=[True]),
    ],
)
def test_a_learner_whose_state_was_changed_is_broken(
    run: Path, train_tiny: Train, change: Callable[[Any], None]
) -> None:
    newest = checkpoints_in(run)[0]
    found, state = read_checkpoint(newest), state_in(newest)
    change(state)
    write_checkpoint(newest, found.meta, found.policy, write_tree(state))
    with pytest.warns(UserWarning, match="its learner cannot be restored"):
        train_tiny(run, total_steps=192, resume=True)
