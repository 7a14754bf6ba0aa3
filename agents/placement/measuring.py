"""Which candidate to measure next, and when to stop: rules for ``JointPlacement-v0``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sysgym.agents.placement.base import Choice, FloatArray, JointView, Placer
from sysgym.agents.placement.beliefs import Belief, independent_belief, level_belief

REPEATS = (1, 2, 4, 8)
"""Numbers of measurements of one candidate that are weighed: one may be too noisy to change anything."""

_LEAST_FREE = 0.05
"""Share of a link that others leave, for the sake of divisions."""


class UcbAgent(Placer):
    """Optimism: measures the candidate that may be the best, each on its own.

    Every candidate has a Gaussian belief, with the nominal cost as its prior mean. The one with the lowest
    confidence bound is measured, until it is also the one with the lowest mean, or could not be better by
    more than a measurement costs; then the one with the lowest mean is committed to. Confidence bounds as in
    Lai and Robbins, Advances in Applied Mathematics 6, 1985, and Auer et al., Machine Learning 47, 2002, for
    a single choice at the end.

    Args:
        width: Of the confidence bounds, in standard deviations.
    """

    name = "ucb"

    def __init__(self, width: float = 1.0) -> None:
        """Set the width."""
        self.width = width

    def choose(self, view: JointView) -> Choice:
        """Measure the most promising, or commit."""
        belief = independent_belief(
            view.nominal + background_log_mean(view),
            prior_sd(view),
            view.count,
            expected_log(view),
            noise_variance(view),
        )
        low = belief.mean - self.width * belief.sd
        hopeful = int(low.argmin())
        gain = belief.mean[belief.best] - low[hopeful]
        over = view.left <= 0 or hopeful == belief.best or gain <= view.price
        return Choice(belief.best, commit=True) if over else Choice(hopeful, commit=False)


class BayesAgent(Placer):
    """Learns how far each level is from its nominal bandwidth, and measures what is worth its price.

    The belief is Gaussian in the levels' log errors, see :func:`~.beliefs.level_belief`; what is expected of
    a measurement is the knowledge gradient, also of some repetitions of it, less their price. Where nothing
    is worth its price, the candidate with the least expected log cost is committed to.

    Args:
        residual_sd: Standard deviation of what the shares of time do not explain of a candidate's log cost.
    """

    name = "bayes"

    def __init__(self, residual_sd: float = 0.05) -> None:
        """Set the deviation."""
        self.residual_sd = residual_sd

    def choose(self, view: JointView) -> Choice:
        """Measure what is worth most, or commit."""
        belief = self.belief(view)
        noise = noise_variance(view)
        best_value, chosen = 0.0, -1
        for repeats in REPEATS:
            if repeats > view.left:
                break
            value = (belief.expected_gain(noise, repeats) - repeats * view.price) / repeats
            if value.max() > best_value:
                best_value, chosen = float(value.max()), int(value.argmax())
        return Choice(belief.best, commit=True) if chosen < 0 else Choice(chosen, commit=False)

    def belief(self, view: JointView) -> Belief:
        """Return what is believed about the candidates."""
        n_levels = view.shares.shape[1]
        return level_belief(
            view.nominal,
            view.shares,
            np.full(n_levels, background_log_mean(view)),
            np.full(n_levels, view.error_sd),
            self.residual_sd,
            view.count,
            expected_log(view),
            noise_variance(view),
        )


def measured_in_turns(view: JointView, chosen: Iterable[int], repeats: int) -> Choice:
    """Return the next of some candidates to be measured in turns, or commit to the one with the best mean.

    Args:
        view: What is known.
        chosen: The candidates, in the order of their turns.
        repeats: Measurements of each, as far as the budget goes.
    """
    order = list(chosen)
    if view.left > 0:
        fewest = min(order, key=lambda candidate: int(view.count[candidate]))
        if view.count[fewest] < repeats:
            return Choice(fewest, commit=False)
    measured = [candidate for candidate in order if view.count[candidate]]
    if not measured:
        return Choice(order[0], commit=True)
    return Choice(min(measured, key=lambda candidate: float(view.mean[candidate])), commit=True)


def prior_sd(view: JointView) -> FloatArray:
    """Return how far the log cost of each candidate is from nominal, to first order, [K]."""
    return np.asarray(view.error_sd * np.sqrt((view.shares**2).sum(axis=1)))


def noise_variance(view: JointView) -> FloatArray:
    """Return the variance of one measured log cost of each candidate, to first order, [K].

    It is that of the noise, and of background traffic that differs from measurement to measurement.
    """
    background = view.background_sd / max(1.0 - view.background, _LEAST_FREE)
    return np.asarray(view.noise_sd**2 + background**2 * (view.shares**2).sum(axis=1))


def expected_log(view: JointView) -> FloatArray:
    """Return the log of the expected cost of each candidate, as measured; nothing where nothing was, [K].

    A candidate's cost is an expectation, and the mean of logs lies below its log.
    """
    return np.asarray(view.mean + 0.5 * noise_variance(view))


def background_log_mean(view: JointView) -> float:
    """Return the log of how much longer a level takes on average because of others' traffic."""
    free = max(1.0 - view.background, _LEAST_FREE)
    return -float(np.log(free)) + 0.5 * (view.background_sd / free) ** 2
