"""The agents' flows of one or many worlds, a row each: a decision of all of them is one compiled call.

A decision has stages: the action takes effect, half an interval passes, the other half passes, and what
happened is worked out. Where Python is needed on the way (packets need more memory, a link fails, packets are
recorded), a row stops at its stage, Python moves that world on, and the call is made again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.compiling import compiled
from sysgym.emulator.packets.layout import world_at
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.single_flows import (
    multiply_window,
    read_flow,
    read_flows,
    set_pace,
    source_digest,
)
from sysgym.emulator.packets.stepping import cap_rate, reaches
from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.flow_intervals import (
    BASE_RTT_S,
    LEAST_RATE_BPS,
    LINE_RATE_BPS,
    N_VALUES,
    RATE_BPS,
    RTT_S,
    counters,
)
from sysgym.envs.congestion.flow_presets import (
    FlowReward,
    Preset,
    aurora_rate_bps,
    log_rate_bps,
    orca_factor,
)
from sysgym.envs.congestion.flow_signals import AURORA, MOST_TERMS, conclude
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import Control
from sysgym.scenarios.schema.flow import Flow

FloatArray = NDArray[np.float64]

FLOW_ID = 0
"""The agent's flow is the first of its world."""

WINDOW, HOST_CAP, FLOW_PACE, NOTHING = 0, 1, 2, 3
"""What an action sets: the flow's window, its host's cap, the flow's own pace, or nothing that it could."""

ACTS, BEGINS, FIRST_HALF, SECOND_HALF, DONE, REFUSED = 0, 1, 2, 3, 4, 5
"""Stages of a decision; REFUSED: there is nothing that the rate could be set of."""

FIRST_INTERVAL_RTTS = 1.5
SHORTEST_INTERVAL_S = 1e-6

SENDER = np.dtype(
    [
        ("world", np.int64),  # address of its record
        ("host", np.int64),
        ("sets", np.int64),
        ("has_law", np.int64),  # 1: a law sets the rate too, and the line rate is no cap
        ("stage", np.int64),
        ("middle_ns", np.int64),
        ("end_ns", np.int64),
        ("rate_bps", np.float64),
        ("least_bps", np.float64),
        ("line_rate_bps", np.float64),
        ("action_step", np.float64),  # Aurora's
        ("interval_s", np.float64),  # of the decision that is under way, or comes next
        ("longest_s", np.float64),
        ("decision_rtts", np.float64),  # 0: every interval is the longest
        ("now_s", np.float64),  # at the end of the newest interval
        ("episode_seed", np.int64),
        ("steps", np.int64),  # decisions so far
        ("episode_steps", np.int64),
    ],
    align=True,
)
"""One row: how the flow is steered, and how far its decision is."""

_aurora_rate_bps = njit(forceinline=True)(aurora_rate_bps)
_log_rate_bps = njit(forceinline=True)(log_rate_bps)
_orca_factor = njit(forceinline=True)(orca_factor)


