"""Measurement policies for ``JointPlacement-v0``: choice of the next candidate, and stopping."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.placement.base import Choice, FloatArray, JointView, Placer
from sysgym.agents.placement.beliefs import Belief, factor_belief, independent_belief

REPEATS = (1, 2, 4, 8)
"""Numbers of repeated measurements considered: a single one may be too noisy to change the choice."""

TOLD_RESIDUAL_SD = 0.02
"""Standard deviation of the error of the model of ``bayes``, if the other deviations are disclosed."""

LARGEST_SD = 10.0
"""Upper bound of arguments that are log standard deviations, so that their exponentials are finite."""

_LEAST_FREE = 0.05
"""Lower bound of the share of a link left by background traffic, to avoid division by 0."""


class UcbAgent(Placer):
    """Upper confidence bounds: measures the most promising candidate while the gain exceeds the price.

    Every candidate has a separate Gaussian belief. Its prior mean is the nominal cost plus the mean error
    of the candidates measured so far, because most of the error is common to all. The one with the lowest
    confidence bound is measured: the rule of Lai and Robbins, Advances in Applied Mathematics 6,
    1985, in the Bayesian form of Kaufmann, Cappé and Garivier, AISTATS 2012. If the expected gain of the
    measurement is below its price, the agent commits to the candidate with the lowest mean.

    The default constants are those of ``scripts/placement/tune_joint.py``.

    Args:
        width: Width of the confidence bounds, in standard deviations.
        prior_sd: Prior standard deviation of a candidate's log cost around the nominal one. It excludes
            errors common to all candidates, so it is smaller than the deviations of levels.
        noise_sd: Log standard deviation of a measurement, if not disclosed.

    Raises:
        SysgymError: If a value is negative, or a deviation exceeds :data:`LARGEST_SD`.
    """

    name = "ucb"

    def __init__(self, width: float = 2.0, prior_sd: float = 0.2, noise_sd: float = 0.2) -> None:
        """Set the constants."""
        self.width = in_range(self.name, "width", width, least=0.0)
        self.prior_sd = _deviation(self.name, "prior_sd", prior_sd)
        self.noise_sd = _deviation(self.name, "noise_sd", noise_sd)

    def choose(self, view: JointView) -> Choice:
        """Measure the most promising candidate, or commit."""
        if not view.is_told:
            view = replace(view, noise_sd=self.noise_sd)
        noise = noise_variance(view)
        belief = independent_belief(
            view.nominal + self._common_error(view),
            np.full(view.n_candidates, self.prior_sd),
            view.count,
            expected_log(view),
            noise,
        )
        hopeful = int((belief.mean - self.width * belief.sd).argmin())
        if view.left <= 0 or belief.expected_gain(noise)[hopeful] <= view.price:
            return Choice(belief.best, commit=True)
        return Choice(hopeful, commit=False)

    def _common_error(self, view: JointView) -> float:
        """Return the mean log error of measured candidates; without any, that of background traffic."""
        seen = view.count > 0
        if not seen.any():
            return background_log_mean(view)
        return float((expected_log(view) - view.nominal)[seen].mean())


class BayesAgent(Placer):
    """Knowledge gradient with a belief about the errors of levels and collectives.

    The belief is Gaussian in the log errors of levels and collectives, see :func:`~.beliefs.factor_belief`.
    The value of a measurement, or of several repetitions, is the knowledge gradient minus the price. If no
    value is positive, the agent commits to the candidate with the lowest expected log cost.

    Deviations that the observation does not disclose are constants, estimated on episodes of the train split
    by ``scripts/placement/tune_joint.py``.

    Args:
        residual_sd: Standard deviation of a candidate's log cost that is not explained by shares of time,
            if nothing is disclosed; otherwise it is :data:`TOLD_RESIDUAL_SD`.
        level_sd: Log standard deviation of a level's true bandwidth, if not disclosed.
        collective_sd: Log standard deviation of a collective's efficiency, if not disclosed.
        noise_sd: Log standard deviation of a measurement, if not disclosed.

    Raises:
        SysgymError: If a deviation is negative, or above :data:`LARGEST_SD`.
    """

    name = "bayes"

    def __init__(
        self,
        residual_sd: float = 0.1,
        level_sd: float = 0.6,
        collective_sd: float = 0.1,
        noise_sd: float = 0.1,
    ) -> None:
        """Set the deviations."""
        self.residual_sd = _deviation(self.name, "residual_sd", residual_sd)
        self.level_sd = _deviation(self.name, "level_sd", level_sd)
        self.collective_sd = _deviation(self.name, "collective_sd", collective_sd)
        self.noise_sd = _deviation(self.name, "noise_sd", noise_sd)

    def choose(self, view: JointView) -> Choice:
        """Take the most valuable measurement, or commit."""
        belief = self.belief(view)
        noise = noise_variance(self._complete(view))
        best_value, chosen = 0.0, -1
        for repeats in REPEATS:
            if repeats > view.left:
                break
            value = (belief.expected_gain(noise, repeats) - repeats * view.price) / repeats
            if value.max() > best_value:
                best_value, chosen = float(value.max()), int(value.argmax())
        return Choice(belief.best, commit=True) if chosen < 0 else Choice(chosen, commit=False)

    def belief(self, view: JointView) -> Belief:
        """Return the belief about the candidates."""
        residual_sd = TOLD_RESIDUAL_SD if view.is_told else self.residual_sd
        view = self._complete(view)
        n_levels, n_collectives = view.level_shares.shape[1], view.collective_shares.shape[1]
        return factor_belief(
            view.nominal,
            [view.level_shares, view.collective_shares],
            np.repeat([background_log_mean(view), 0.0], [n_levels, n_collectives]),
            np.repeat([view.level_sd, view.collective_sd], [n_levels, n_collectives]),
            residual_sd,
            view.count,
            expected_log(view),
            noise_variance(view),
        )

    def _complete(self, view: JointView) -> JointView:
        """Return the observation, with the agent's own deviations if it discloses none."""
        if view.is_told:
            return view
        return replace(view, noise_sd=self.noise_sd, level_sd=self.level_sd, collective_sd=self.collective_sd)


def measured_in_turns(view: JointView, chosen: Iterable[int], repeats: int) -> Choice:
    """Return the next measurement of candidates in turns, or commit to the one with the best mean.

    Args:
        view: The observation.
        chosen: Candidates in the order of their turns.
        repeats: Number of measurements of each, as far as the budget allows.
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

    It includes the noise, and the variation of background traffic between measurements.
    """
    background = view.background_sd / max(1.0 - view.background, _LEAST_FREE)
    return np.asarray(view.noise_sd**2 + background**2 * (view.level_shares**2).sum(axis=1))


def expected_log(view: JointView) -> FloatArray:
    """Return the log of the expected cost of each measured candidate, [K].

    The cost of a candidate is an expectation, and the mean of logarithms is less than its logarithm.
    """
    return np.asarray(view.mean + 0.5 * noise_variance(view))


def background_log_mean(view: JointView) -> float:
    """Return the log of the mean slowdown of a level by background traffic."""
    free = max(1.0 - view.background, _LEAST_FREE)
    return -float(np.log(free)) + 0.5 * (view.background_sd / free) ** 2


def _deviation(agent: str, name: str, value: float) -> float:
    """Return an argument that is a log standard deviation."""
    return in_range(agent, name, value, least=0.0, most=LARGEST_SD)
