"""Training: files of a run, reproducibility, and refusals."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]
    EventAccumulator,
)

from sysgym.agents.learned.arrays import read_tree
from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.training.learner import torch_model
from sysgym.agents.learned.training.train import train
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import MissingExtra, SysgymError, UnknownName
from sysgym.scenarios.locks import alone_in

Train = Callable[..., Path]


def policy_of(checkpoint: Path) -> Mlp:
    """Return a checkpoint's policy."""
    policy = read_checkpoint(checkpoint).policy
    assert isinstance(policy, Mlp)
    return policy


def same(a: Path, b: Path) -> bool:
    """Return whether two checkpoints' policies are equal to the last bit."""
    return policy_of(a).to_bytes() == policy_of(b).to_bytes()


def curve(folder: Path) -> list[dict[str, str]]:
    """Return the rows of a run's progress.csv."""
    with (folder / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return what TensorBoard would show of a run: steps and values by tag."""
    [log] = (folder / "tensorboard").iterdir()
    events = EventAccumulator(str(log))
    events.Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


def test_the_learning_rate_can_fall_to_a_final_one(train_tiny: Train, tmp_path: Path) -> None:
    settings = {"n_steps": 16, "batch_size": 16, "learning_rate": 1e-3, "final_learning_rate": 1e-4}
    train_tiny(tmp_path / "run", total_steps=96, hyper_parameters=settings)
    shown = scalars(tmp_path / "run")["train/learning_rate"]
    # An update follows each rollout of 32 steps; the log of the next one shows it.
    expected = [1e-3 + (1e-4 - 1e-3) * (step - 32) / 96 for step, _ in shown]
    assert [rate for _, rate in shown] == pytest.approx(expected, rel=1e-3)
    assert len(shown) > 1


def test_what_a_run_leaves(ppo_run: Path) -> None:
    assert sorted(path.name for path in ppo_run.iterdir()) == [
        ".lock",
        "checkpoints",
        "final.zip",
        "progress.csv",
        "tensorboard",
    ]
    names = sorted(path.name for path in (ppo_run / "checkpoints").iterdir())
    assert names == [f"step_{steps:09d}.zip" for steps in (32, 64, 96)]
    assert (ppo_run / "final.zip").read_bytes() == (ppo_run / "checkpoints" / names[-1]).read_bytes()
    for name, steps in zip(names, (32, 64, 96), strict=True):
        assert read_checkpoint(ppo_run / "checkpoints" / name).meta.total_steps == steps


def test_a_checkpoint_says_what_it_belongs_to(ppo_run: Path) -> None:
    meta = read_checkpoint(ppo_run / "final.zip").meta
    assert (meta.agent, meta.env_id, meta.seed, meta.n_envs) == ("ppo", "sysgym/DatacenterCC-v0", 0, 2)
    assert meta.scenario["control"]["episode_steps"] == 8
    shipped = load_scenario("iroko-dumbbell-10m").resolved()
    assert {key for key in shipped if shipped[key] != meta.scenario[key]} == {"control", "workload"}
    assert meta.env_kwargs == {"history": 1}
    assert meta.action_scale == {"name": "log", "low": pytest.approx(0.001), "high": 1.0}
    assert meta.hyper_parameters == {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "net_arch": [8]}
    assert {"torch", "stable-baselines3", "numpy", "python"} <= set(meta.versions)
    assert len(meta.observation_index) == policy_of(ppo_run / "final.zip").weights[0].shape[1]
    assert meta.wall_s > 0.0


def test_every_episode_is_a_row_of_the_curve(ppo_run: Path) -> None:
    rows = curve(ppo_run)
    # 96 steps of two environments are 12 episodes of 8 steps, two at a time.
    assert [int(row["total_steps"]) for row in rows] == [16 * (1 + episode // 2) for episode in range(12)]
    walls_s = [float(row["wall_s"]) for row in rows]
    assert walls_s == sorted(walls_s)
    assert walls_s[-1] <= read_checkpoint(ppo_run / "final.zip").meta.wall_s + 1e-3
    # The default reward is at most 1 a step.
    assert all(0.0 < float(row["episode_return_mean"]) <= 8.0 for row in rows)


def test_tensorboard_has_the_learner_and_the_network(ppo_run: Path) -> None:
    shown = scalars(ppo_run)
    assert {"train/loss", "rollout/ep_rew_mean", "episode/goodput_bps", "episode/queue_delay_mean_s"} <= set(
        shown
    )
    assert [step for step, _ in shown["episode/goodput_bps"]] == [32, 64, 96]
    assert all(0.0 < goodput <= 10e6 for _, goodput in shown["episode/goodput_bps"])


def test_same_seed_same_policy(ppo_run: Path, train_tiny: Train, tmp_path: Path) -> None:
    assert same(train_tiny(tmp_path / "again"), ppo_run / "final.zip")
    assert not same(train_tiny(tmp_path / "other", seed=1), ppo_run / "final.zip")


def test_same_seed_same_policy_off_policy(sac_run: Path, train_tiny: Train, tmp_path: Path) -> None:
    assert same(train_tiny(tmp_path / "again", "sac"), sac_run / "final.zip")
    assert not same(train_tiny(tmp_path / "other", "sac", seed=1), sac_run / "final.zip")


def test_the_policy_is_that_of_the_model_that_learned(ppo_run: Path, sac_run: Path) -> None:
    for run in (ppo_run, sac_run):
        checkpoint = read_checkpoint(run / "final.zip")
        model = torch_model(checkpoint)
        assert isinstance(checkpoint.policy, Mlp)
        assert read_tree(checkpoint.learner)["counters"]["num_timesteps"] == 96
        batch = np.random.default_rng(0).random((20, *model.observation_space.shape), dtype=np.float32)
        expected, _ = model.predict(batch, deterministic=True)
        assert np.clip(checkpoint.policy(batch), -1, 1) == pytest.approx(expected, abs=1e-5)
        first = read_checkpoint(run / "checkpoints" / "step_000000032.zip")
        assert isinstance(first.policy, Mlp)
        assert not np.allclose(first.policy.weights[0], checkpoint.policy.weights[0]), "nothing was learned"


def test_steps_are_rounded_up_to_whole_rollouts(train_tiny: Train, tmp_path: Path) -> None:
    final = train_tiny(tmp_path / "run", total_steps=33, checkpoint_every=None)
    assert read_checkpoint(final).meta.total_steps == 64


def test_progress_is_told_to_a_function(train_tiny: Train, tmp_path: Path) -> None:
    told: list[int] = []
    train_tiny(tmp_path / "run", total_steps=64, progress=told.append)
    assert told == sorted(told)
    assert told[0] < told[-1] == 64


def test_progress_is_shown_in_a_bar(
    train_tiny: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_tiny(tmp_path / "quiet", total_steps=32)
    assert capsys.readouterr().out == ""
    train_tiny(tmp_path / "run", total_steps=64, progress=True)
    out = capsys.readouterr().out
    assert "ppo on iroko-dumbbell-10m" in out
    assert "64/64" in out


def test_settings_reach_the_environment_and_the_learner(train_tiny: Train, tmp_path: Path) -> None:
    chosen = {"history": 3, "features": ("queue", "active"), "reward": "queue", "action_scale": "linear"}
    checkpoint = read_checkpoint(train_tiny(tmp_path / "run", n_envs=1, total_steps=32, **chosen))
    assert checkpoint.meta.env_kwargs == {"history": 3, "features": ["queue", "active"], "reward": "queue"}
    assert checkpoint.meta.action_scale["name"] == "linear"
    # 6 switch ports and 4 hosts, three times.
    assert len(checkpoint.meta.observation_index) == 3 * (6 + 4)
    assert isinstance(checkpoint.policy, Mlp)
    assert [weight.shape for weight in checkpoint.policy.weights] == [(8, 30), (4, 8)]


def test_a_scenario_object_and_its_overrides(ppo_run: Path, train_tiny: Train, tmp_path: Path) -> None:
    scenario = load_scenario("iroko-dumbbell-10m")
    assert same(train_tiny(tmp_path / "run", scenario=scenario), ppo_run / "final.zip")


@pytest.mark.parametrize(
    ("agent", "arguments", "advice"),
    [
        ("pqo", {}, 'did you mean "ppo"'),
        ("ppo", {"scenario": "iroko-dumbell-10m"}, 'did you mean "iroko-dumbbell-10m"'),
        ("ppo", {"hyper_parameters": {"learning_rat": 0.1}}, 'did you mean "learning_rate"'),
        ("ppo", {"features": ["queu"]}, 'did you mean "queue"'),
        ("ppo", {"reward": "defualt"}, 'did you mean "default"'),
        ("ppo", {"action_scale": "lin"}, 'did you mean "linear"'),
    ],
)
def test_unknown_names_have_advice(
    train_tiny: Train, tmp_path: Path, agent: str, arguments: dict[str, Any], advice: str
) -> None:
    settings = {"hyper_parameters": {}} | arguments
    with pytest.raises(SysgymError, match=advice):
        train_tiny(tmp_path / "run", agent, **settings)


@pytest.mark.parametrize("name", ["seed", "device", "verbose", "tensorboard_log"])
def test_what_train_sets_itself_is_no_hyper_parameter(train_tiny: Train, tmp_path: Path, name: str) -> None:
    with pytest.raises(UnknownName, match=f'no hyper-parameter of ppo is named "{name}"'):
        train_tiny(tmp_path / "run", hyper_parameters={name: 1})


@pytest.mark.parametrize(
    "setting", [{"history": 7}, {"reward": "other"}, {"action_scale": "linear"}, {"features": ["rate"]}]
)
def test_what_an_own_trainer_does_not_have_is_refused(setting: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match=f'{next(iter(setting))} is .*, but "transfer" has its own trainer'):
        train("transfer", "google-2011", total_steps=1, out=tmp_path / "run", **setting)


def test_a_class_is_kept_by_its_name_and_anything_else_is_refused_at_once(
    train_tiny: Train, tmp_path: Path
) -> None:
    settings = {"n_steps": 16, "batch_size": 16, "policy_kwargs": {"activation_fn": torch.nn.ReLU}}
    final = train_tiny(tmp_path / "run", total_steps=32, hyper_parameters=settings)
    kept = read_checkpoint(final).meta.hyper_parameters
    assert kept["policy_kwargs"] == {"activation_fn": "torch.nn.modules.activation.ReLU"}
    assert policy_of(final).activations == ("relu", "relu", "identity")
    train_tiny(tmp_path / "run", total_steps=64, hyper_parameters=settings, resume=True)
    with pytest.raises(SysgymError, match=r"<lambda>.*: a checkpoint can hold"):
        train_tiny(tmp_path / "other", hyper_parameters={"learning_rate": lambda left: 1e-3 * left})
    assert not (tmp_path / "other").exists()


def test_a_value_that_the_learner_refuses_is_said_in_a_sentence(train_tiny: Train, tmp_path: Path) -> None:
    with pytest.raises(
        SysgymError, match=r"ppo does not accept the hyper-parameters .*'fast'.*: .*learning rate"
    ):
        train_tiny(tmp_path / "run", hyper_parameters={"learning_rate": "fast"})


def test_a_folder_with_a_run_is_not_trained_over(ppo_run: Path, train_tiny: Train) -> None:
    before = {path: path.read_bytes() for path in ppo_run.rglob("*") if path.is_file()}
    with pytest.raises(SysgymError, match="holds a run already"):
        train_tiny(ppo_run)
    assert {path: path.read_bytes() for path in ppo_run.rglob("*") if path.is_file()} == before


def test_two_processes_do_not_train_in_one_folder(train_tiny: Train, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with alone_in(run, "trains in"):
        with pytest.raises(SysgymError, match="run: another process trains in this folder"):
            train_tiny(run)
        with pytest.raises(SysgymError, match="run: another process trains in this folder"):
            train("transfer", "google-2011", total_steps=1, out=run)
        assert [path.name for path in run.iterdir()] == [".lock"]
    assert train_tiny(run).is_file()


def test_without_tensorboard_nothing_is_begun(script: Callable[..., str], tmp_path: Path) -> None:
    code = """
    import json
    from sysgym.agents.learned import train
    from sysgym.scenarios.errors import MissingExtra
    try:
        train("ppo", "iroko-dumbbell-10m", total_steps=64, out="run", n_envs=1)
    except MissingExtra as error:
        print(json.dumps([error.extra, str(error)]))
    """
    extra, message = json.loads(script(code, without=["tensorboard"]))
    assert extra == "train"
    assert message == str(MissingExtra("train", "training"))
    assert 'pip install "sysgym[train]"' in message
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_the_environment_says_how_far_a_policy_looks_ahead(tmp_path: Path) -> None:
    small = {"n_steps": 8, "batch_size": 8, "n_epochs": 1, "net_arch": (4,)}
    for name, chosen, expected in (
        ("failslow-hybrid", {}, {"gamma": 0.9}),
        ("burst-plan", {}, {"gamma": 1.0}),
        ("failslow-hybrid", {"gamma": 0.7}, {"gamma": 0.7}),
        ("iroko-dumbbell-10m", {}, {}),
    ):
        out = tmp_path / f"{name}-{len(chosen)}"
        final = train("ppo", name, total_steps=8, n_envs=1, out=out, hyper_parameters={**small, **chosen})
        kept = read_checkpoint(final).meta.hyper_parameters
        assert {key: value for key, value in kept.items() if key == "gamma"} == expected
