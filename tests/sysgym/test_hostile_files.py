"""Files that try to run code: each kind with every command that reads it; no code runs."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import pickle
import py_compile
import re
import zipfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.agents.learned.arrays import read_tree, write_tree
from sysgym.agents.learned.checkpoint import CheckpointMeta, read_checkpoint, write_checkpoint
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.shipped import shipped_checkpoint
from sysgym.bench.contenders import Contender, file_sha256
from sysgym.bench.results.rows import ResultsFile, Row
from sysgym.bench.run.replay import replay
from sysgym.errors import ResultMismatch, SysgymError
from sysgym.scenarios.files import LARGEST_UNPACKED_BYTES

Call = Callable[..., tuple[int, str, str]]
MakeRow = Callable[..., Row]
WriteSuite = Callable[..., Path]

SCENARIO = "iroko-dumbbell-10m"


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Return what exists once code has run."""
    return tmp_path / "code-has-run"


def pickled(marker: Path) -> bytes:
    """Return a pickle that leaves the mark."""
    return pickle.dumps(Bomb(marker))


def object_arrays(marker: Path, *names: str) -> bytes:
    """Return an npz file whose arrays are pickles."""
    file = io.BytesIO()
    array = np.array([Bomb(marker)], dtype=object)
    np.savez(file, allow_pickle=True, **dict.fromkeys(names, array))
    return file.getvalue()


def shipped() -> CheckpointMeta:
    """Return what a checkpoint of the package belongs to."""
    path = shipped_checkpoint("ppo", SCENARIO)
    assert path is not None
    return read_checkpoint(path).meta


