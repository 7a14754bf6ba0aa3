"""The packet simulator behind the World API, for services without privileges, and a world without packets.

Time is simulated and passes only in ``advance``; everything else is as with the kernel's worlds. Scenarios
whose names begin with ``unruly-`` make them misbehave, for the tests of a service's supervision. Those are
content with the world without packets, which is there in a third of the time: it does without the simulator.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.service.worlds import FloatArray, Kind, Pairs, WorldOfSession
from sysgym.scenarios.errors import BackendUnavailable

if TYPE_CHECKING:  # services and processes that wait for their order do without the simulator
    from sysgym.emulator.packets.workloads import FlowSchedule


class StillWorld:
    """The dumbbell of a scenario, without packets: all its counters remain 0."""

    warnings: tuple[str, ...] = ()
    packet_processor = None

    def __init__(self, scenario: dict[str, Any]) -> None:
        self._name = scenario["name"]
        self._n_hosts = 2 * int(scenario["topology"]["hosts_per_side"])
        self._now_s = 0.0
        if self._name == "unruly-child":  # a program that outlives a kill
            self._child = subprocess.Popen(["sleep", "1000"], start_new_session=True)

    def reset(self, seed: int, schedule: FlowSchedule | None) -> None:
        self._now_s = 0.0

    def apply(
        self,
        host_caps_bps: FloatArray | None,
        flow_rates: Pairs | None,
        windows: Pairs | None,
        window_factors: Pairs | None,
    ) -> None:
        pass

    def advance(self, duration_s: float) -> float:
        if self._name == "unruly-exit":
            print("the last words", flush=True)
            os._exit(3)
        if self._name == "unruly-sleep":
            time.sleep(duration_s)
        self._now_s += duration_s
        return 0.0

    def wait(self, fds: Sequence[int], timeout_s: float) -> None:
        select.select(fds, [], [], timeout_s)

    def readings(self) -> dict[str, Any]:
        n_links = 2 * (self._n_hosts + 1)
        return {
            "ports": np.zeros((11, n_links)),
            "hosts": np.zeros((11, self._n_hosts)),
            "now_s": self._now_s,
        }

    def flows(self) -> dict[str, NDArray[Any]]:
        return {"src": np.zeros(0, np.int64)}

    def flow_counters(self, flow_ids: NDArray[np.int64]) -> FloatArray:
        return np.zeros((len(flow_ids), 13))

    def queue_quantiles(self, quantile: float) -> FloatArray:
        return np.zeros(2 * (self._n_hosts + 1))

    def oracle_rates_bps(self) -> FloatArray:
        return np.zeros(self._n_hosts)

    def clear_maxima(self) -> None:
        pass

    def close(self) -> None:
        if self._name == "unruly-close":
            time.sleep(1000)


class PacketWorld:
    """A :class:`PacketNetwork` with the methods of a world."""

    warnings = ("time is simulated",)
    packet_processor = None

    def __init__(self, scenario: dict[str, Any], transport: str, flow_transports: dict[int, str]) -> None:
        from sysgym.emulator.packets.network import PacketNetwork
        from sysgym.scenarios import CongestionScenario, scenario_from_resolved

        resolved = scenario_from_resolved(scenario, expect=CongestionScenario)
        self._network = PacketNetwork(resolved, transport=transport, flow_transports=flow_transports)

    def reset(self, seed: int, schedule: FlowSchedule | None) -> None:
        self._network.reset(seed, schedule)

    def apply(
        self,
        host_caps_bps: FloatArray | None,
        flow_rates: Pairs | None,
        windows: Pairs | None,
        window_factors: Pairs | None,
    ) -> None:
        if host_caps_bps is not None:
            self._network.set_host_rate_caps(host_caps_bps)
        if flow_rates is not None:
            self._network.set_flow_rates(*flow_rates)
        if windows is not None:
            ids, packets = windows
            now = self._network.flow_counters(ids)["cwnd_packets"]
            self._network.scale_windows(ids, packets / now)
        if window_factors is not None:
            self._network.scale_windows(*window_factors)

    def advance(self, duration_s: float) -> float:
        self._network.advance(duration_s)
        return 0.0

    def wait(self, fds: Sequence[int], timeout_s: float) -> None:
        select.select(fds, [], [], timeout_s)

    def readings(self) -> dict[str, Any]:
        network = self._network
        return {
            "ports": np.array(network.ports(), dtype=np.float64),
            "hosts": np.array(network.hosts(), dtype=np.float64),
            "now_s": network.now_s,
        }

    def flows(self) -> dict[str, NDArray[Any]]:
        return self._network.flows()._asdict()

    def flow_counters(self, flow_ids: NDArray[np.int64]) -> FloatArray:
        from sysgym.emulator.packets.counters.rows import as_rows

        return as_rows(self._network.flow_counters(flow_ids))

    def queue_quantiles(self, quantile: float) -> FloatArray:
        return self._network.queue_quantile_bytes(quantile)

    def oracle_rates_bps(self) -> FloatArray:
        return self._network.oracle_rates_bps()

    def clear_maxima(self) -> None:
        self._network.clear_maxima()

    def close(self) -> None:
        pass


class _Packets:
    def prepare(self, sid: str) -> None:
        pass

    def release(self) -> None:
        pass

    def preload(self) -> None:
        pass

    def build(
        self,
        sid: str,
        session: int,
        scenario: dict[str, Any],
        transport: str,
        flow_transports: dict[int, str],
        parameters: Mapping[str, Sequence[float]] | None = None,
    ) -> WorldOfSession:
        return PacketWorld(scenario, transport, flow_transports)


class _Still(_Packets):
    def build(
        self, sid: str, session: int, scenario: dict[str, Any], *order: Any, **named: Any
    ) -> WorldOfSession:
        return StillWorld(scenario)


class _Lacking(_Packets):
    def prepare(self, sid: str) -> None:
        raise BackendUnavailable("linux", "this kernel has no BTF", "boot another")


def packets() -> Kind:
    """The packet simulator."""
    return _Packets()


def still() -> Kind:
    """Worlds without packets."""
    return _Still()


def lacking() -> Kind:
    """A machine that lacks something."""
    return _Lacking()
