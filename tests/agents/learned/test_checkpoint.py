"""Checkpoints: they come back whole, are there whole or not at all, and other files are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.agents.learned.checkpoint import (
    Checkpoint,
    CheckpointMeta,
    read_checkpoint,
    write_atomically,
    write_checkpoint,
)
from sysgym.agents.learned.policy import Mlp
from sysgym.scenarios.errors import SysgymError

META = CheckpointMeta(
    agent="ppo",
    env_id="sysgym/DatacenterCC-v0",
    scenario={"name": "tiny", "queue": {"buffer_bytes": 30_000, "ecn_threshold_bytes": None}},
    env_kwargs={"history": 2, "features": ["queue", "active"]},
    observation_index=["queue[west->east], fraction of the buffer", "active[h0]"],
    action_scale={"name": "log", "low": 0.001, "high": 1.0},
    total_steps=4_096,
    wall_s=12.5,
    seed=7,
    n_envs=4,
    hyper_parameters={"net_arch": [8, 8], "learning_rate": 3e-4},
    versions={"numpy": "2.0"},
)
POLICY = Mlp(
    (np.array([[0.5, -1.0], [2.0, 0.25]], np.float32), np.ones((1, 2), np.float32)),
    (np.array([0.0, 0.125], np.float32), np.array([-3.0], np.float32)),
    ("tanh", "identity"),
)
MODEL = bytes(range(256))


def same(a: Checkpoint, b: Checkpoint) -> bool:
    """Return whether two checkpoints hold the same."""
    policies = [None if c.policy is None else c.policy.to_bytes() for c in (a, b)]
    return (a.meta, a.model) == (b.meta, b.model) and policies[0] == policies[1]


@pytest.mark.parametrize("policy", [POLICY, None])
def test_it_comes_back(tmp_path: Path, policy: Mlp | None) -> None:
    path = tmp_path / "checkpoints" / "step_1.zip"
    write_checkpoint(path, META, policy, MODEL)
    back = read_checkpoint(str(path))
    assert same(back, Checkpoint(path, META, policy, MODEL))
    assert back.path == path
    assert back.meta.scenario_name == "tiny"
    assert os.listdir(path.parent) == ["step_1.zip"], "nothing else is left"


def archive(**parts: bytes) -> bytes:
    """Return a zip file; keywords are names without their ends."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        for name, data in parts.items():
            members.writestr(name.replace("_", "."), data)
    return file.getvalue()


def meta_json(**changes: Any) -> bytes:
    """Return the description of a checkpoint, changed; None takes a key away."""
    values = {"format": "sysgym-checkpoint-1", **META.__dict__, **changes}
    return json.dumps({key: value for key, value in values.items() if value is not None}).encode()


def object_array() -> bytes:
    """Return what only pickle can read."""
    file = BytesIO()
    np.savez(file, activations=np.array([{"anything": 1}], dtype=object))
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a checkpoint of sysgym"),
        (b"total_steps,wall_s\n", "not a checkpoint of sysgym"),
        (archive(data=b"{}", policy_pth=b""), "not a checkpoint of sysgym.*meta.json"),
        (archive(meta_json=meta_json()), "not a checkpoint of sysgym.*model.zip"),
        (archive(meta_json=b"{", model_zip=MODEL), "not a checkpoint of sysgym"),
        (archive(meta_json=b"\xff\xfe\xfa", model_zip=MODEL), "not a checkpoint of sysgym"),
        (archive(meta_json=b"[1, 2]", model_zip=MODEL), "not a checkpoint of sysgym"),
        (archive(meta_json=meta_json(seed=None), model_zip=MODEL), "not a checkpoint of sysgym.*seed"),
        (archive(meta_json=meta_json(colour="red"), model_zip=MODEL), "not a checkpoint of sysgym.*colour"),
        (archive(meta_json=meta_json(format="sysgym-checkpoint-2"), model_zip=MODEL), "checkpoint-1"),
        (archive(meta_json=meta_json(format=None), model_zip=MODEL), "checkpoint-1"),
        (archive(meta_json=meta_json(), model_zip=MODEL, policy_npz=b"xyz"), "not a checkpoint of sysgym"),
        (
            archive(meta_json=meta_json(), model_zip=MODEL, policy_npz=object_array()),
            "not a checkpoint of sysgym",
        ),
    ],
)
def test_another_file_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "final.zip"
    path.write_bytes(data)
    with pytest.raises(SysgymError, match=message) as raised:
        read_checkpoint(path)
    assert str(path) in str(raised.value)


def test_what_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match="no such checkpoint"):
        read_checkpoint(tmp_path / "final.zip")
    with pytest.raises(SysgymError, match="no such checkpoint"):
        read_checkpoint(tmp_path)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, and beside it room for damaged ones."""
    path = tmp_path_factory.mktemp("written") / "whole.zip"
    write_checkpoint(path, META, POLICY, MODEL)
    return path


@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_a_part_of_a_checkpoint_is_refused(written: Path, share: float) -> None:
    data = written.read_bytes()
    part = written.with_name("part.zip")
    part.write_bytes(data[: int(share * len(data))])
    with pytest.raises(SysgymError, match="not a checkpoint"):
        read_checkpoint(part)


@given(place=st.floats(0.0, 1.0, exclude_max=True), bits=st.integers(1, 255))
def test_a_damaged_checkpoint_is_refused_or_holds_the_same(written: Path, place: float, bits: int) -> None:
    """Some bytes of a zip file, such as its dates, mean nothing to a reader."""
    data = bytearray(written.read_bytes())
    data[int(place * len(data))] ^= bits
    damaged = written.with_name("damaged.zip")
    damaged.write_bytes(data)
    try:
        read = read_checkpoint(damaged)
    except SysgymError as error:
        assert "not a checkpoint" in str(error)  # noqa: PT017, it need not be refused
    else:
        whole = read_checkpoint(written)
        lost_policy = Checkpoint(written, whole.meta, None, whole.model)
        assert same(read, whole) or same(read, lost_policy)


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "final.zip"
    write_atomically(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["final.zip"]


WRITE_FOREVER = """
import sys
from pathlib import Path
from sysgym.agents.learned.checkpoint import write_atomically
while True:
    for letter in (b"a", b"b"):
        write_atomically(Path(sys.argv[1]), letter * 1_000_000)
        print("written", flush=True)
"""


def test_a_reader_and_a_kill_see_whole_files_only(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    path = tmp_path / "final.zip"
    writer = start(WRITE_FOREVER, path)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "written\n"
    seen = {path.read_bytes() for _ in range(200)}
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    seen.add(path.read_bytes())
    assert seen == {b"a" * 1_000_000, b"b" * 1_000_000}
