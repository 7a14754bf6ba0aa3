"""Evasive perturbations, which change the answer of the deployed policy but not that of the original.

A deployed twin (8-bit weights, a distilled student) acts almost like the original. An evasion is an
observation within measurement error of a real one for which the answer of the original stays the same and
that of the twin changes, so tests of the original do not detect it. The method follows Hao et al., A Tale of
Two Models: Constructing Evasive Attacks on Edge Models (DIVA), MLSys 2022: 20 steps along the signs of
gradients, each an eighth of the half width of the box. Their objective is ``p_orig(y) - c p_twin(y)``. Here
``c`` is the weight of the original: the objective is ``c p_orig(y) - p_twin(y)`` for discrete actions and
``|a_twin(x') - a_twin(x)| - c |a_orig(x') - a_orig(x)|``, with the largest component of the action, for
continuous ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.deploy.graph import PolicyGraph
from sysgym.agents.learned.trust.bounds import Bounds
from sysgym.agents.learned.trust.gradients import input_gradient
from sysgym.agents.learned.trust.policies import answers, differences, is_discrete
from sysgym.envs.action_scale import ActionScale

Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

ATTACKS = ("random", "pgd", "diva")
STEPS = 20
STEP_SHARE = 1.0 / 8.0
"""Size of a step as a share of the half width, as in DIVA: steps of 1/255 in a box of 8/255."""


@dataclass(frozen=True)
class Tolerance:
    """Thresholds for unchanged and shifted continuous actions; discrete actions are equal or different.

    Attributes:
        same: Largest share of the range by which an unchanged action may differ.
        shifted: Least share of the range by which a shifted action differs.
    """

    same: float = 0.01
    shifted: float = 0.02


class Found(NamedTuple):
    """Perturbed observations found by an attack, and their effects.

    Attributes:
        inputs: Shape (n, size).
        original: Change of the original's answer, shape (n,): shares of the range, or 0 and 1.
        twin: Change of the twin's answer, in the same form.
        evades: Whether the original's answer counts as unchanged and the twin's as shifted.
    """

    inputs: Array
    original: FloatArray
    twin: FloatArray
    evades: BoolArray


@dataclass(frozen=True, eq=False)
class Pair:
    """Policy and its deployed twin, with the bounds of perturbations.

    Attributes:
        original: The trained and tested policy.
        twin: The deployed policy.
        bounds: Bounds of measurement errors.
        tolerance: Thresholds for unchanged and shifted answers.
        c: Weight of the change of the original's answer in the objective.
    """

    original: PolicyGraph
    twin: PolicyGraph
    bounds: Bounds
    tolerance: Tolerance
    c: float = 1.0

    @property
    def discrete(self) -> bool:
        """Whether actions are discrete."""
        return is_discrete(self.original)

    def apart(self, inputs: Array) -> FloatArray:
        """Return the differences between the answers of original and twin, shape (n,)."""
        return differences(answers(self.original, inputs), answers(self.twin, inputs))

    def agree(self, inputs: Array) -> BoolArray:
        """Return the mask of observations for which both answers are equal within the tolerance."""
        return self.apart(inputs) <= (0.0 if self.discrete else self.tolerance.same)

    def box(self, inputs: Array) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return lower and upper bounds of perturbed observations, and the half widths of the box."""
        widths = self.bounds.half_widths(inputs)
        low, high = inputs - widths, inputs + widths
        space = self.original.inputs
        if space.low is not None:
            low = np.maximum(low, space.low)
        if space.high is not None:
            high = np.minimum(high, space.high)
        # The box of an observation outside its space includes at least the observation itself.
        return np.minimum(low, inputs), np.maximum(high, inputs), widths

    def noisy(self, inputs: Array, rng: np.random.Generator) -> Array:
        """Return observations with uniform noise within the box."""
        low, high, _ = self.box(inputs)
        drawn: Array = rng.uniform(low, high).astype(np.float32)
        return drawn

    def attack(self, name: str, inputs: Array, rng: np.random.Generator) -> Found:
        """Search for evasions around observations; every attack tries the same number of points.

        Args:
            name: ``random``: noise; ``pgd``: steps that change the twin's answer; ``diva``: steps that change
                the twin's answer and keep the original's.
            inputs: Shape (n, size).
            rng: Generator of noise and initial points.

        Returns:
            For each observation the first evasion, or else the point with the highest objective.
        """
        low, high, widths = self.box(inputs)
        before = answers(self.original, inputs), answers(self.twin, inputs)
        c = self.c if name == "diva" else 0.0
        point = self.noisy(inputs, rng)
        best = self._found(point, before)
        best_value = self._value(point, before, best, c)
        for _ in range(STEPS):
            if name == "random":
                point = self.noisy(inputs, rng)
            else:
                step = STEP_SHARE * widths * np.sign(self._gradient(point, before, c))
                point = np.clip(point + step, low, high).astype(np.float32)
            found = self._found(point, before)
            value = self._value(point, before, found, c)
            better = ~best.evades & (found.evades | (value > best_value))
            best = Found(
                np.where(better[:, None], found.inputs, best.inputs),
                np.where(better, found.original, best.original),
                np.where(better, found.twin, best.twin),
                best.evades | found.evades,
            )
            best_value = np.where(better, value, best_value)
        return best

    def _found(self, point: Array, before: tuple[FloatArray, FloatArray]) -> Found:
        original = differences(answers(self.original, point), before[0])
        twin = differences(answers(self.twin, point), before[1])
        if self.discrete:
            return Found(point, original, twin, (original == 0.0) & (twin > 0.0))
        evades = (original <= self.tolerance.same) & (twin > self.tolerance.shifted)
        return Found(point, original, twin, evades)

    def _value(
        self, point: Array, before: tuple[FloatArray, FloatArray], found: Found, c: float
    ) -> FloatArray:
        """Return the objective of the attack, which is maximised, shape (n,)."""
        if not self.discrete:
            return found.twin - c * found.original
        kept, lost = (
            np.take_along_axis(_probabilities(graph, point), chosen[:, None].astype(np.int64), axis=1)[:, 0]
            for graph, chosen in zip((self.original, self.twin), before, strict=True)
        )
        value: FloatArray = c * kept - lost
        return value

    def _gradient(self, point: Array, before: tuple[FloatArray, FloatArray], c: float) -> FloatArray:
        parts = [(self.twin, before[1], -1.0 if self.discrete else 1.0)]
        if c != 0.0:
            parts.append((self.original, before[0], c if self.discrete else -c))
        total = np.zeros(point.shape)
        for graph, answer, sign in parts:
            weights = _of_choice(graph, point, answer) if self.discrete else _of_numbers(graph, point, answer)
            total += sign * input_gradient(graph.network, graph.inputs(point), weights)
        return total


