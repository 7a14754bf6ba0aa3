"""Examples: they run, and do what they say."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
EVALUATOR = EXAMPLES / "openevolve" / "evaluator.py"
FIRST = EXAMPLES / "openevolve" / "initial_program.py"


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


pytestmark = pytest.mark.slow


@pytest.fixture
def evaluator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("evaluator", EVALUATOR)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ppo_in_one_file_learns() -> None:
    """A tenth of its default steps: better than at the beginning, and the test episodes are played."""
    lines = run(str(EXAMPLES / "ppo_single_file.py"), "--steps", "6000", "--tests", "1").splitlines()
    returns = [float(line.rpartition(" ")[2]) for line in lines[:-1]]
    assert returns[-1] > returns[0]
    assert lines[-1].startswith("test episodes: learned ")


def test_torchrl_checks_and_plays_both_forms() -> None:
    pytest.importorskip("torchrl")
    said = run(str(EXAMPLES / "torchrl_rollout.py"))  # with lines of TorchRL's own between
    # Twenty decisions have two whole episodes of eight, in one environment and in each of three.
    assert re.findall(r"^(\w+): .* (\d+) episodes", said, re.MULTILINE) == [("single", "2"), ("vector", "6")]


@pytest.mark.skipif(
    "SYSGYM_RLLIB" not in os.environ, reason="installs RLlib, minutes: asked by SYSGYM_RLLIB=1"
)
def test_rllib_and_tune_run_in_an_environment_of_their_own() -> None:
    script = EXAMPLES.parent / "scripts" / "agents" / "run_rllib.sh"
    done = subprocess.run([str(script)], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout
    assert len(re.findall(r"^iteration ", done.stdout, re.MULTILINE)) == 6
    assert len(re.findall(r"^learning rate .*: return ", done.stdout, re.MULTILINE)) == 4


def test_the_first_program_has_a_score() -> None:
    scores = json.loads(run(str(EVALUATOR), str(FIRST)))
    assert set(scores) == {"combined_score", "dumbbell-10g", "incast-32", "fattree-k4-websearch"}
    # It halves where DCTCP reduces by the share of marks: shorter queues, hardly less goodput.
    assert -1.0 < scores["combined_score"] < 1.0


def test_memory_of_a_program_has_a_limit() -> None:
    """Within the limit of the evaluator's process, more than it cannot be had; ordinary amounts can."""
    pytest.importorskip("resource")
    code = f"""
import runpy
evaluator = runpy.run_path({str(EVALUATOR)!r}, run_name="evaluator")
evaluator["limit_memory"]()
bytearray(100_000_000)
try:
    bytearray(evaluator["MEMORY_BYTES"])
except MemoryError:
    print("refused")
"""
    assert run("-c", code) == "refused\n"


def test_programs_that_reach_for_more_or_never_end_have_the_worst_score(
    tmp_path: Path, evaluator: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, program = tmp_path / "owned", tmp_path / "program.py"
    law = FIRST.read_text()
    increase = "reno_increase(flow, event)"
    program.write_text(f"import os\nos.mkdir({str(target)!r})\n" + law.replace(increase, "os.mkdir('x')"))
    found = evaluator.evaluate(str(program))
    assert found["combined_score"] == evaluator.WORST["combined_score"]
    assert "LawError" in found["error"]
    assert not target.exists()
    monkeypatch.setattr(evaluator, "LIMIT_S", 5.0)
    endless = "while flow.cwnd > 0.0:\n            flow.state[1] += 1.0"
    program.write_text(law.replace(increase, endless))
    found = evaluator.evaluate(str(program))
    assert found["combined_score"] == evaluator.WORST["combined_score"]
    assert "more than 5 s" in found["error"]
