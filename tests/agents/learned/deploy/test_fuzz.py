"""Differential testing finds no error in the package, and finds deliberate errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sysgym.agents.learned.deploy.agreement import difference
from sysgym.agents.learned.deploy.compiled import find_compiler
from sysgym.agents.learned.deploy.fuzz import (
    C_INT8,
    NUMPY,
    ONNX_RUNTIME,
    C,
    Decide,
    Runner,
    Tally,
    check,
    fuzz,
    replay,
)
from sysgym.agents.learned.deploy.fuzz_cases import KINDS, Case, make
from sysgym.agents.learned.deploy.graph import Decided, PolicyGraph
from sysgym.agents.learned.policy import Mlp
from sysgym.scenarios.errors import SysgymError


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_onnx_runtime_agree_with_torch(kind: str) -> None:
    tally, failures = fuzz(8, 11, runners=(NUMPY, ONNX_RUNTIME), kinds=(kind,))
    assert failures == []
    assert set(tally.cases) == {kind}
    assert tally.cases.total() + tally.discarded >= 8
    assert all(0.0 < ratio < 1.0 for ratio in tally.largest.values()), "different programs, compared at all"


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler here")
def test_c_agrees_with_torch() -> None:
    tally, failures = fuzz(3, 2, runners=(C, C_INT8))
    assert failures == []
    assert tally.cases.total() >= 3


@contextmanager
def _tanh_is_clipped(graph: PolicyGraph) -> Iterator[Decide]:
    """What a cheap approximation does, right near zero only."""

    def decide(observations: Any, masks: Any = None) -> Decided:
        if not isinstance(graph.network, Mlp) or "tanh" not in graph.network.activations:
            return graph(observations, masks)
        values = graph.inputs(observations)
        for weight, bias, activation in zip(
            graph.network.weights, graph.network.biases, graph.network.activations, strict=True
        ):
            values = values @ weight.T + bias
            if activation == "tanh":
                values = np.clip(values, -1.0, 1.0)
            elif activation == "relu":
                values = np.maximum(values, np.float32(0.0))
        return graph.decide(values, masks)

    yield decide


@contextmanager
def _masks_are_forgotten(graph: PolicyGraph) -> Iterator[Decide]:
    yield lambda observations, masks=None: graph(observations)


def test_a_broken_runner_is_found_made_small_and_replayed(tmp_path: Path) -> None:
    broken = Runner("broken", _tanh_is_clipped)
    _, failures = fuzz(60, 0, runners=(NUMPY, broken), folder=tmp_path)
    (failure,) = failures
    assert failure.runner == "broken"
    assert "times what is allowed" in failure.reason
    case = failure.case
    # One input, one output, nothing beside the tanh that is wrong.
    assert (case.n_inputs, case.n_outputs, len(case.places)) == (1, 1, 1)
    assert len(case.hidden) <= 1
    assert case.n_ignored == 0
    assert not case.normalised

    arrays, model = failure.files
    assert (arrays.name, model.name) == ("broken-0.npz", "broken-0.onnx")
    with np.load(arrays) as file:
        assert np.abs(file["expected"] - file["got"]).max() > 1e-5
        assert len(file["observations"]) == 1
    onnx.checker.check_model(onnx.load(model), full_check=True)
    assert replay(arrays, (NUMPY, ONNX_RUNTIME)) == (case, {})
    assert list(replay(arrays, (broken,))[1]) == ["broken"]
    fuzz(60, 0, runners=(broken,), folder=tmp_path)
    assert (tmp_path / "broken-1.npz").exists(), "an earlier failure is not written over"


def test_two_broken_runners_are_two_failures() -> None:
    runners = (Runner("one", _tanh_is_clipped), Runner("other", _masks_are_forgotten))
    _, failures = fuzz(80, 3, runners=runners)
    reasons = {failure.runner: failure.reason for failure in failures}
    assert set(reasons) == {"one", "other"}
    assert "finite, or allowed" in reasons["other"]


def test_another_action_counts_only_above_the_margin() -> None:
    scores = np.array([[0.5, 0.5 + 2e-5, -np.inf]], np.float32)
    expected = Decided(np.array([1]), scores)
    assert difference(expected, Decided(np.array([0]), scores), True) == (None, 0.0, 1)
    reason, *_ = difference(expected, Decided(np.array([2]), scores), True)
    assert reason is not None
    assert "inf above it" in reason
    far = Decided(np.array([1]), np.array([[0.4, 0.5]], np.float32))
    reason, *_ = difference(far, Decided(np.array([0]), far.values), True)
    assert reason == "action 0 where the reference takes 1, 0.1 above it"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[1.0, 2.0, 3.0]], "shape"),
        ([[1.0, np.nan]], "finite, or allowed"),
        ([[1.0, 2.001]], "times what is allowed"),
        ([[1.0, 2.0001]], None),
    ],
)
def test_values_are_compared(values: Any, words: str | None) -> None:
    expected = Decided(*(np.array([[1.0, 2.0]], np.float32),) * 2)
    got = np.array(values, np.float32)
    reason, *_ = difference(expected, Decided(got, got), False)
    assert (reason is None) == (words is None)
    assert words is None or words in str(reason)


def test_a_case_is_the_same_case_again_and_not_a_number_says_nothing() -> None:
    case = Case("ppo", 3, 2, (4,), "relu", 1, 0, "none", 1, True, "log", -3, 4.0, ("inside", "corner"), 5)
    assert Case.from_json(case.to_json()) == case
    one, two = make(case), make(Case.from_json(case.to_json()))
    assert one.reference is not None
    assert two.reference is not None
    assert np.array_equal(one.reference.values, two.reference.values)
    tally = Tally(largest={"numpy": 0.0})
    with np.errstate(all="ignore"):
        assert not list(check(replace(case, gain=1e38, hidden=(4, 4, 4)), (NUMPY,), tally))
    assert (tally.discarded, tally.cases.total()) == (1, 0)


def test_a_file_that_is_no_failure_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    np.savez(file, case=json.dumps({"kind": "ppo"}))
    with pytest.raises(SysgymError, match="not a failure that sysgym fuzz stored"):
        replay(file)
    with pytest.raises(SysgymError, match="not a failure"):
        replay(tmp_path / "absent.npz")


@pytest.mark.parametrize(
    "change",
    [
        {"n_inputs": 10**9},
        {"n_inputs": True},
        {"hidden": [10**6]},
        {"hidden": [1] * 1000},
        {"kind": "mlp"},
        {"kind": []},
        {"places": ["nowhere"]},
        {"places": []},
        {"gain": 1e300},
        {"more": 1},
    ],
)
def test_a_case_that_is_never_drawn_is_refused(change: dict[str, Any]) -> None:
    case = Case(
        kind="ppo",
        n_inputs=2,
        n_outputs=1,
        hidden=(3,),
        activation="tanh",
        row_size=1,
        context_size=0,
        bounds="unit",
        n_ignored=0,
        normalised=False,
        scale="log",
        low_exponent=-2,
        gain=1.0,
        places=("inside",),
        seed=1,
    )
    assert Case.from_json(case.to_json()) == case
    with pytest.raises(ValueError, match=r"expected|fields"):
        Case.from_json(json.dumps({**asdict(case), **change}))
