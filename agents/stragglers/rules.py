"""Rules without learning: lower baselines, and rules of cluster schedulers."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.protocol import episode_rng
from sysgym.agents.stragglers.base import (
    BoolArray,
    FloatArray,
    Predictor,
    threshold_of,
)
from sysgym.agents.stragglers.censored import fit_censored_normal
from sysgym.envs.stragglers.view import JobView

STREAM = 0x57A6
"""Random stream of the random agent."""

QUANTILE_POINTS = (np.arange(64) + 0.5) / 64
"""Probabilities at which Mantri's distributions are evaluated."""


class NoneAgent(Predictor):
    """No flags and no actions, as a baseline."""

    name = "none"

    def predict(self, view: JobView) -> BoolArray:
        """Flag nothing."""
        return np.zeros_like(view.running)


class FlagAllAgent(Predictor):
    """Flags every task, with recall 1 and a precision equal to the share of stragglers."""

    name = "flag_all"

    def predict(self, view: JobView) -> BoolArray:
        """Flag everything."""
        return np.ones_like(view.running)


class RandomRateAgent(Predictor):
    """Flags every task with the same probability, as early as possible; seeded by the episode.

    Args:
        rate: The probability.
        action: See :class:`Predictor`.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "random_rate"

    def __init__(self, rate: float = 0.1, action: str = "relaunch") -> None:
        """Set the rate."""
        super().__init__(action)
        self.rate = in_range(self.name, "rate", rate, least=0.0, most=1.0)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Draw once for every slot whether its task will be flagged."""
        super().begin(env)
        self._drawn = episode_rng(env, STREAM).random(env.action_space.shape) < self.rate

    def predict(self, view: JobView) -> BoolArray:
        """Return the draws."""
        return self._drawn[: len(view.running)]


class SparkAgent(Predictor):
    """Spark's speculation: tasks that run longer than a multiple of the finished tasks' median.

    The defaults are those of Spark 3's ``spark.speculation.quantile`` and ``spark.speculation.multiplier``.

    Args:
        quantile: Share of tasks that must have finished before any is flagged.
        multiplier: Multiple of the median latency of finished tasks.
        action: See :class:`Predictor`; Spark itself copies.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "spark"

    def __init__(self, quantile: float = 0.75, multiplier: float = 1.5, action: str = "relaunch") -> None:
        """Set the constants."""
        super().__init__(action)
        self.quantile = in_range(self.name, "quantile", quantile, least=0.0, most=1.0)
        self.multiplier = in_range(self.name, "multiplier", multiplier, least=0.0)

    def predict(self, view: JobView) -> BoolArray:
        """Compare the time run so far with the median."""
        if view.share_finished < self.quantile:
            return np.zeros_like(view.running)
        limit = self.multiplier * float(np.median(view.latency[view.finished]))
        return np.asarray(view.running & (view.elapsed > limit))


class LateAgent(Predictor):
    """LATE without progress reports: flags the slow tasks that have run longest, up to a cap.

    Zaharia et al., Improving MapReduce Performance in Heterogeneous Environments, OSDI 2008, ranks slow tasks
    by their estimated time to end, from the progress that they report. Here tasks report no progress, and the
    rate of a running task is only known to be below the inverse of its running time. A task is slow if that
    bound is in the lowest quarter of all rates, and ranking by time to end is ranking by running time. At
    most a tenth of the tasks may be flagged and still run.

    Args:
        cap: Largest share of tasks that are flagged and still running.
        slow_quantile: Quantile of rates below which tasks are slow.
        action: See :class:`Predictor`; LATE itself copies.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "late"

    def __init__(self, cap: float = 0.1, slow_quantile: float = 0.25, action: str = "relaunch") -> None:
        """Set the constants."""
        super().__init__(action)
        self.cap = in_range(self.name, "cap", cap, least=0.0, most=1.0)
        self.slow_quantile = in_range(self.name, "slow_quantile", slow_quantile, least=0.0, most=1.0)

    def predict(self, view: JobView) -> BoolArray:
        """Rank running tasks and take the first up to the cap."""
        chosen = np.zeros_like(view.running)
        time_run = np.where(view.finished, view.latency, view.elapsed)
        started = (view.running | view.finished) & (time_run > 0.0)
        limit = np.quantile(time_run[started], 1.0 - self.slow_quantile)
        candidates = np.flatnonzero(view.running & ~view.flagged & (time_run > limit))
        # Tasks acted on before count as running until they have finished.
        in_flight = int((view.flagged & ~view.finished).sum())
        room = max(math.ceil(self.cap * view.n_tasks) - in_flight, 0)
        chosen[candidates[np.argsort(-time_run[candidates], kind="stable")[:room]]] = True
        return chosen


