"""Agreement between two forms of a policy, and checks of exported policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.deploy.compiled import CompiledRunner, find_compiler
from sysgym.agents.learned.deploy.graph import Choice, Decided, PolicyGraph
from sysgym.agents.learned.deploy.onnx_file import OnnxRunner
from sysgym.agents.learned.deploy.quantize import int8_twin
from sysgym.scenarios.errors import SysgymError

ABSOLUTE, RELATIVE = 1e-5, 1e-4
"""Tolerance of a value: ABSOLUTE + RELATIVE * |reference|."""

N_OBSERVATIONS = 64


def difference(expected: Decided, got: Decided, chosen: bool) -> tuple[str | None, float, int]:
    """Compare the outputs of two forms of a policy.

    Args:
        expected: Outputs of the reference.
        got: Outputs to compare with the reference.
        chosen: Whether the action is the index of the largest value.

    Returns:
        The description of the error, or None; the largest difference as a multiple of the tolerance; and the
        number of actions that differ while their values are within the tolerance.
    """
    if got.values.shape != expected.values.shape or got.action.shape != expected.action.shape:
        return f"shape {got.values.shape} where the reference has {expected.values.shape}", np.inf, 0
    finite = np.isfinite(expected.values)
    if not np.array_equal(finite, np.isfinite(got.values)):
        return "other values are finite, or allowed, than in the reference", np.inf, 0
    allowed = ABSOLUTE + RELATIVE * np.abs(expected.values[finite].astype(np.float64))
    gaps = np.abs(got.values[finite].astype(np.float64) - expected.values[finite]) / allowed
    ratio = float(gaps.max(initial=0.0))
    if ratio > 1.0:
        return f"a value differs by {ratio:.3g} times what is allowed", ratio, 0
    if not chosen:
        return None, ratio, 0
    other = np.flatnonzero(got.action != expected.action)
    for row in other:
        scores = expected.values[row].astype(np.float64)
        margin = scores.max() - scores[got.action[row]]
        # Each of the two scores may differ by the tolerance.
        if margin > 2.0 * (ABSOLUTE + RELATIVE * np.abs(scores[np.isfinite(scores)]).max()):
            return (
                (
                    f"action {got.action[row]} where the reference takes {expected.action[row]}, "
                    f"{margin:.3g} above it"
                ),
                ratio,
                0,
            )
    return None, ratio, len(other)


def sample_inputs(graph: PolicyGraph, n: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return observations within the policy's bounds, and masks that allow about half of the actions."""
    rng = np.random.default_rng(seed)
    observations = rng.uniform(-1.0, 1.0, (n, graph.inputs.size))
    if graph.inputs.select is None and graph.inputs.low is not None and graph.inputs.high is not None:
        observations = rng.uniform(graph.inputs.low, graph.inputs.high, observations.shape)
    masks = None
    if graph.masked:
        masks = rng.random((n, graph.n_outputs)) < 0.5
        masks[:, 0] |= ~masks.any(axis=1)
    return observations.astype(np.float32), masks


def check_onnx(graph: PolicyGraph, data: bytes) -> None:
    """Check that an ONNX model agrees with its policy.

    Raises:
        MissingExtra: If the extra ``export`` is not installed.
        SysgymError: If the model does not agree with the policy.
    """
    observations, masks = sample_inputs(graph, N_OBSERVATIONS)
    _check(graph, graph(observations, masks), OnnxRunner(data)(observations, masks), "ONNX Runtime")


def check_header(graph: PolicyGraph, header: str, weights: str, name: str) -> bool:
    """Check that a C header agrees with its policy; 8-bit weights are compared with dequantised ones.

    Returns:
        Whether the check was made, which requires a compiler.

    Raises:
        SysgymError: If the header does not agree with the policy.
    """
    if find_compiler() is None:
        return False
    observations, masks = sample_inputs(graph, N_OBSERVATIONS)
    held = replace(graph, network=int8_twin(graph.network)) if weights == "int8" else graph
    with CompiledRunner(graph, header=header, name=name) as compiled:
        _check(graph, held(observations, masks), compiled(observations, masks), "the compiled header")
    return True


def _check(graph: PolicyGraph, expected: Decided, got: Decided, who: str) -> None:
    wrong, *_ = difference(expected, got, isinstance(graph.outputs, Choice))
    if wrong is not None:
        raise SysgymError(f"{who} does not give the same results as the policy: {wrong}; please report this")
