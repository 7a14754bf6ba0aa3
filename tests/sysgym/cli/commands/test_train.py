"""``sysgym train``: a usable checkpoint, and resuming."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]


@pytest.mark.slow
def test_what_was_trained_plays_and_goes_on(tiny: Path, call: Call, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="the extra train is not installed")
    folder = tmp_path / "mine"
    small = ("-p", "n_steps=32", "-p", "batch_size=32", "-p", "n_epochs=1", "--n-envs", "2")
    arguments = ("train", "ppo", tiny, "--out", folder, "--action-scale", "linear", *small)
    code, out, err = call(*arguments, "--steps", "6.4e1", "--resume")
    assert code == 0, err
    assert f"{folder} has no checkpoint to resume from; the training starts from the beginning" in out
    (line,) = [line for line in out.splitlines() if line.startswith("checkpoint")]
    checkpoint = Path(line.split()[1])
    assert checkpoint.is_file()
    assert checkpoint.is_relative_to(folder)
    hint = f"sysgym run {tiny} --agent ppo --checkpoint {checkpoint}"
    assert hint in out
    code, out, err = call(*hint.split()[1:], "--seed", "200", "--json")
    assert code == 0, err
    assert json.loads(out)["metrics"]["goodput_bps"] > 0.0
    assert "paced under ppo" in err

    before = _steps(folder)
    assert before
    assert max(before) <= 64
    code, _, err = call(*arguments, "--steps", "128")
    assert code == 2
    assert f"{folder} holds a run already: add --resume (in Python resume=True), or give another --out" in err
    code, out, err = call(*arguments, "--steps", "128", "--resume")
    assert code == 0, err
    assert "starts from the beginning" not in out
    after = _steps(folder)
    assert after[: len(before)] == before, "the curve goes on and does not begin anew"
    assert 64 < max(after) <= 128


def test_the_command_that_is_printed_can_be_copied(
    tiny: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sysgym.agents.learned

    folder, own = tmp_path / "my runs", tmp_path / "my law.py"
    (folder / "tensorboard").mkdir(parents=True)
    monkeypatch.setattr(sysgym.agents.learned, "train", lambda *_, out, **__: out / "final.zip")
    monkeypatch.setattr("sysgym.cli.pages.listing.load_plugins", lambda paths: None)
    keys = ("control.episode_steps=5", "queue.buffer_bytes=20_000")
    options = [word for key in keys for word in ("--set", key)]
    code, out, err = call("train", "ppo", tiny, "--out", folder, "--plugin", own, *options)
    assert code == 0, err
    run, tensorboard = map(shlex.split, out.splitlines()[-2:])
    named = ["--agent", "ppo", "--checkpoint", str(folder / "final.zip"), "--plugin", str(own)]
    assert run == ["sysgym", "run", str(tiny), *named, *options]
    assert tensorboard == ["tensorboard", "--logdir", str(folder / "tensorboard")]


def _steps(folder: Path) -> list[float]:
    """Environment steps at the points of the training's curve."""
    head, *lines = (folder / "progress.csv").read_text().splitlines()
    column = head.split(",").index("total_steps")
    return [float(line.split(",")[column]) for line in lines]


def test_a_hyper_parameter_that_does_not_exist_is_told_the_nearest(
    tiny: Path, call: Call, tmp_path: Path
) -> None:
    pytest.importorskip("stable_baselines3", reason="the extra train is not installed")
    code, out, err = call("train", "ppo", tiny, "--out", tmp_path / "x", "-p", "learning_rat=0.1")
    assert (code, out) == (2, "")
    assert 'no hyper-parameter of ppo is named "learning_rat"; did you mean "learning_rate"?' in err
    code, _, err = call("train", "ppo", tiny, "--out", tmp_path / "x", "-p", "lr=0.1")
    assert code == 2
    assert 'did you mean "learning_rate"?' in err
