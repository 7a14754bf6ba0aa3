"""Measurement policies for ``JointPlacement-v0``: the candidate to measure next, and when to stop."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sysgym.agents.placement.base import Choice, FloatArray, JointView, Placer
from sysgym.agents.placement.beliefs import Belief, factor_belief, independent_belief

REPEATS = (1, 2, 4, 8)
"""Numbers of measurements of one candidate that are weighed: one may be too noisy to change anything."""

_LEAST_FREE = 0.05
"""Share of a link that others leave, for the sake of divisions."""


class UcbAgent(Placer):
    """Optimism: measures the candidate that may be the best of all, as long as that is worth its price.

    Every candidate has a Gaussian belief of its own, with the nominal cost as prior mean, and the one with
    the lowest confidence bound is measured: the rule of Lai and Robbins, Advances in Applied Mathematics 6,
    1985, in the Bayesian form of Kaufmann, Cappé and Garivier, AISTATS 2012. Where the measurement is not
    expected to gain its price, the candidate with the lowest mean is committed to.

    Args:
        width: Of the confidence bounds, in standard deviations.
        prior_sd: Prior standard deviation of a candidate's log cost beside the nominal one. What candidates
            have in common is no reason to measure, so it is less than the deviations of levels.
    """

    name = "ucb"

    def __init__(self, width: float = 2.0, prior_sd: float = 0.1) -> None:
        """Set the constants."""
        self.width, self.prior_sd = width, prior_sd

    def choose(self, view: JointView) -> Choice:
        """Measure the most promising candidate, or commit."""
        noise = noise_variance(view)
        belief = independent_belief(
            view.nominal + background_log_mean(view),
            np.full(view.n_candidates, self.prior_sd),
            view.count,
            expected_log(view),
            noise,
        )
        hopeful = int((belief.mean - self.width * belief.sd).argmin())
        if view.left <= 0 or belief.expected_gain(noise)[hopeful] <= view.price:
            return Choice(belief.best, commit=True)
        return Choice(hopeful, commit=False)


class BayesAgent(Placer):
    """Learns how far levels and collectives are from nominal, and measures what is worth its price.

    The belief is Gaussian in the log errors of levels and collectives, see :func:`~.beliefs.factor_belief`;
    what is expected of a measurement is the knowledge gradient, also of some repetitions of it, less their
    price. Where nothing is worth its price, the candidate with the least expected log cost is committed to.

    Args:
        residual_sd: Standard deviation of what the shares of time do not explain of a candidate's log cost.
    """

    name = "bayes"

    def __init__(self, residual_sd: float = 0.02) -> None:
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
        n_levels, n_collectives = view.level_shares.shape[1], view.collective_shares.shape[1]
        return factor_belief(
            view.nominal,
            [view.level_shares, view.collective_shares],
            np.repeat([background_log_mean(view), 0.0], [n_levels, n_collectives]),
            np.repeat([view.level_sd, view.collective_sd], [n_levels, n_collectives]),
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


def noise_variance(view: JointView) -> FloatArray:
    """Return the variance of one measured log cost of each candidate, to first order, [K].

    It is that of the noise, and of background traffic that differs from measurement to measurement.
    """
    background = view.background_sd / max(1.0 - view.background, _LEAST_FREE)
    return np.asarray(view.noise_sd**2 + background**2 * (view.level_shares**2).sum(axis=1))


def expected_log(view: JointView) -> FloatArray:
    """Return the log of the expected cost of each candidate, as measured; nothing where nothing was, [K].

    A candidate's cost is an expectation, and the mean of logs lies below its log.
    """
    return np.asarray(view.mean + 0.5 * noise_variance(view))


def background_log_mean(view: JointView) -> float:
    """Return the log of how much longer a level takes on average because of others' traffic."""
    free = max(1.0 - view.background, _LEAST_FREE)
    return -float(np.log(free)) + 0.5 * (view.background_sd / free) ** 2
