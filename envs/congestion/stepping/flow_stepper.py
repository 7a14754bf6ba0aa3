"""Batched stepping of agents that each control one flow or one host.

A decision has stages: apply the action, simulate the first and the second half of the interval, and compute
the measurements. If a network needs Python (for more packet memory, a link failure, or the recording of
packets), it stops at its stage, Python advances it, and the compiled call is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.counters.rows import FlowCounterArray
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.envs.congestion.flow.intervals import FLOW_INTERVAL, IntervalArray, zero_counters
from sysgym.envs.congestion.flow.presets.base import FlowReward, Observation, Preset
from sysgym.envs.congestion.stepping.flow_kernels import AGENT, pass_intervals, read_agents, set_rates
from sysgym.envs.congestion.stepping.protocol import (
    ACTS,
    BEGINS,
    DONE,
    FIRST_HALF,
    REFUSED,
    Rows,
    simulated,
)
from sysgym.scenarios.errors import SysgymError

FloatArray = NDArray[np.float64]


class FlowStepper:
    """Stepper of agents that control flows or hosts, in one or many networks of the same kind.

    Attributes:
        rows: :data:`AGENT` records, shape (n,).
        intervals: Newest interval of each agent, ``FLOW_INTERVAL`` records, shape (n,).
        features: Observations, shape (n, length).
        terms: Reward terms, shape (n, n_terms).
        counters: Counters at the beginning, the middle and the end of the newest interval, ``FLOW_COUNTERS``
            records, shape (3, n). After the interval the first row also holds the counters of the end.

    Args:
        n: Number of agents.
        preset: Preset, which defines observations and actions.
        history: Number of intervals in an observation.
        reward: Reward of the agents.
        weights: Weights of the reward terms, in their order.
        law: Name of the underlying transport.
    """

    def __init__(
        self, n: int, preset: Preset, history: int, reward: FlowReward, weights: FloatArray, law: str
    ) -> None:
        self.rows: Rows = np.zeros(n, AGENT)
        self.rows["stage"] = DONE
        self.intervals: IntervalArray = np.zeros(n, FLOW_INTERVAL)
        self.features: Observation = np.tile(preset.empty(history), (n, 1))
        self.terms: FloatArray = np.zeros((n, len(reward.terms)))
        self.counters: FlowCounterArray = zero_counters(3, n)
        self._preset, self._reward, self._weights, self._law = preset, reward, weights, law
        self._empty = preset.empty(history)
        self._simulated: dict[int, PacketNetwork] = {}
        self._compile()

    def begin(
        self, first: int, network: Network, settings: Mapping[str, Any], intervals: IntervalArray
    ) -> None:
        """Begin an episode of a network.

        Args:
            first: Index of its first agent.
            network: The network, used until the next call for the same agents.
            settings: Fields of its rows, with one value for all rows or one for each; others are
                computed.
            intervals: Intervals of its agents, with the constants of the episode.
        """
        behind_last = first + len(intervals)
        for name, value in settings.items():
            self.rows[name][first:behind_last] = value
        self.intervals[first:behind_last] = intervals
        self.features[first:behind_last] = self._empty
        self._attach(first, behind_last, network)

    def set_rates(self, first: int, rates_bps: FloatArray) -> None:
        """Set the rates of the agents of a network without advancing time."""
        behind_last = first + len(rates_bps)
        set_rates(self.rows[first:behind_last], rates_bps, self.intervals[first:behind_last])

    def pass_first_interval(self, first: int, behind_last: int) -> None:
        """Simulate an interval of a network without a decision."""
        self._read_beginning(first, behind_last)
        self.rows["stage"][first] = BEGINS
        self.pass_intervals(first, behind_last)
        self.rows["steps"][first] = 0

    def decide(self, first: int, behind_last: int, actions: FloatArray | float) -> None:
        """Apply the actions of a network and simulate its interval; errors as in :meth:`pass_intervals`."""
        self.rows["action"][first:behind_last] = actions
        self.rows["stage"][first] = ACTS
        self.pass_intervals(first, behind_last)

    def pass_intervals(self, first: int, behind_last: int) -> None:
        """Complete the decisions of rows ``first`` and following; finished networks are skipped.

        Raises:
            SysgymError: If a rate below the line rate was set for a flow that cannot be limited.
        """
        while pass_intervals(
            self.rows,
            first,
            behind_last,
            self.counters,
            self.intervals,
            self.features,
            self._weights,
            self.terms,
        ):
            for row in range(first, behind_last):
                if row in self._simulated:
                    self._move_by_hand(row)

    def reward_terms(self, row: int) -> dict[str, float]:
        """Return the named terms of the newest reward of an agent."""
        return dict(zip(self._reward.terms, self.terms[row].tolist(), strict=True))

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Restore the state of the original, with the addresses of the copied networks."""
        self.__dict__.update(attributes)
        self._compile()
        for first, network in self._simulated.items():
            of_world = self.rows["world"] == self.rows["world"][first]
            self.rows["world"][of_world] = network.address

    def _compile(self) -> None:
        """Write the addresses of the compiled preset and reward functions, valid in this process."""
        self.rows["decide"], self.rows["observe"] = self._preset.decide_address, self._preset.observe_address
        self.rows["pay"], self.rows["n_features"] = self._reward.address, len(self._preset.features)

    def _attach(self, first: int, behind_last: int, network: Network) -> None:
        """Store the network of an episode."""
        self._simulated[first] = simulated(network)
        self.rows["world"][first:behind_last] = self._simulated[first].address

    def _read_beginning(self, first: int, behind_last: int) -> None:
        """Read the counters at the beginning of the first interval of a network."""
        read_agents(self.rows[first:behind_last], self.counters[0, first:behind_last])

    def _move_by_hand(self, first: int) -> None:
        """Advance a network in Python, where compiled code cannot continue."""
        stage, network = int(self.rows["stage"][first]), self._simulated[first]
        if stage == REFUSED:
            raise self._no_pace(network)
        if stage != DONE:
            until = "middle_ns" if stage == FIRST_HALF else "end_ns"
            network.advance_to(int(self.rows[until][first]))

    def _no_pace(self, network: Network) -> SysgymError:
        """Return the error for a flow whose rate cannot be limited."""
        return SysgymError(
            f"{network.scenario.name}: the agent's flow shares host {self.rows['host'][0]} with others, and"
            f' "{self._law}" has no pace that could be capped: use the highest action'
        )
