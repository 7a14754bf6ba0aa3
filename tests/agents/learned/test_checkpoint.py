"""Checkpoints: complete round trips, atomic writing, and refusal of other files."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import tracemalloc
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.agents.learned.arrays import read_arrays, read_tree, write_tree
from sysgym.agents.learned.checkpoint import (
    Checkpoint,
    CheckpointMeta,
    read_checkpoint,
    write_checkpoint,
)
from sysgym.agents.learned.policy import Mlp
from sysgym.scenarios.errors import StorageError, SysgymError
from sysgym.scenarios.files import write_atomically

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
LEARNER = bytes(range(256))


def same(a: Checkpoint, b: Checkpoint) -> bool:
    """Return whether two checkpoints hold the same."""
    policies = [None if c.policy is None else c.policy.to_bytes() for c in (a, b)]
    return (a.meta, a.learner) == (b.meta, b.learner) and policies[0] == policies[1]


@pytest.mark.parametrize("policy", [POLICY, None])
def test_it_comes_back(tmp_path: Path, policy: Mlp | None) -> None:
    path = tmp_path / "checkpoints" / "step_1.zip"
    write_checkpoint(path, META, policy, LEARNER)
    back = read_checkpoint(str(path))
    assert same(back, Checkpoint(path, META, policy, LEARNER))
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
    values = {"format": "sysgym-checkpoint-2", **META.__dict__, **changes}
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
        (archive(meta_json=b"{", learner_npz=LEARNER), "not a checkpoint of sysgym"),
        (archive(meta_json=b"\xff\xfe\xfa", learner_npz=LEARNER), "not a checkpoint of sysgym"),
        (archive(meta_json=b"[1, 2]", learner_npz=LEARNER), "not a checkpoint of sysgym"),
        (archive(meta_json=meta_json(seed=None), learner_npz=LEARNER), "not a checkpoint of sysgym.*seed"),
        (
            archive(meta_json=meta_json(colour="red"), learner_npz=LEARNER),
            "not a checkpoint of sysgym.*colour",
        ),
        (archive(meta_json=meta_json(format="sysgym-checkpoint-3"), learner_npz=LEARNER), "checkpoint-2"),
        (archive(meta_json=meta_json(format=None), learner_npz=LEARNER), "checkpoint-2"),
        (
            archive(meta_json=meta_json(), learner_npz=LEARNER, policy_npz=b"xyz"),
            "not a checkpoint of sysgym",
        ),
        (
            archive(meta_json=meta_json(), learner_npz=LEARNER, policy_npz=object_array()),
            "not a checkpoint of sysgym",
        ),
    ],
    # Archives hold the time at which they were made: workers would collect tests of different names.
    ids=range(12),
)
def test_another_file_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "final.zip"
    path.write_bytes(data)
    with pytest.raises(SysgymError, match=message) as raised:
        read_checkpoint(path)
    assert str(path) in str(raised.value)


def test_a_file_of_stable_baselines3_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "ppo.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("_stable_baselines3_version", "2.7.0")
    with pytest.raises(SysgymError, match=r"ppo.zip: a file of stable-baselines3.*save_policy"):
        read_checkpoint(path)


def test_what_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match="no such checkpoint"):
        read_checkpoint(tmp_path / "final.zip")
    with pytest.raises(SysgymError, match="no such checkpoint"):
        read_checkpoint(tmp_path)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, and beside it room for damaged ones."""
    path = tmp_path_factory.mktemp("written") / "whole.zip"
    write_checkpoint(path, META, POLICY, LEARNER)
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
        lost = [
            Checkpoint(written, whole.meta, policy, learner)
            for policy in (whole.policy, None)
            for learner in (whole.learner, b"")
        ]
        assert any(same(read, one) for one in lost)


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "final.zip"
    write_atomically(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space"):
        write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["final.zip"]


WRITE_FOREVER = """
import sys
from pathlib import Path
from sysgym.scenarios.files import write_atomically
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


def with_meta(written: Path, change: dict[str, Any]) -> Path:
    """Return a checkpoint that says something else of itself."""
    with zipfile.ZipFile(written) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    meta = {**json.loads(members["meta.json"]), **change}
    path = written.with_name("changed.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, "meta.json": json.dumps(meta).encode()}.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "change",
    [
        {"observation_index": ["x *\\\n/\nint system(const char *);", "y"]},
        {"observation_index": ["\x1b]52;c;cm0gLXJm\x1b", "y"]},
        {"observation_index": ["x\u2028", "y"]},
        {"observation_index": ["x" * 2000, "y"]},
        {"env_id": "sysgym/DatacenterCC-v0\n"},
        {"agent": "\x1b[31mppo"},
        {"agent": "p" * 200},
        {"scenario": {"name": "\x1b[2J"}},
        {"scenario": {"name": "tiny\n"}},
        {"versions": {"numpy": "2\n*/"}},
        {"env_kwargs": {"history": 10**9}},
        {"env_kwargs": {"history": True}},
        {"env_kwargs": {"features": [[1], {}]}},
        {"env_kwargs": {"features": ["queue"] * 1000}},
        {"env_kwargs": {"reward": "\n"}},
    ],
)
def test_what_a_checkpoint_says_of_itself_is_plain_and_short(written: Path, change: dict[str, Any]) -> None:
    with pytest.raises(SysgymError, match=f"meta.json: {next(iter(change))}"):
        read_checkpoint(with_meta(written, change))


def archive_that_lies(n_bytes: int, said: int) -> bytes:
    """Return an archive with ``meta.json`` of so many zeros, which says that it is shorter."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.json", bytes(n_bytes))
    right, wrong = (number.to_bytes(4, "little") for number in (n_bytes, said))
    assert file.getvalue().count(right) == 2
    return file.getvalue().replace(right, wrong)


def test_an_archive_that_lies_of_a_size_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "lie.zip"
    path.write_bytes(archive_that_lies(20_000_003, 100))
    tracemalloc.start()
    try:
        with pytest.raises(SysgymError, match="Bad CRC-32"):
            read_checkpoint(path)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.json", "{}")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("meta.json", "{}")
    with pytest.raises(SysgymError, match="two of its members have the same name"):
        read_checkpoint(path)


def test_members_that_lie_on_one_another_are_refused() -> None:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", bytes(1000))
        first = archive.infolist()[0]
        for name in "bcd":
            other = copy.copy(first)
            other.filename = other.orig_filename = name
            archive.filelist.append(other)
            archive.NameToInfo[name] = other
    with pytest.raises(ValueError, match="members overlap"):
        read_arrays(file.getvalue())


def test_what_is_packed_is_limited_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    file = BytesIO()
    np.savez_compressed(file, a=np.zeros(300), b=np.zeros(300))
    monkeypatch.setattr("sysgym.agents.learned.arrays.LARGEST_UNPACKED_BYTES", 4_000)
    with pytest.raises(ValueError, match="would unpack to"):
        read_arrays(file.getvalue())


def test_texts_of_a_checkpoint_are_limited(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysgym.agents.learned.checkpoint.LARGEST_META_BYTES", 300)
    with pytest.raises(SysgymError, match=r"meta\.json: would unpack to"):
        read_checkpoint(written)
    with pytest.raises(ValueError, match="longer than"):
        CheckpointMeta.from_json(" " * 301)
    data = write_tree({"many": [[]] * 100})
    monkeypatch.setattr("sysgym.agents.learned.arrays.LARGEST_TREE_BYTES", 300)
    with pytest.raises(ValueError, match="its tree is larger"):
        read_tree(data)
