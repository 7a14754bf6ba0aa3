"""Background training in the gaps of a plan: how much it does, and how much it slows the foreground.

Model, all of it assumed: background work comes in pieces, of which each GPU keeps some outstanding at low
priority.

- On GPUs that the foreground uses, each outstanding piece slows it by ``interference``, which drifts. All
  layers take longer by this share, and background work has the time by which they do.
- A GPU that a layer does not use is idle for the layer's time, slowed like the layer. With P pieces
  outstanding it starts a piece ``launch_s / P`` after the one before, so that pieces fill
  ``piece / (piece + launch / P)`` of a gap.
- A piece runs whenever a gap ends, and is finished first. The foreground waits for the last of the GPUs that
  it gets back: of n residual times, uniform in a piece, the largest is ``piece * n / (n + 1)`` and the sum
  ``piece * n / 2``. A GPU whose piece ends earlier is idle until the last one's, and so are those that the
  foreground has; GPUs that it does not need yet go on with pieces, as in the rest of their gap.
- A piece of batch b takes ``piece_s * b / 16``, but no less than half of ``piece_s``, and trains
  ``b / (b + small_batch)`` of what a piece of unlimited batch would in the same time.

So the time of every GPU is that of the foreground without background work, of pieces, or idle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sysgym.emulator.bursts.layers import FloatArray, Layers, draw_layers, step_times_s
from sysgym.emulator.bursts.planning import IntArray, PlanCost, plan_cost, published_plan
from sysgym.scenarios.schema.bursts import Background, BurstScenario

BATCHES = (0, 1, 2, 4, 8, 16)
"""Batches of background work; 0: none."""

MOST_PIECES = 4
ACTIONS = [(0, 0), *((batch, pieces) for batch in BATCHES[1:] for pieces in range(1, MOST_PIECES + 1))]
"""Batch and outstanding pieces of every action."""

LEAST_SIZE = 0.5
"""Least duration of a piece over that of the largest batch: a GPU does small batches no faster."""

EXCESS_WEIGHT = 10.0
"""Weight of a slowdown beyond the limit."""

ENDS = np.array([0.0, 1.0])
"""Interferences whose outcomes give those of any other."""

STREAM = 0xB60
"""Random stream of the interference and of the measurements."""


class Gaps(NamedTuple):
    """Idle time of a plan.

    Attributes:
        iteration_s: Time of an iteration.
        gpus: GPUs.
        busy_share: Share of the time of all GPUs that the foreground uses.
        lengths_s: Idle spans of each GPU, as long as it has nothing to do, shape (n_gaps,).
        returns: GPUs that the foreground gets back at the same moment, by event, shape (n_returns,).
        staying: GPUs that stay in their gap at that moment, by event.
    """

    iteration_s: float
    gpus: int
    busy_share: float
    lengths_s: FloatArray
    returns: FloatArray
    staying: FloatArray


class Window(NamedTuple):
    """A decision interval.

    Attributes:
        batch: Batch of the background work.
        pieces: Pieces outstanding on each GPU.
        slowdown: Time of an iteration over that without background work.
        background: Background work over what all GPUs would do with nothing else, at the largest batch.
        idle_share: Share of the time of all GPUs in which they do nothing.
    """

    batch: int
    pieces: int
    slowdown: float
    background: float
    idle_share: float


def gaps_of(plan: IntArray, cost: PlanCost, layers: Layers) -> Gaps:
    """Return the idle time of a plan on all GPUs, which repeats in every iteration."""
    used = layers.gpus[plan]
    most = int(layers.gpus[-1])
    lengths: list[float] = []
    returns: dict[int, int] = {}
    for gpu in range(most):
        idle = used <= gpu
        if not idle.any():
            continue
        start = int(np.argmin(idle)) if not idle.all() else 0
        order = np.roll(np.arange(len(plan)), -start)
        span = 0.0
        for layer in order:
            if idle[layer]:
                span += float(cost.layer_s[layer])
            elif span > 0.0:
                lengths.append(span)
                returns[int(layer)] = returns.get(int(layer), 0) + 1
                span = 0.0
        if span > 0.0:
            lengths.append(span)
            if not idle.all():
                returns[start] = returns.get(start, 0) + 1
    return Gaps(
        cost.iteration_s,
        most,
        cost.gpu_s / (most * cost.iteration_s),
        np.array(lengths),
        np.array(list(returns.values()), np.float64),
        most - used[list(returns)],
    )


class Outcomes(NamedTuple):
    """What each action would lead to, by the interference.

    Attributes:
        slowdown: Time of an iteration over that without background work, shape (n, n_actions).
        background: Background work over what all GPUs would do with nothing else, at the largest batch.
        idle_share: Share of the time of all GPUs in which they do nothing.
    """

    slowdown: FloatArray
    background: FloatArray
    idle_share: FloatArray

    def worth(self, most_slowdown: float) -> FloatArray:
        """Return the throughput of foreground and background, less ten times the excess of the slowdown."""
        excess = np.maximum(self.slowdown - most_slowdown, 0.0)
        return np.asarray(1.0 / self.slowdown + self.background - EXCESS_WEIGHT * excess)


def outcomes(gaps: Gaps, background: Background, interference: FloatArray) -> Outcomes:
    """Return what each of :data:`ACTIONS` leads to.

    Args:
        gaps: Idle time of the foreground's plan.
        background: Constants of the background work.
        interference: Slowdown by an outstanding piece, shape (n,).
    """
    batch, pieces = np.array(ACTIONS, np.float64).T
    works = (batch > 0.0) & (pieces > 0.0)
    size = np.where(works, np.maximum(batch / BATCHES[-1], LEAST_SIZE), 0.0)
    piece_s = background.piece_s * size
    efficiency = np.where(works, batch / np.maximum(batch + background.small_batch, 1e-9), 0.0)
    best = BATCHES[-1] / (BATCHES[-1] + background.small_batch)
    spacing_s = piece_s + background.launch_s / np.maximum(pieces, 1.0)
    filled = np.where(works, piece_s / np.maximum(spacing_s, 1e-12), 0.0)
    slowed = interference[:, None] * pieces * size
    last = gaps.returns / (gaps.returns + 1.0)
    slowdown = 1.0 + slowed + piece_s * last.sum() / gaps.iteration_s
    used_s = gaps.busy_share * gaps.gpus * gaps.iteration_s
    gaps_s = gaps.lengths_s.sum() * (1.0 + slowed) + piece_s * (gaps.staying * last).sum()
    waiting_s = piece_s * ((gaps.gpus - gaps.staying) * last - gaps.returns / 2.0).sum()
    done_s = slowed * used_s + filled * gaps_s + piece_s * gaps.returns.sum() / 2.0
    idle_s = (1.0 - filled) * gaps_s + waiting_s
    all_s = gaps.gpus * gaps.iteration_s * slowdown
    return Outcomes(slowdown, done_s / all_s * efficiency / best, idle_s / all_s)


def interference_of(ends: Outcomes, action: int, slowdown: float) -> float:
    """Return the interference with which an action leads to a slowdown; no less than 0.

    Args:
        ends: Outcomes at the interferences :data:`ENDS`, between which the slowdown is linear.
        action: Index of :data:`ACTIONS`; not 0, which has the same slowdown under any interference.
        slowdown: Time of an iteration over that without background work.
    """
    without, with_one = ends.slowdown[:, action]
    return max(float((slowdown - without) / (with_one - without)), 0.0)


class Multiplexing:
    """An episode: a foreground plan, and windows of background work.

    Args:
        scenario: The drawn scenario.
        episode_seed: Seed of the job, the interference and the measurements.

    Attributes:
        scenario: The drawn scenario.
        gaps: Idle time of the plan.
        interference: Interference by window, the future among it, shape (n_windows,).
        outcomes: What each action would lead to in each window.
        worth: What that is worth, shape (n_windows, n_actions).
        windows: What happened so far.
    """

    def __init__(self, scenario: BurstScenario, episode_seed: int) -> None:
        self.scenario = scenario
        layers, profile = draw_layers(scenario, episode_seed)
        steps_s = step_times_s(layers, scenario)
        plan = published_plan(profile, step_times_s(profile, scenario), scenario.background.plan_limit)
        self.gaps = gaps_of(plan, plan_cost(plan, layers, steps_s), layers)
        background, control = scenario.background, scenario.control
        rng = np.random.default_rng([STREAM, episode_seed])
        keeps = float(np.exp(-control.interval_s / background.drift_s))
        shocks = rng.normal(0.0, 1.0, control.episode_steps)
        logs = _drift(shocks, keeps)
        self.interference: FloatArray = background.interference * np.exp(background.drift_log_sd * logs)
        self._noise = np.exp(rng.normal(0.0, background.noise_log_sd, control.episode_steps))
        self.outcomes = outcomes(self.gaps, background, self.interference)
        self.worth: FloatArray = self.outcomes.worth(background.most_slowdown)
        self.windows: list[Window] = []
        self._ends = outcomes(self.gaps, background, ENDS)

    @property
    def over(self) -> bool:
        """Whether no window is left."""
        return len(self.windows) == len(self.interference)

    @property
    def measured_slowdown(self) -> float:
        """Slowdown of the last window as it was measured; 1 before the first."""
        if not self.windows:
            return 1.0
        return float(self.windows[-1].slowdown * self._noise[len(self.windows) - 1])

    @property
    def measured_shares(self) -> tuple[float, float]:
        """Background work and idle share of the last window, as they follow from the measured slowdown."""
        last = self.windows[-1] if self.windows else None
        if last is None or last.batch == 0:
            return 0.0, 1.0 - self.gaps.busy_share
        action = ACTIONS.index((last.batch, last.pieces))
        interference = interference_of(self._ends, action, self.measured_slowdown)
        # Times are linear in the interference, so shares are means weighted by the time of an iteration.
        weights = np.array([1.0 - interference, interference]) * self._ends.slowdown[:, action]
        background = weights @ self._ends.background[:, action] / weights.sum()
        return float(background), float(weights @ self._ends.idle_share[:, action] / weights.sum())

    def step(self, action: int) -> Window:
        """Run a window with an action, an index of :data:`ACTIONS`; return what happened."""
        now = len(self.windows)
        happened = Window(
            *ACTIONS[action],
            float(self.outcomes.slowdown[now, action]),
            float(self.outcomes.background[now, action]),
            float(self.outcomes.idle_share[now, action]),
        )
        self.windows.append(happened)
        return happened


def _drift(shocks: FloatArray, keeps: float) -> FloatArray:
    """Return an Ornstein-Uhlenbeck process of unit variance that begins at the first shock."""
    values = np.empty_like(shocks)
    values[0] = shocks[0]
    fresh = (1.0 - keeps**2) ** 0.5
    for index in range(1, len(shocks)):
        values[index] = keeps * values[index - 1] + fresh * shocks[index]
    return values
