"""Observations: the next layers of a job, and the windows of background work."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.bursts.layers import Layers, gpu_counts
from sysgym.emulator.bursts.multiplexing import MOST_PIECES, Gaps, Multiplexing
from sysgym.envs.observations import Column, Observer, clipped, limits, table_space
from sysgym.scenarios.schema.bursts import BurstScenario

MOST = 20.0
"""Limit of logarithms."""

AHEAD = 2
"""Layers of which the times are shown."""


def plan_columns(n_counts: int) -> dict[str, Column]:
    """Return the columns of the observation of a plan.

    Args:
        n_counts: Number of GPU counts that can be chosen.
    """
    columns = {}
    for ahead, words in enumerate(("the next layer", "the layer after it")[:AHEAD]):
        for exponent in range(n_counts):
            columns[f"time_{ahead}_on_{2**exponent}"] = Column(
                f"profiled time of {words} on {2**exponent} GPUs", "log10 of ms", -MOST, MOST
            )
        columns[f"input_{ahead}"] = Column(f"input of {words}, whole batch", "log10 of MB", -MOST, MOST)
        columns[f"parameters_{ahead}"] = Column(f"gradients of {words}", "log10 of MB", -MOST, MOST)
    for exponent in range(n_counts):
        columns[f"last_on_{2**exponent}"] = Column(
            f"the last layer has {2**exponent} GPUs", "0 or 1", 0.0, 1.0
        )
    return columns | {
        "layers_left": Column("layers without a number of GPUs", "share of all", 0.0, 1.0),
        "work_left": Column("time of these layers on one GPU", "share of that of all layers", 0.0, 1.0),
        "fixed_left": Column("time of these layers on all GPUs over that on one", "log10", -MOST, MOST),
        "elapsed": Column("time of the previous layers", "share of that of all on one GPU", 0.0, MOST),
        "used": Column("GPU time of the previous layers", "share of that of all on one GPU", 0.0, MOST),
        "idle_value": Column("value of an idle GPU's time", "share", 0.0, 1.0),
        "bandwidth": Column("bandwidth of a GPU", "log10 of Gbit/s", -MOST, MOST),
    }


class PlanState(NamedTuple):
    """State of a plan in progress, as far as an agent may know it.

    Attributes:
        scenario: The drawn scenario.
        profile: The profiled layers.
        exponents: Exponents of the GPU counts so far.
        elapsed_s: Time of these layers.
        gpu_s: GPU time of these layers.
    """

    scenario: BurstScenario
    profile: Layers
    exponents: list[int]
    elapsed_s: float
    gpu_s: float


class PlanNumbers:
    """The default observation of ``sysgym/BurstPlan-v0``, a vector of numbers."""

    def space(self, setting: BurstScenario) -> gym.spaces.Box:
        """Return the space."""
        return table_space(plan_columns(len(gpu_counts(setting.job.gpus))))

    def observe(self, state: PlanState) -> NDArray[np.float32]:
        """Return the observation of a state."""
        profile, done = state.profile, len(state.exponents)
        n_layers, n_counts = profile.compute_s.shape
        row: list[float] = []
        for ahead in range(AHEAD):
            layer = done + ahead
            if layer >= n_layers:
                row += [0.0] * (n_counts + 2)
                continue
            inputs = profile.activation_bytes[layer - 1] if layer else 0.0
            row += np.log10(1e3 * profile.compute_s[layer]).tolist()
            row += [np.log10(max(inputs, 1.0) / 1e6), np.log10(profile.parameter_bytes[layer] / 1e6)]
        last = [0.0] * n_counts
        if done:
            last[state.exponents[-1]] = 1.0
        left = profile.compute_s[done:]
        whole_s = profile.one_gpu_s
        row += last
        row += [
            1.0 - done / n_layers,
            float(left[:, 0].sum()) / whole_s,
            float(np.log10(left[:, -1].sum() / left[:, 0].sum())) if len(left) else 0.0,
            state.elapsed_s / whole_s,
            state.gpu_s / whole_s,
            state.scenario.background.idle_value,
            float(np.log10(state.scenario.network.bandwidth_bps / 1e9)),
        ]
        return np.asarray(np.clip(row, -MOST, MOST), np.float32)


MUX_COLUMNS: dict[str, Column] = {
    "slowdown": Column("slowdown of the foreground, measured in the last window", "ratio less 1", 0.0, MOST),
    "slowdown_mean": Column(
        "moving mean of the slowdown, weight 0.9 for the past", "ratio less 1", 0.0, MOST
    ),
    "background": Column(
        "background work of the last window, by the measured slowdown", "share of all GPUs", 0.0, 1.0
    ),
    "idle": Column("idle share of the last window, by the measured slowdown", "share", 0.0, 1.0),
    "idle_alone": Column("idle share without background work", "share", 0.0, 1.0),
    "gap": Column("mean length of a gap", "log10 of ms", -MOST, MOST),
    "iteration": Column("iteration without background work", "log10 of ms", -MOST, MOST),
    "piece": Column("duration of a piece at the largest batch", "log10 of ms", -MOST, MOST),
    "batch": Column("background batch of the last window", "log2 of 1 + batch", 0.0, 5.0),
    "pieces": Column("pieces outstanding in the last window", "", 0.0, float(MOST_PIECES)),
    "windows_left": Column("windows left", "share", 0.0, 1.0),
}
"""Columns of the observation of ``sysgym/BurstMux-v0``."""


class MuxState(NamedTuple):
    """State of an episode of windows, as far as an agent may know it: no true slowdown, and no interference.

    Attributes:
        measured_slowdown: Measured slowdown of the foreground in the last window; 1 before the first.
        slowdown_mean: Moving mean of the same.
        gaps: Idle time of the foreground's plan.
        piece_s: Duration of a piece of background work at the largest batch.
        background: Background work of the last window, as a share of all GPUs, as it follows from the
            measured slowdown.
        idle_share: Idle share of the last window, likewise.
        batch: Background batch of the last window; 0 before the first.
        pieces: Pieces outstanding in the last window.
        windows_left: Share of the windows that are left.
    """

    measured_slowdown: float
    slowdown_mean: float
    gaps: Gaps
    piece_s: float
    background: float
    idle_share: float
    batch: int
    pieces: int
    windows_left: float


def mux_state_of(episode: Multiplexing, slowdown_mean: float) -> MuxState:
    """Return what an agent may know of an episode, with its moving mean of the measured slowdown."""
    background, idle_share = episode.measured_shares
    last = episode.windows[-1] if episode.windows else None
    return MuxState(
        episode.measured_slowdown,
        slowdown_mean,
        episode.gaps,
        episode.scenario.background.piece_s,
        background,
        idle_share,
        0 if last is None else last.batch,
        0 if last is None else last.pieces,
        1.0 - len(episode.windows) / len(episode.interference),
    )


class MuxNumbers:
    """The default observation of ``sysgym/BurstMux-v0``, a vector of numbers."""

    def space(self, setting: BurstScenario) -> gym.spaces.Box:
        """Return the space."""
        return table_space(MUX_COLUMNS)

    def observe(self, state: MuxState) -> NDArray[np.float32]:
        """Return the observation of a state."""
        gaps, lengths_s = state.gaps, state.gaps.lengths_s
        row = [
            max(state.measured_slowdown - 1.0, 0.0),
            max(state.slowdown_mean - 1.0, 0.0),
            state.background,
            state.idle_share,
            1.0 - gaps.busy_share,
            float(np.log10(1e3 * lengths_s.mean())) if len(lengths_s) else -MOST,
            float(np.log10(1e3 * gaps.iteration_s)),
            float(np.log10(1e3 * state.piece_s)),
            float(np.log2(1 + state.batch)),
            float(state.pieces),
            state.windows_left,
        ]
        return clipped(row, _MUX_LIMITS)


_MUX_LIMITS = limits(MUX_COLUMNS)
PLAN_OBSERVERS: dict[str, Observer[BurstScenario, PlanState]] = {"default": PlanNumbers()}
MUX_OBSERVERS: dict[str, Observer[BurstScenario, MuxState]] = {"default": MuxNumbers()}
