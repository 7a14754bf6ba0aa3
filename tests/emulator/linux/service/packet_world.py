"""The packet simulator behind the World API, for services without privileges.

Time is simulated and passes only in ``advance``; everything else is as with the kernel's worlds. Scenarios
whose names begin with ``unruly-`` make it misbehave, for the tests of a service's supervision.
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


class PacketWorld:
    """A :class:`PacketNetwork` with the methods of a world."""

    warnings = ("time is simulated",)
    packet_processor = None

    def __init__(self, scenario: dict[str, Any], transport: str, flow_transports: dict[int, str]) -> None:
        from sysgym.emulator.packets.network import PacketNetwork
        from sysgym.scenarios import CongestionScenario, scenario_from_resolved

        self._scenario = scenario_from_resolved(scenario, expect=CongestionScenario)
        self._network = PacketNetwork(self._scenario, transport=transport, flow_transports=flow_transports)
        if self._scenario.name == "unruly-child":  # a program that outlives a kill
            self._child = subprocess.Popen(["sleep", "1000"], start_new_session=True)

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
        if self._scenario.name == "unruly-exit":
            print("the last words", flush=True)
            os._exit(3)
        if self._scenario.name == "unruly-sleep":
            time.sleep(duration_s)
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
        if self._scenario.name == "unruly-close":
            time.sleep(1000)


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


class _Lacking(_Packets):
    def prepare(self, sid: str) -> None:
        raise BackendUnavailable("linux", "this kernel has no BTF", "boot another")


def packets() -> Kind:
    """The packet simulator."""
    return _Packets()


def lacking() -> Kind:
    """A machine that lacks something."""
    return _Lacking()