def archive(meta: dict[str, Any], **members: bytes) -> bytes:
    """Return a checkpoint by hand; keywords are names without their ends."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("meta.json", json.dumps(meta))
        for name, data in members.items():
            made.writestr(name.replace("_", "."), data)
    return file.getvalue()


def model_zip(marker: Path) -> bytes:
    """Return a file of stable-baselines3 whose description is a pickle."""
    text = base64.b64encode(pickled(marker)).decode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("data", json.dumps({"policy_class": {":type:": "x", ":serialized:": text}}))
    return file.getvalue()


def learner(**settings: Any) -> bytes:
    """Return a learner without a network that fits."""
    return write_tree({"parameters": {"policy": {"log_std": np.zeros(2, np.float32)}}})


def with_model_zip(marker: Path) -> bytes:
    """A checkpoint of the older format."""
    return archive({**asdict(shipped()), "format": "sysgym-checkpoint-1"}, model_zip=model_zip(marker))


def with_objects_as_policy(marker: Path) -> bytes:
    """A policy that only pickle reads."""
    data = object_arrays(marker, "activations", "weight_0", "bias_0")
    return archive({**asdict(shipped()), "format": "sysgym-checkpoint-2"}, policy_npz=data)


def with_objects_as_learner(marker: Path) -> bytes:
    """A learner that only pickle reads."""
    data = object_arrays(marker, "tree")
    return archive({**asdict(shipped()), "format": "sysgym-checkpoint-2"}, learner_npz=data)


def with_a_class_of_its_own(marker: Path) -> bytes:
    """Settings that name code which lies in the current folder."""
    Path("planted.py").write_text(
        f"from pathlib import Path\nPath({str(marker)!r}).touch()\nclass Tanh: pass\n"
    )
    settings = {"policy_kwargs": {"activation_fn": "planted.Tanh"}}
    meta = {**asdict(replace(shipped(), hyper_parameters=settings)), "format": "sysgym-checkpoint-2"}
    return archive(meta, learner_npz=learner())


def with_a_thousand_million_layers(marker: Path) -> bytes:
    """Settings that name a module of torch which makes as many copies of a layer as it is told."""
    extractor = {"enable_nested_tensor": False, "num_layers": 10**9}
    settings = {
        "policy_kwargs": {
            "features_extractor_class": "torch.nn.modules.transformer.TransformerEncoder",
            "features_extractor_kwargs": extractor,
        }
    }
    meta = {**asdict(replace(shipped(), hyper_parameters=settings)), "format": "sysgym-checkpoint-2"}
    return archive(meta, learner_npz=learner())


CHECKPOINTS = {
    "layers": (with_a_thousand_million_layers, "there is no BaseFeaturesExtractor named torch"),
    "model.zip": (with_model_zip, "its policy is a pickle .* add --trust"),
    "policy.npz": (with_objects_as_policy, "not a checkpoint of sysgym .*Python objects"),
    "learner.npz": (with_objects_as_learner, "cannot be built .*Python objects"),
    "class": (
        with_a_class_of_its_own,
        r"made with planted\.Tanh, which is code of its author; .* add --trust",
    ),
}
NO_NETWORK = "is (not a|neither a) (plain )?network|not a checkpoint of sysgym"


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_no_command_runs_a_checkpoint(
    kind: str, call: Call, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    make, expected = CHECKPOINTS[kind]
    path = tmp_path / "final.zip"
    path.write_bytes(make(marker))
    commands: list[tuple[tuple[str, ...], str]] = [
        (("run", SCENARIO, "--agent", "ppo", "--checkpoint", "final.zip"), expected),
        (("run", SCENARIO, "--agent", "ppo@final.zip"), expected),
        (("export", "final.zip", "--out", "policy.h"), NO_NETWORK),
        (("study", "distillation", "final.zip", "--out", "student"), NO_NETWORK),
        (("study", "robustness", "final.zip"), NO_NETWORK),
    ]
    for command, words in commands:
        code, _, err = call(*command)
        assert code == 2, command
        assert "final.zip" in err
        assert re.search(words, " ".join(err.split())), (command, err)
        assert not marker.exists(), command


def test_with_trust_it_does_run(call: Call, marker: Path, tmp_path: Path) -> None:
    """Or the tests here would hold whatever happened."""
    (tmp_path / "final.zip").write_bytes(with_model_zip(marker))
    code, _, err = call("run", SCENARIO, "--agent", "ppo", "--checkpoint", "final.zip", "--trust")
    assert code == 2
    assert "model.zip cannot be read" in err
    assert marker.exists()


@pytest.mark.parametrize("kind", ["model.zip", "class"])
def test_no_benchmark_runs_a_checkpoint(
    kind: str, call: Call, marker: Path, make_row: MakeRow, write_suite: WriteSuite, tmp_path: Path
) -> None:
    """Workers are processes of their own; rows of an entry name a checkpoint beside them."""
    checkpoint = tmp_path / "final.zip"
    os.chdir(tmp_path)
    checkpoint.write_bytes(CHECKPOINTS[kind][0](marker))
    suite = write_suite('"dctcp"', 1)
    code, _, err = call("bench", suite, "-c", f"ppo@{checkpoint}", "--out", "out", "--jobs", "1")
    assert code == 1, err
    assert "add --trust" in (tmp_path / "out" / "errors.log").read_text()
    assert not marker.exists()

    entry = tmp_path / "entry"
    who = {"agent": "ppo", "transport": "paced", "learned": True, "checkpoint": "../final.zip"}
    row = make_row("ppo", checkpoint_sha256=file_sha256(checkpoint), **who)
    with ResultsFile(entry) as results:
        results.append(row)
    code, _, err = call("validate", entry, "--jobs", "1")
    assert code == 2
    assert "add --trust" in err
    assert not marker.exists()


def plugin_text(marker: Path, name: str = "planted") -> str:
    """Return a plugin that leaves the mark."""
    return (
        f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
        "from sysgym.agents import register_agent\n"
        f"@register_agent({name!r})\nclass Planted:\n    pass\n"
    )


def entry_with(folder: Path, make_row: MakeRow, plugin: str, sha256: str) -> Path:
    """Return a folder with one row that names a plugin."""
    with ResultsFile(folder) as results:
        results.append(make_row("planted", agent="planted", plugins=((plugin, sha256),)))
    return folder


@pytest.mark.parametrize("place", ["outside", "inside"])
@pytest.mark.parametrize("name", ["{}", "../{}", "/{}", "sub/../../{}"])
def test_no_plugin_of_an_entry_runs_unasked(
    place: str, name: str, call: Call, marker: Path, make_row: MakeRow, tmp_path: Path
) -> None:
    entry = tmp_path / "entry"
    entry.mkdir()
    file = (tmp_path if place == "outside" else entry) / "law.py"
    file.write_text(plugin_text(marker))
    named = str(file) if name == "/{}" else name.format("law.py")
    entry_with(entry, make_row, named, file_sha256(file))
    for options in ((), ("--trust",)) if place == "outside" else ((),):
        code, _, err = call("validate", entry, "--jobs", "1", *options)
        assert code == 2
        words = "rows need this file, and" if place == "outside" else "law.py: they are Python"
        assert words in " ".join(err.split())
        assert not marker.exists()
    for command in ("report",):
        call(command, entry)
        assert not marker.exists()


def test_a_plugin_that_the_rows_were_not_made_with_never_runs(
    call: Call, marker: Path, make_row: MakeRow, tmp_path: Path
) -> None:
    entry = tmp_path / "entry"
    entry.mkdir()
    (entry / "law.py").write_text(plugin_text(marker))
    entry_with(entry, make_row, "law.py", "0" * 64)
    code, _, err = call("validate", entry, "--trust", "--jobs", "1")
    assert code == 1
    assert "law.py: differs from the file that the rows were made with" in " ".join(err.split())
    assert not marker.exists()


def test_what_lies_beside_a_trusted_plugin_does_not_run(
    marker: Path, make_row: MakeRow, tmp_path: Path
) -> None:
    """Python takes the compiled form of a source of the same size and time in its place."""
    entry = tmp_path / "entry"
    entry.mkdir()
    law = entry / "law_beside.py"
    law.write_text(plugin_text(marker, "beside"))
    os.utime(law, (10**9, 10**9))
    py_compile.compile(str(law))
    harmless = plugin_text(tmp_path / "harmless", "beside")
    law.write_text(harmless.ljust(law.stat().st_size - 1) + "\n")
    os.utime(law, (10**9, 10**9))
    entry_with(entry, make_row, "law_beside.py", file_sha256(law))
    with pytest.raises(SysgymError, match="cannot be replayed"):  # it is no agent at all
        list(replay([next(iter(_rows(entry)))], entry, trust=True))
    assert (tmp_path / "harmless").exists()
    assert not marker.exists()


def _rows(entry: Path) -> list[Row]:
    from sysgym.bench.results.rows import read_rows

    return read_rows(entry)


def test_a_worker_imports_what_was_hashed_or_nothing(marker: Path, tmp_path: Path) -> None:
    from sysgym.bench.plugins import load_plugin

    law = tmp_path / "law_changed.py"
    law.write_text(plugin_text(marker))
    with pytest.raises(ResultMismatch, match="expected a file with digest"):
        load_plugin(law, hashlib.sha256(b"before").hexdigest())
    assert not marker.exists()


@pytest.mark.parametrize("parameters", [{"trust": True}, {"checkpoint": "/x.zip"}, {"expected": "ppo"}])
def test_a_row_cannot_trust_itself(
    parameters: dict[str, Any], marker: Path, make_row: MakeRow, tmp_path: Path
) -> None:
    path = tmp_path / "final.zip"
    path.write_bytes(with_model_zip(marker))
    who = {"agent": "ppo", "transport": "paced", "learned": True, "checkpoint": "final.zip"}
    row = make_row("ppo", checkpoint_sha256=file_sha256(path), parameters=tuple(parameters.items()), **who)
    with pytest.raises(SysgymError, match=r"cannot be a parameter of an agent|has no parameter"):
        list(replay([row], tmp_path))
    assert not marker.exists()
    assert not Contender.from_json({**row.contender.to_json(), "trusted": True}).trusted


def test_no_training_goes_on_from_a_pickle(call: Call, marker: Path, tmp_path: Path) -> None:
    run = tmp_path / "run" / "checkpoints"
    run.mkdir(parents=True)
    newest = run / "step_000000096.zip"
    train = ("train", "ppo", SCENARIO, "--steps", "200", "--out", "run", "--resume")
    for make, words in (
        (with_model_zip, "not a checkpoint|a different .*: |training cannot resume from it"),
        (with_objects_as_learner, "a different .*: |cannot be restored"),
    ):
        newest.write_bytes(make(marker))
        code, _, err = call(*train)
        assert code == 2
        assert re.search(words, " ".join(err.split())), err
        assert not marker.exists()


def test_no_search_goes_on_from_a_pickle(call: Call, marker: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for data in (pickled(marker), object_arrays(marker, "tree"), b"", b"PK\x03\x04"):
        (run / "search.npz").write_bytes(data)
        code, _, err = call("train", "neural", "incast-32", "--steps", "9999", "--out", "run", "--resume")
        assert code == 2
        assert "search.npz: not the state of a search" in " ".join(err.split())
        assert not marker.exists()


def test_no_failure_of_fuzzing_is_unpickled(call: Call, marker: Path, tmp_path: Path) -> None:
    for data in (pickled(marker), object_arrays(marker, "case"), b"PK\x05\x06" + bytes(18)):
        (tmp_path / "failure.npz").write_bytes(data)
        code, _, err = call("fuzz", "--replay", "failure.npz")
        assert code == 2
        assert "not a failure that sysgym fuzz stored" in " ".join(err.split())
        assert not marker.exists()


def zeros(name: str, size: int) -> bytes:
    """Return an archive of zeros that is a thousandth of their size."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made, made.open(name, "w") as member:
        for _ in range(size // 2**20):
            member.write(bytes(2**20))
    return file.getvalue()


def header(shape: tuple[int, ...]) -> bytes:
    """Return an npz file with an array that says it has this shape."""
    text = repr({"descr": "<f4", "fortran_order": False, "shape": shape}).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("activations.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    return file.getvalue()


META = {"format": "sysgym-checkpoint-2"}


@pytest.mark.parametrize(
    ("change", "members", "words"),
    [
        ({"total_steps": "many"}, {}, "total_steps: Input should be a valid integer"),
        ({"seed": None}, {}, "seed"),
        ({"scenario": []}, {}, "scenario"),
        ({"scenario": {}}, {}, "scenario: has no name"),
        ({"observation_index": [1]}, {}, "observation_index"),
        ({"env_kwargs": {"backend": "linux"}}, {}, "no environment is made with backend"),
        ({"env_kwargs": {"history": "2"}}, {}, "no environment is made with history"),
        ({"action_scale": {"name": "log"}}, {}, "its actions are of a different kind"),
        (
            {"action_scale": {"name": "log", "low": 0.5, "high": 0.1}},
            {},
            "its actions are of a different kind",
        ),
        ({"hyper_parameters": {"net_arch": [10**6, 10**6]}}, {"learner_npz": learner()}, "cannot be built"),
        (
            {"hyper_parameters": {"net_arch": [1] * 10_000}},
            {"learner_npz": learner()},
            "more layers or critics",
        ),
        ({"hyper_parameters": {"net_arch": "wide"}}, {"learner_npz": learner()}, "cannot be built"),
        ({}, {"policy_npz": b"PK"}, "not a checkpoint"),
        ({}, {"policy_npz": header((2**40, 2**40))}, "does not fit its 0 bytes"),
        ({}, {"policy_npz": header((-1, 5))}, "not a checkpoint"),
    ],
)
def test_a_checkpoint_that_lies_is_refused_in_a_sentence(
    change: dict[str, Any], members: dict[str, bytes], words: str, call: Call, tmp_path: Path
) -> None:
    meta = {**asdict(shipped()), **META, **change}
    (tmp_path / "final.zip").write_bytes(archive(meta, **members))
    code, _, err = call("run", SCENARIO, "--agent", "ppo", "--checkpoint", "final.zip")
    assert code == 2
    assert "final.zip" in err
    assert words in " ".join(err.split()), err


def test_deep_nesting_is_refused_in_a_sentence(call: Call, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "final.zip", "w") as made:
        made.writestr("meta.json", '{"scenario": ' + "[" * 100_000 + "]" * 100_000 + "}")
    code, _, err = call("run", SCENARIO, "--agent", "ppo", "--checkpoint", "final.zip")
    assert code == 2
    assert "not a checkpoint of sysgym" in " ".join(err.split())


def test_an_archive_of_zeros_is_not_unpacked(call: Call, tmp_path: Path) -> None:
    size = LARGEST_UNPACKED_BYTES + 2**20
    bomb = zeros("activations.npy", size)
    assert len(bomb) < size / 500
    (tmp_path / "final.zip").write_bytes(archive({**asdict(shipped()), **META}, policy_npz=bomb))
    (tmp_path / "whole.zip").write_bytes(zeros("meta.json", size))
    for name in ("final.zip", "whole.zip"):
        code, _, err = call("run", SCENARIO, "--agent", "ppo", "--checkpoint", name)
        assert code == 2
        assert "would unpack to" in err


def test_a_network_of_another_size_is_refused(call: Call, tmp_path: Path) -> None:
    found = read_checkpoint(shipped_checkpoint("ppo", SCENARIO) or "")
    policy = found.policy
    assert isinstance(policy, Mlp)
    weights, biases = (
        (*policy.weights[:-1], policy.weights[-1][:1]),
        (*policy.biases[:-1], policy.biases[-1][:1]),
    )
    narrow = Mlp(weights, biases, policy.activations)
    write_checkpoint(tmp_path / "final.zip", found.meta, narrow, b"")
    code, _, err = call("run", SCENARIO, "--agent", "ppo", "--checkpoint", "final.zip")
    assert code == 2
    assert "inputs and 1 outputs; this environment has" in " ".join(err.split())


def test_a_tree_holds_no_objects(tmp_path: Path) -> None:
    tree = {"a": [1, 2.5, None, "x", np.arange(3)], "b": {"c": np.float32(1.5)}}
    back = read_tree(write_tree(tree))
    assert np.array_equal(back["a"].pop(), tree["a"].pop())  # type: ignore[attr-defined]
    assert back == {"a": [1, 2.5, None, "x"], "b": {"c": 1.5}}
    with pytest.raises(TypeError, match="cannot be stored in a file of arrays"):
        write_tree({"a": object()})
