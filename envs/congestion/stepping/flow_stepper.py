"""Batched stepping of agents that each steer one flow, or one host.

A decision has stages: the action takes effect, half an interval passes, the other half passes, and what
happened is worked out. Where Python is needed on the way, because packets need more memory, a link fails, or
packets are recorded, a world stops at its stage, Python moves it on, and the compiled call is made again.
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
    """Agents of one or many worlds of one kind, which steer flows or hosts.

    Attributes:
        rows: Records of the type :data:`AGENT`, shape (n,).
        intervals: The newest interval of each, records of the type ``FLOW_INTERVAL``, shape (n,).
        features: Observations, shape (n, length).
        terms: Of the reward, shape (n, n_terms).
        counters: At the beginning, the middle and the end of the newest interval, records of the type
            ``FLOW_COUNTERS``, shape (3, n). The first row is that of the end, too, when the interval is over.

    Args:
        n: Number of agents.
        preset: What is observed, and what actions mean.
        history: Intervals in an observation.
        reward: What is paid.
        weights: Of its terms, in their order.
        law: Name of the transport underneath.
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
        """Take up an episode of a world.

        Args:
            first: Its first agent.
            network: The world, which holds until it begins again.
            settings: Fields of its rows, one value for all or one for each; the others are worked out.
            intervals: Of its agents, with the constants of the episode.
        """
        behind_last = first + len(intervals)
        for name, value in settings.items():
            self.rows[name][first:behind_last] = value
        self.intervals[first:behind_last] = intervals
        self.features[first:behind_last] = self._empty
        self._attach(first, behind_last, network)

    def set_rates(self, first: int, rates_bps: FloatArray) -> None:
        """Set rates of a world's agents without letting time pass."""
        behind_last = first + len(rates_bps)
        set_rates(self.rows[first:behind_last], rates_bps, self.intervals[first:behind_last])

    def pass_first_interval(self, first: int, behind_last: int) -> None:
        """Let an interval of a world pass in which nobody decides anything."""
        self._read_beginning(first, behind_last)
        self.rows["stage"][first] = BEGINS
        self.pass_intervals(first, behind_last)
        self.rows["steps"][first] = 0

    def decide(self, first: int, behind_last: int, actions: FloatArray | float) -> None:
        """Let the actions of a world take effect and its interval pass; raises as :meth:`pass_intervals`."""
        self.rows["action"][first:behind_last] = actions
        self.rows["stage"][first] = ACTS
        self.pass_intervals(first, behind_last)

    def pass_intervals(self, first: int, behind_last: int) -> None:
        """Take the decisions of rows ``first`` and on to their end; worlds that are done are left alone.

        Raises:
            SysgymError: If a flow that nothing can slow down was asked to send at less than its line rate.
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
        """Return the named terms of an agent's newest reward."""
        return dict(zip(self._reward.terms, self.terms[row].tolist(), strict=True))

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        """Go on where the original stood, with the addresses of the copied networks."""
        self.__dict__.update(attributes)
        self._compile()
        for first, network in self._simulated.items():
            of_world = self.rows["world"] == self.rows["world"][first]
            self.rows["world"][of_world] = network.address

    def _compile(self) -> None:
        """Write the addresses of the compiled functions of preset and reward, which hold in this process."""
        self.rows["decide"], self.rows["observe"] = self._preset.decide_address, self._preset.observe_address
        self.rows["pay"], self.rows["n_features"] = self._reward.address, len(self._preset.features)

    def _attach(self, first: int, behind_last: int, network: Network) -> None:
        """Keep the network of an episode."""
        self._simulated[first] = simulated(network)
        self.rows["world"][first:behind_last] = self._simulated[first].address

    def _read_beginning(self, first: int, behind_last: int) -> None:
        """Read the counters at the beginning of a world's first interval."""
        read_agents(self.rows[first:behind_last], self.counters[0, first:behind_last])

    def _move_by_hand(self, first: int) -> None:
        """Do Python's part, where the compiled one could not go on."""
        stage, network = int(self.rows["stage"][first]), self._simulated[first]
        if stage == REFUSED:
            raise self._no_pace(network)
        if stage != DONE:
            until = "middle_ns" if stage == FIRST_HALF else "end_ns"
            network.advance_to(int(self.rows[until][first]))

    def _no_pace(self, network: Network) -> SysgymError:
        """Return the error for a flow that nothing can slow down."""
        return SysgymError(
            f"{network.scenario.name}: the agent's flow shares host {self.rows['host'][0]} with others, and"
            f' "{self._law}" has no pace that could be capped: use the highest action'
        )