class Senders:
    """The agents' flows of several worlds of one kind.

    Attributes:
        rows: What :data:`SENDER` says, shape (n,).
        values: The newest interval of each, shape (n, N_VALUES), see ``flow_intervals``.
        features: Observations, shape (n, length).
        terms: Of the reward, shape (n, MOST_TERMS).
        actions: What each decides next, shape (n,), within the action space.
        before: Counters at the end of the newest interval, shape (n, N_COUNTERS).

    Args:
        n: Number of worlds.
        preset: What is observed, and what actions mean.
        history: Intervals in an observation.
        reward: What is paid.
        weights: Of its terms, in their order.
    """

    def __init__(self, n: int, preset: Preset, history: int, reward: FlowReward, weights: FloatArray) -> None:
        self.rows: NDArray[Any] = np.zeros(n, SENDER)
        self.values: FloatArray = np.zeros((n, N_VALUES))
        self.features: NDArray[np.float32] = np.tile(preset.empty(history), (n, 1))
        self.terms: FloatArray = np.zeros((n, MOST_TERMS))
        self.before, self._middle, self._after = counters(n), counters(n), counters(n)
        self._preset, self._reward, self._weights = preset, reward, weights
        self._empty = preset.empty(history)
        self._networks: dict[int, PacketNetwork] = {}
        self.actions: FloatArray = np.zeros(n)

    def begin(self, row: int, network: PacketNetwork, settings: dict[str, float], values: FloatArray) -> None:
        """Take up an episode.

        Args:
            row: Which one.
            network: Its world, which holds until the row begins again.
            settings: Fields of the row; the others are worked out.
            values: What is constant, shape (N_VALUES,).
        """
        self._networks[row] = network
        self.rows["world"][row] = network.address
        for name, value in settings.items():
            self.rows[name][row] = value
        self.values[row] = values
        self.features[row] = self._empty

    def set_rate(self, row: int, rate_bps: float) -> None:
        """Set a rate without letting time pass."""
        _set_rates(self.rows[row : row + 1], np.array([rate_bps]), self.values[row : row + 1])

    def pass_first_interval(self, row: int) -> None:
        """Let an interval pass in which nobody decides anything."""
        only = np.array([FLOW_ID])
        read_flows(self._networks[row].address, only, self.before[row : row + 1])
        self.rows["stage"][row] = BEGINS
        self.pass_intervals(row, row + 1)
        self.rows["steps"][row] = 0

    def decide(self, row: int, action: float) -> None:
        """Let one row's action take effect and its interval pass; raises as :meth:`pass_intervals`."""
        self.actions[row] = action
        self.rows["stage"][row] = ACTS
        self.pass_intervals(row, row + 1)

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Go on where the original stood, with the addresses of the copied networks."""
        self.__dict__.update(attributes)
        for row, network in self._networks.items():
            self.rows["world"][row] = network.address

    def pass_intervals(self, first: int, behind_last: int) -> None:
        """Take the decisions of rows ``first`` and on to their end; rows that are done are left alone.

        Raises:
            SysgymError: If a flow that nothing can slow down was asked to send at less than its line rate.
        """
        while True:
            n_left = _pass_intervals(
                self.rows,
                first,
                behind_last,
                self.actions,
                self.before,
                self._middle,
                self._after,
                self.values,
                self._preset.code,
                self._preset.window,
                self.features,
                len(self._preset.features),
                self._reward.code,
                self._weights,
                self.terms,
            )
            if n_left == 0:
                return
            for row in range(first, behind_last):
                self._move_by_hand(row)

    def _move_by_hand(self, row: int) -> None:
        """Python's part, where the compiled one could not go on."""
        stage, network = int(self.rows["stage"][row]), self._networks[row]
        if stage == REFUSED:
            law = network.flow_transports[FLOW_ID].name
            raise no_pace(network.scenario.name, int(self.rows["host"][row]), law)
        if stage == DONE:
            return
        until = "middle_ns" if stage == FIRST_HALF else "end_ns"
        network.advance_to(int(self.rows[until][row]))


def plan_next_interval(sender: Any, rtt_s: float) -> None:
    """As long as always, or so many round trips of the interval that has ended, if it had any."""
    if sender.decision_rtts == 0.0:
        sender.interval_s = sender.longest_s
    elif rtt_s > 0.0:
        sender.interval_s = min(max(sender.decision_rtts * rtt_s, SHORTEST_INTERVAL_S), sender.longest_s)


def take_rate(sender: Any, rate_bps: float, values: Any) -> float:
    """Note a rate that is between the least and the line rate; return what the network is told.

    That is no limit at all where a law sets the rate too and nothing holds it back.
    """
    rate_bps = min(max(rate_bps, sender.least_bps), sender.line_rate_bps)
    sender.rate_bps = rate_bps
    if not sender.has_law:
        values[RATE_BPS] = rate_bps
    elif rate_bps == sender.line_rate_bps:
        return math.inf
    return rate_bps


def no_pace(scenario: str, host: int, law: str) -> SysgymError:
    """Return the error for a flow that nothing can slow down."""
    return SysgymError(
        f'{scenario}: the agent\'s flow shares host {host} with others, and "{law}" has no pace that could be'
        " capped: use the highest action"
    )


def what_it_sets(preset: Preset, transport: Transport, *, alone: bool) -> int:
    """Return what an action changes.

    A flow that is alone on its host is capped there, which is the cheapest way to space packets.
    """
    if preset.window:
        return WINDOW
    return HOST_CAP if alone else FLOW_PACE if transport.rate_driven else NOTHING


