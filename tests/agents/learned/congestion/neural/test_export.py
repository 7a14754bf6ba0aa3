"""The learned law as C and ONNX gives the outputs of the compiled simulator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sysgym.agents.learned.congestion.law import Law
from sysgym.agents.learned.congestion.neural.agent import FORM
from sysgym.agents.learned.congestion.neural.export import law_about, law_graph, law_properties
from sysgym.agents.learned.deploy.compiled import CompiledRunner, find_compiler
from sysgym.agents.learned.deploy.onnx_file import OnnxRunner, onnx_bytes
from sysgym.emulator.packets.transports.searched import neural


@pytest.fixture(scope="module")
def law() -> Law:
    drawn = np.random.default_rng(3).normal(scale=0.4, size=neural.N_PARAMETERS)
    return Law(tuple(drawn.tolist()), [{}], 10, 0, -0.1, {}, {"sysgym": "0"})


def _said(law: Law, seen: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Ask the simulator's own function, uncompiled."""
    monkeypatch.setattr(neural, "parameter", lambda event, index: law.parameters[index])
    state = np.zeros(32)
    state[neural.SEEN : neural.SEEN + neural.N_INPUTS] = seen
    neural.decide.py_func(SimpleNamespace(state=state), None)
    growth, pace = state[neural.GROWTH], state[neural.PACE]
    return [state[neural.CORRECTION], np.log2(growth) / 2.0, np.log2(pace / neural.FIRST_PACE)]


def test_it_says_what_the_simulator_is_told(law: Law, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    seen = np.random.default_rng(4).normal(size=(20, neural.N_INPUTS)).astype(np.float32)
    expected = np.array([_said(law, row, monkeypatch) for row in seen])
    graph = law_graph(law)
    assert graph(seen).action == pytest.approx(expected, abs=1e-5)
    path = tmp_path / "law.json"
    FORM.write(law, path)
    runner = OnnxRunner(onnx_bytes(graph, lambda: law_properties(path, law)))
    assert runner(seen).action == pytest.approx(expected, abs=1e-5)
    assert runner.properties["agent"] == "neural"
    if find_compiler() is not None:
        with CompiledRunner(graph) as compiled:
            assert compiled(seen).action == pytest.approx(expected, abs=1e-5)


def test_its_code_says_what_stands_where(law: Law) -> None:
    about = "\n".join(law_about(law))
    assert all(name in about for name in neural.INPUTS)
    assert f"{min(law.parameters[0], 0.0):.9g}" in about
