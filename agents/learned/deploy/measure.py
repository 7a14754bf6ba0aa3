"""Size, decision time and accuracy of a policy in each exported form."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sysgym.agents.learned.deploy.agreement import N_OBSERVATIONS, sample_inputs
from sysgym.agents.learned.deploy.c_header import WEIGHTS, table_bytes
from sysgym.agents.learned.deploy.compiled import CompiledRunner, find_compiler
from sysgym.agents.learned.deploy.graph import Decided, PolicyGraph, parts
from sysgym.agents.learned.deploy.onnx_file import OnnxRunner, onnx_model
from sysgym.scenarios.errors import MissingExtra

SECONDS_EACH = 0.3
"""Time spent on timing one form, s. The fastest of several rounds is used, because the machine is shared."""
ROUNDS = 5


@dataclass(frozen=True)
class Form:
    """Measurements of a policy in one form.

    Attributes:
        name: Name of the form.
        bytes: Size of the file, or of the tables in C.
        decision_us: Time of one decision in microseconds.
        largest_difference: Largest difference of any value from the reference in NumPy; NaN if all actions
            are forbidden.
        same_action: Share of observations with the same largest output.
    """

    name: str
    bytes: int
    decision_us: float
    largest_difference: float
    same_action: float


def measure(graph: PolicyGraph) -> Iterator[Form]:
    """Measure a policy in every form available on this machine: NumPy, ONNX Runtime, C.

    Args:
        graph: The policy.
    """
    observations, masks = sample_inputs(graph, N_OBSERVATIONS)
    reference = graph(observations, masks)

    def timed(decide: Callable[..., Decided]) -> float:
        """Return the time per decision, s, for one observation at a time, as in a controller."""
        each = [
            (observations[i : i + 1], None if masks is None else masks[i : i + 1])
            for i in range(len(observations))
        ]

        def once() -> float:
            began_s = time.perf_counter()
            for one, mask in each:
                decide(one, mask)
            return (time.perf_counter() - began_s) / len(each)

        return _fastest(once)

    def form(name: str, size: int, decision_s: float, found: Decided) -> Form:
        difference, same = compare(reference, found)
        return Form(name, size, decision_s * 1e6, difference, same)

    numpy_bytes = sum(len(mlp.to_bytes()) for mlp in parts(graph.network))
    yield form("NumPy", numpy_bytes, timed(graph), reference)
    try:
        data = onnx_model(graph).SerializeToString()
        runner = OnnxRunner(data)
        yield form("ONNX Runtime", len(data), timed(runner), runner(observations, masks))
    except MissingExtra:
        pass
    if find_compiler() is None:
        return
    for weights in WEIGHTS:
        with CompiledRunner(graph, weights) as compiled:
            first_s = max(compiled.decision_s(observations, masks, 20), 1e-8)
            repeats = max(int(SECONDS_EACH / ROUNDS / first_s / N_OBSERVATIONS), 1)
            decision_s = min(compiled.decision_s(observations, masks, repeats) for _ in range(ROUNDS))
            size = table_bytes(graph.network, weights)
            yield form(f"C, {weights}", size, decision_s, compiled(observations, masks))


def compare(reference: Decided, found: Decided) -> tuple[float, float]:
    """Return the largest difference of values, and the share of observations with the same largest output."""
    finite = np.isfinite(reference.values)
    gaps = np.abs(found.values[finite] - reference.values[finite])
    same = reference.values.argmax(axis=1) == found.values.argmax(axis=1)
    return float(gaps.max(initial=0.0)), float(same.mean())


def _fastest(once: Callable[[], float]) -> float:
    until_s = time.perf_counter() + SECONDS_EACH
    best = once()
    while time.perf_counter() < until_s:
        best = min(best, once())
    return best