class ClockAgent(Predictor):
    """Flags tasks that have run for nearly the threshold, most of which will cross it.

    It needs no counters and predicts nothing early, but its final F1 is hard to beat. A method that does not
    beat it over time has learned nothing beyond the elapsed time.

    Args:
        share: Share of the threshold after which a task is flagged.
        action: See :class:`Predictor`.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "clock"

    def __init__(self, share: float = 0.95, action: str = "relaunch") -> None:
        """Set the share."""
        super().__init__(action)
        self.share = in_range(self.name, "share", share, least=0.0)

    def predict(self, view: JobView) -> BoolArray:
        """Flag tasks that have run for long enough."""
        return np.asarray(view.running & (view.elapsed >= self.share * threshold_of(view)))


class MantriAgent(Predictor):
    """Mantri's rule: a new attempt if it probably takes less than half of the remaining time.

    Ananthanarayanan et al., Reining in the Outliers in Map-Reduce Clusters using Mantri, OSDI 2010: act if
    ``P(t_rem > 2 t_new)`` exceeds a limit. Both times are estimated from this job alone: latencies are taken
    as log-normal, fitted by maximum likelihood to finished tasks and to running ones as censored values;
    ``t_new`` is a new draw, ``t_rem`` the remainder of a draw given the elapsed time.

    Args:
        limit: Probability above which it acts.
        factor: Smallest ratio of the remaining time to a new attempt.
        action: See :class:`Predictor`.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "mantri"

    def __init__(self, limit: float = 0.25, factor: float = 2.0, action: str = "relaunch") -> None:
        """Set the constants."""
        super().__init__(action)
        self.limit = in_range(self.name, "limit", limit, least=0.0, most=1.0)
        self.factor = in_range(self.name, "factor", factor, above=0.0)

    def predict(self, view: JobView) -> BoolArray:
        """Compare the remaining time with a new attempt."""
        chosen = np.zeros_like(view.running)
        started = np.flatnonzero(view.running & (view.elapsed > 0.0))
        if len(started) == 0 or view.finished.sum() < 2:
            return chosen
        log_mean, log_sd = fit_log_normal(view.latency[view.finished], view.elapsed[started])
        chosen[started] = (
            probability_of_saving(view.elapsed[started], log_mean, log_sd, self.factor) > self.limit
        )
        return chosen


def fit_log_normal(finished: FloatArray, running: FloatArray) -> tuple[float, float]:
    """Return mean and standard deviation of log latency, by maximum likelihood.

    Args:
        finished: Latencies that are known, shape (n_finished,), positive.
        running: Running times of other tasks, shape (n_running,), positive.
    """
    fit = fit_censored_normal(
        np.zeros((len(finished), 0)),
        np.log(finished),
        np.zeros((len(running), 0)),
        np.log(running),
        ridge=0.0,
    )
    return float(fit.intercept), fit.sd


def probability_of_saving(elapsed: FloatArray, log_mean: float, log_sd: float, factor: float) -> FloatArray:
    """Return ``P(t_rem > factor * t_new)`` of log-normal latencies, shape of ``elapsed``.

    Args:
        elapsed: Elapsed time of the attempts, shape (n,), positive.
        log_mean: Mean of log latency.
        log_sd: Standard deviation of log latency, positive.
        factor: Required ratio of the remaining time to a new attempt.
    """
    from scipy.special import ndtr, ndtri

    # Quantiles of latencies that exceed `elapsed`, computed from the upper tail, where rounding is smallest.
    beyond = ndtr(-(np.log(elapsed) - log_mean) / log_sd)
    whole = np.exp(log_mean - log_sd * ndtri(np.outer(np.maximum(beyond, 1e-300), QUANTILE_POINTS)))
    rest = np.maximum(whole - elapsed[:, None], 1e-12)
    faster = ndtr((np.log(rest / factor) - log_mean) / log_sd)
    return np.asarray(faster.mean(axis=1), dtype=np.float64)


class DollyAgent(Predictor):
    """Dolly: clones every task of a small job as soon as it starts; acts only in mitigation.

    Ananthanarayanan et al., Effective Straggler Mitigation: Attack of the Clones, NSDI 2013: most jobs are
    small, so cloning all of their tasks costs a cluster little.

    Args:
        tasks_max: Largest number of tasks of a job that is cloned; at Facebook 82 % of jobs have fewer than
            ten.
        action: See :class:`Predictor`; clones are copies.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "dolly"
    waits = False

    def __init__(self, tasks_max: int = 10, action: str = "copy") -> None:
        """Set the size."""
        super().__init__(action)
        self.tasks_max = in_range(self.name, "tasks_max", tasks_max, least=0)

    def predict(self, view: JobView) -> BoolArray:
        """Choose every task of a small job."""
        return np.full_like(view.running, self.mitigates and len(view.running) <= self.tasks_max)
