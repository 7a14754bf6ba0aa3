"""``sysgym export``, ``fuzz`` and ``study distillation``: working files, or clear errors."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.deploy import measure
from sysgym.agents.learned.deploy.agreement import sample_inputs
from sysgym.agents.learned.deploy.compiled import CompiledRunner, find_compiler
from sysgym.agents.learned.learning import graph_of

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trained(tiny: Path, call: Call, tmp_path: Path) -> Path:
    """A checkpoint on tiny, of a fraction of a second."""
    small = ("-p", "n_steps=16", "-p", "batch_size=16", "-p", "n_epochs=1", "--n-envs", "2")
    code, _, err = call("train", "ppo", tiny, "--out", tmp_path / "run", "--steps", "32", *small)
    assert code == 0, err
    return tmp_path / "run" / "final.zip"


def test_an_exported_policy_plays(trained: Path, tiny: Path, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "out" / "policy.onnx"
    code, out, err = call("export", trained, "--out", file)
    assert code == 0, err
    assert f"{file}  ONNX, {file.stat().st_size} bytes" in out
    (hint,) = [line for line in out.splitlines() if line.startswith("sysgym run")]
    assert hint == f"sysgym run tiny --agent onnx --checkpoint {file}"
    returns = []
    for who in (
        ("--agent", "onnx", "--checkpoint", file),
        ("--agent", f"onnx@{file}"),
        ("-c", f"ppo@{trained}"),
    ):
        code, out, err = call("run", tiny, *who, "--json")
        assert code == 0, err
        returns.append(json.loads(out)["return"])
    assert returns[0] == returns[1] == pytest.approx(returns[2], rel=1e-4)


def test_a_policy_of_the_package_is_exported_by_its_name(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "a.onnx"
    code, out, err = call("export", "ppo@iroko-dumbbell-10m", "--out", file)
    assert code == 0, err
    assert f"{file}  ONNX, {file.stat().st_size} bytes" in out


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler here")
def test_a_header_is_what_the_compiler_takes(
    trained: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "SECONDS_EACH", 0.02)
    file = tmp_path / "policy.h"
    code, out, err = call("export", trained, "--out", file, "--bytes-limit", "9000", "--measure")
    assert code == 0, err
    assert "C, int8" in out.splitlines()[0], "float32 would not fit"
    assert [line.split()[0] for line in out.splitlines()[3:]] == ["NumPy", "ONNX", "C,", "C,"]
    graph = graph_of(read_checkpoint(trained))
    observations, _ = sample_inputs(graph, 8)
    with CompiledRunner(graph, header=file.read_text()) as compiled:
        assert compiled(observations).action == pytest.approx(graph(observations).action, rel=0.05)
    assert "queue_delay[west->east]" in file.read_text()


COMPLAINTS = {
    (): "nothing to do; give --out FILE, --measure, or both",
    ("--out", "policy.txt"): "policy.txt: expected a name that ends in .onnx or .h",
    ("--out", "policy.onnx", "--weights", "int8"): "--weights and --bytes-limit apply to --format c only",
    ("--out", "policy.h", "--weights", "int8"): "the limit is 4096: raise --bytes-limit, or distill",
    ("--out", "policy.h", "--name", "a b"): '"a b" is not a valid name of a C function',
}


def test_what_cannot_be_exported_is_said(trained: Path, call: Call, tmp_path: Path) -> None:
    for options, complaint in COMPLAINTS.items():
        code, out, err = call("export", trained, *options)
        assert (code, out) == (2, "")
        assert complaint in err
    assert not (tmp_path / "policy.h").exists()


def test_students_are_compared_and_a_second_call_finds_them_done(
    trained: Path, call: Call, tmp_path: Path
) -> None:
    folder = tmp_path / "students"
    arguments = ["--hidden", "8", "--larger", "12", "--seeds", "2", "--episodes", "2", "--rounds", "2"]
    arguments += ["--updates", "10", "--steps", "32", "--n-envs", "2"]
    code, out, err = call("study", "distillation", trained, "--out", folder, *arguments)
    assert code == 0, err
    assert "2 seeds; at least 5 are recommended" in out
    rows = {line.split()[0]: line.split() for line in out.splitlines()[2:7] if line}
    assert [rows[arm][3] for arm in ("student", "alone", "larger")] == ["32", "32", "32"]
    assert rows["student"][1] == rows["alone"][1] != rows["larger"][1]
    assert "training alone" in out
    table = (folder / "distillation.md").read_text()
    assert "| student |" in table
    done = {path: path.stat().st_mtime_ns for path in folder.glob("*/finished.json")}
    assert len(done) == 7

    # One is lost, and another was cut off: what is there is not done again.
    (folder / "alone-seed1" / "finished.json").unlink()
    (folder / "student-seed0" / "final.zip").write_bytes(b"half")
    again = call("study", "distillation", trained, "--out", folder, *arguments)
    assert again[0] == 0
    assert (folder / "distillation.md").read_text() == table, "the same again"
    changed = {path for path in done if path.stat().st_mtime_ns != done[path]}
    assert {path.parent.name for path in changed} == {"alone-seed1", "student-seed0"}

    with (folder / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = call("study", "distillation", trained, "--out", folder, *arguments)
        assert code == 2
        assert "another process distils into this folder" in " ".join(err.split())
    code, _, err = call("study", "distillation", trained, "--out", folder, *arguments, "--noise", "0.3")
    assert code == 2
    assert "has a study with another teacher" in err
    code, out, err = call(
        "run", tmp_path / "tiny.toml", "-c", f"ppo@{folder}/student-seed0/final.zip", "--json"
    )
    assert code == 0, err


def test_widths_are_numbers(trained: Path, call: Call) -> None:
    code, _, err = call("study", "distillation", trained, "--out", "x", "--hidden", "16;16")
    assert code == 2
    assert "--hidden: expected widths as in 16,16, got '16;16'" in err


def test_runners_agree_and_a_stored_failure_is_run_again(call: Call, tmp_path: Path) -> None:
    from sysgym.agents.learned.deploy.fuzz import Runner, fuzz
    from sysgym.agents.learned.deploy.graph import Decided, PolicyGraph

    code, out, err = call("fuzz", "--examples", "5", "--seed", "1", "--without-c")
    assert code == 0, err
    rows = [line.split()[:2] for line in out.splitlines()[1:3]]
    assert rows == [["numpy", "agrees"], ["onnxruntime", "agrees"]]
    assert not (tmp_path / "fuzz-failures").exists()

    class Zero:
        def __init__(self, graph: PolicyGraph) -> None:
            self.graph = graph

        def __enter__(self) -> Callable[..., Decided]:
            return lambda observations, masks=None: self.graph.decide(
                np.zeros((len(observations), self.graph.n_outputs)), masks
            )

        def __exit__(self, *_: object) -> None:
            pass

    _, (failure,) = fuzz(5, 0, runners=[Runner("zero", Zero)], folder=tmp_path)
    code, out, err = call("fuzz", "--replay", failure.files[0])
    assert (code, err) == (0, "")
    assert out.startswith("Case(kind=")
    assert out.endswith("all agree now\n")