def sender_settings(
    flow: Flow, control: Control, values: FloatArray, host: int, episode_seed: int
) -> dict[str, float]:
    """Return the fields of a row that do not depend on the flow's law.

    Args:
        flow: The agent's, of the scenario.
        control: Decisions of the scenario.
        values: What is constant, shape (N_VALUES,).
        host: The flow's.
        episode_seed: Of the episode.
    """
    # Long enough for ACKs to come back before the first decision, as in Aurora.
    interval_s = max(FIRST_INTERVAL_RTTS * float(values[BASE_RTT_S]), SHORTEST_INTERVAL_S)
    if flow.decision_rtts is None:
        interval_s = max(interval_s, control.decision_interval_s)
    return {
        "host": host,
        "rate_bps": values[LINE_RATE_BPS],
        "least_bps": values[LEAST_RATE_BPS],
        "line_rate_bps": values[LINE_RATE_BPS],
        "action_step": flow.action_step,
        "interval_s": interval_s,
        "longest_s": control.decision_interval_s,
        "decision_rtts": flow.decision_rtts or 0.0,
        "episode_seed": episode_seed,
        "episode_steps": control.episode_steps,
    }


_plan_next_interval = njit(forceinline=True)(plan_next_interval)
_take_rate = njit(forceinline=True)(take_rate)


@njit(forceinline=True)
def _set_rate(sender: Any, rate_bps: float, values: Any) -> bool:
    """Caps the host or paces the flow; says whether that was possible."""
    rate_bps = _take_rate(sender, rate_bps, values)
    if sender.sets == HOST_CAP:
        cap_rate(sender.world, sender.host, rate_bps)
    elif sender.sets == FLOW_PACE:
        set_pace(world_at(sender.world, 0), FLOW_ID, rate_bps)
    else:
        return rate_bps == math.inf
    return True


@njit(forceinline=True)
def _act(sender: Any, preset: int, window: bool, action: float, values: Any) -> bool:
    """The action takes effect; says whether it could."""
    if window:
        multiply_window(world_at(sender.world, 0), FLOW_ID, _orca_factor(action))
        return True
    if preset == AURORA:
        rate_bps = _aurora_rate_bps(sender.rate_bps, action, sender.action_step)
    else:
        rate_bps = _log_rate_bps(action, sender.least_bps, sender.line_rate_bps)
    return _set_rate(sender, rate_bps, values)


@njit(forceinline=True)
def _begin_interval(sender: Any) -> None:
    now_ns = world_at(sender.world, 0).now_ns
    half_s = 0.5 * sender.interval_s
    sender.middle_ns = now_ns + int(np.rint(half_s * 1e9))
    sender.end_ns = sender.middle_ns + int(np.rint((sender.interval_s - half_s) * 1e9))


def _compiled(digest: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    @compiled
    def set_rates(senders: Any, rates_bps: Any, values: Any) -> None:
        digest  # noqa: B018  (part of the cache key)
        for row in range(len(senders)):
            _set_rate(senders[row], rates_bps[row], values[row])

    @compiled
    def pass_intervals(
        senders: Any,
        first: int,
        behind_last: int,
        actions: Any,
        before: Any,
        middle: Any,
        after: Any,
        values: Any,
        preset: int,
        window: bool,
        history: Any,
        n_features: int,
        reward: int,
        weights: Any,
        terms: Any,
    ) -> int:
        """Takes each row from its stage as far as it gets; returns how many rows Python has to look at."""
        digest  # noqa: B018
        n_left = 0
        for row in range(first, behind_last):
            sender = senders[row]
            if sender.stage == ACTS:
                sender.stage = BEGINS if _act(sender, preset, window, actions[row], values[row]) else REFUSED
            if sender.stage == BEGINS:
                _begin_interval(sender)
                sender.stage = FIRST_HALF
            if sender.stage == FIRST_HALF and reaches(sender.world, sender.middle_ns):
                read_flow(world_at(sender.world, 0), FLOW_ID, middle[row])
                sender.stage = SECOND_HALF
            if sender.stage == SECOND_HALF and reaches(sender.world, sender.end_ns):
                read_flow(world_at(sender.world, 0), FLOW_ID, after[row])
                conclude(
                    before[row],
                    middle[row],
                    after[row],
                    sender.interval_s,
                    values[row],
                    preset,
                    history[row],
                    n_features,
                    reward,
                    weights,
                    terms[row],
                )
                _plan_next_interval(sender, values[row][RTT_S])
                sender.now_s = world_at(sender.world, 0).now_ns * 1e-9
                sender.steps += 1
                sender.stage = DONE
            if sender.stage != DONE:
                n_left += 1
        return n_left

    return set_rates, pass_intervals


_set_rates, _pass_intervals = _compiled(
    source_digest(
        *(
            Path(__file__).with_name(name)
            for name in ("senders.py", "flow_signals.py", "flow_intervals.py", "flow_presets.py")
        )
    )
)
