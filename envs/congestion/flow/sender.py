"""The agent's flow in one environment: its row of a stepper, and accessors for heuristics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.envs.congestion.action_spaces import SenderActions
from sysgym.envs.congestion.flow.intervals import IntervalArray
from sysgym.envs.congestion.flow.presets.base import Preset
from sysgym.envs.congestion.stepping.flow_stepper import FlowStepper
from sysgym.envs.congestion.stepping.protocol import is_over

Array = NDArray[np.float32]


class Sender:
    """The flow of one agent.

    Args:
        preset: Preset, which defines native actions.
        actions: Action space.
        stepper: Stepper that simulates the flow.

    Attributes:
        stepper: Stepper that simulates the flow.
        row: Row of the flow in the stepper.
    """

    def __init__(self, preset: Preset, actions: SenderActions, stepper: FlowStepper) -> None:
        self._preset, self._actions = preset, actions
        self.stepper, self.row = stepper, 0

    @property
    def interval(self) -> np.void:
        """The newest interval, a ``FLOW_INTERVAL`` record."""
        record: np.void = self.stepper.intervals[self.row]
        return record

    @property
    def observation(self) -> Array:
        """The newest observation, a new array."""
        newest: Array = self.stepper.features[self.row].copy()
        return newest

    @property
    def counters(self) -> np.void:
        """Counters at the end of the newest interval, a ``FLOW_COUNTERS`` record."""
        record: np.void = self.stepper.counters[0, self.row]
        return record

    @property
    def rate_bps(self) -> float:
        """Send rate in force; with a window, the window divided by the smoothed round-trip time."""
        return float(self.interval["rate_bps"])

    @property
    def least_rate_bps(self) -> float:
        """Lowest rate that the agent can choose."""
        return float(self.interval["least_rate_bps"])

    @property
    def line_rate_bps(self) -> float:
        """Highest rate that the agent can choose: the line rate of its host."""
        return float(self.interval["line_rate_bps"])

    @property
    def slowest_link_bps(self) -> float:
        """Rate of the slowest link on the path."""
        return float(self.interval["slowest_link_bps"])

    @property
    def interval_s(self) -> float:
        """Length of the next interval."""
        return float(self.stepper.rows["interval_s"][self.row])

    @property
    def now_s(self) -> float:
        """End of the newest interval."""
        return float(self.stepper.rows["now_s"][self.row])

    @property
    def is_over(self) -> bool:
        """Whether all decisions of the episode have been taken."""
        return is_over(self.stepper.rows, self.row)

    @property
    def reward_terms(self) -> dict[str, float]:
        """The named terms of the newest reward."""
        return self.stepper.reward_terms(self.row)

    def begin(self, network: Network, settings: dict[str, float], intervals: IntervalArray) -> None:
        """Begin an episode; see :meth:`FlowStepper.begin`."""
        self.stepper.begin(self.row, network, settings, intervals)

    def set_rate(self, rate_bps: float) -> None:
        """Set a rate without advancing time."""
        self.stepper.set_rates(self.row, np.array([rate_bps]))

    def pass_first_interval(self) -> np.void:
        """Simulate an interval without a decision, and return it."""
        self.stepper.pass_first_interval(self.row, self.row + 1)
        return self.interval

    def decide(self, number: float) -> np.void:
        """Apply a native action and return the interval that follows; raises the errors of the stepper."""
        self.stepper.decide(self.row, self.row + 1, number)
        return self.interval

    def action_toward(self, rate_bps: float) -> Array:
        """Return the action nearest to a send rate, or to the window of that rate on the empty path."""
        interval = self.stepper.intervals.view(np.recarray)[self.row]
        return self._actions.action_for(np.array([self._preset.ask(interval, rate_bps)]))
