"""Failures and rate changes of links, and the forwarding tables that result."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.engine.forwarding import forwarding_table
from sysgym.emulator.packets.engine.rate_changes import RateChanges
from sysgym.emulator.packets.memory.state import State
from sysgym.emulator.packets.topology import Topology
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import ScenarioError, closest_name


class Failure(NamedTuple):
    """Links that are down during an interval."""

    links: NDArray[np.int64]
    down_ns: int
    up_ns: int | None


class LinkFaults:
    """Link failures and rate changes of a scenario.

    Args:
        scenario: Scenario with the ``[faults]`` table.
        topology: Network whose links are named there.

    Raises:
        ScenarioError: If a fault names a link that does not exist.
    """

    def __init__(self, scenario: CongestionScenario, topology: Topology) -> None:
        self._topology = topology
        self._reroute_ns = round(scenario.faults.reroute_s * 1e9)
        self._failures = [
            Failure(
                _links_named(scenario.name, f"faults.links[{index}].link", fault.link, topology),
                round(fault.down_s * 1e9),
                None if fault.up_s is None else round(fault.up_s * 1e9),
            )
            for index, fault in enumerate(scenario.faults.links)
        ]
        changes_ns = [failure.down_ns for failure in self._failures]
        changes_ns += [failure.up_ns for failure in self._failures if failure.up_ns is not None]
        self._failures_ns = sorted({time + lag for time in changes_ns for lag in (0, self._reroute_ns)})
        changes = scenario.faults.rate_changes
        concerned = [
            _links_named(scenario.name, f"faults.rate_changes[{index}].link", change.link, topology)
            for index, change in enumerate(changes)
        ]
        self._rates = RateChanges(changes, concerned, topology, scenario.control.episode_s)
        self._stops_ns = self._failures_ns

    @property
    def link_rate_bps(self) -> NDArray[np.float64]:
        """Present rate of every link, shape (n_links,)."""
        return self._rates.link_rate_bps

    def begin(self, seed: int) -> None:
        """Draw the random changes of an episode."""
        self._rates.draw(seed)
        self._stops_ns = sorted({*self._failures_ns, *self._rates.stops_ns})

    def next_ns(self, after_ns: int) -> int | None:
        """Return the first time after ``after_ns`` at which something changes; None if there is none."""
        place = bisect_right(self._stops_ns, after_ns)
        return self._stops_ns[place] if place < len(self._stops_ns) else None

    def stops_ns(self, after_ns: int, until_ns: int) -> list[int]:
        """Return the times of changes after ``after_ns``, up to and including ``until_ns``."""
        return self._stops_ns[bisect_right(self._stops_ns, after_ns) : bisect_right(self._stops_ns, until_ns)]

    def down_at(self, now_ns: int) -> NDArray[np.int64]:
        """Return the links that are down at a time, ascending."""
        down = [
            failure.links
            for failure in self._failures
            if failure.down_ns <= now_ns and (failure.up_ns is None or now_ns < failure.up_ns)
        ]
        return np.unique(np.concatenate(down)) if down else np.empty(0, np.int64)

    def apply(self, state: State, now_ns: int) -> State:
        """Set links and forwarding tables to their condition at a time, and return the bound state."""
        self._rates.apply(state, now_ns)
        if not self._failures:
            return state
        state.ports["down"] = 0
        state.ports["down"][self.down_at(now_ns)] = 1
        rows, links = forwarding_table(self._topology, self.down_at(now_ns - self._reroute_ns))
        state = state._replace(table_rows=rows, table_links=links)
        state.bind()
        return state


def _links_named(scenario: str, key: str, pattern: str, topology: Topology) -> NDArray[np.int64]:
    links = topology.links_named(pattern)
    if len(links):
        return links
    close = closest_name(pattern, topology.link_names)
    raise ScenarioError(
        scenario,
        key,
        pattern,
        f"a link of this network, such as {topology.link_names[0]} or {topology.link_names[-1]}",
        advice=f'did you mean "{close}"?' if close else "* stands for any text",
    )