def _probabilities(graph: PolicyGraph, point: Array) -> FloatArray:
    scores = graph.network(graph.inputs(point)).astype(np.float64)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def _of_choice(graph: PolicyGraph, point: Array, chosen: FloatArray) -> FloatArray:
    """Return the derivatives of the probability of a choice with respect to the scores."""
    probabilities = _probabilities(graph, point)
    own = np.zeros_like(probabilities)
    np.put_along_axis(own, chosen[:, None].astype(np.int64), 1.0, axis=1)
    of_own = (own * probabilities).sum(axis=1, keepdims=True)
    weights: FloatArray = of_own * (own - probabilities)
    return weights


def _of_numbers(graph: PolicyGraph, point: Array, answer: FloatArray) -> FloatArray:
    """Return the derivatives of the largest change of an action with respect to the network's outputs.

    Outputs are clipped to [-1, 1]. Outside of this range, the derivative at the bound is used (straight
    through), so that an attack can return to the range.
    """
    output = graph.network(graph.inputs(point)).astype(np.float64)
    moved = answers(graph, point) - answer
    largest = np.abs(moved).argmax(axis=1)[:, None]
    weights = np.zeros_like(output)
    slope = _slope(graph, np.take_along_axis(output, largest, axis=1))
    np.put_along_axis(weights, largest, np.sign(np.take_along_axis(moved, largest, axis=1)) * slope, axis=1)
    return weights


def _slope(graph: PolicyGraph, output: FloatArray) -> FloatArray:
    """Return the derivative of the action, as a share of its range, with respect to an output."""
    scale = graph.outputs
    assert isinstance(scale, ActionScale)
    if scale.name == "linear":
        return np.full_like(output, 0.5)
    ratio = scale.high / scale.low
    share = 0.5 * (np.clip(output, -1.0, 1.0) + 1.0)
    slope: FloatArray = 0.5 * np.log(ratio) * ratio**share / (ratio - 1.0)
    return slope
