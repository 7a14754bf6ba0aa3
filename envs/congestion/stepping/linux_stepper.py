"""Stepping of one network on the Linux kernel, in wall time.

Rows, intervals and features have the same form as for simulated networks, so environments need not
distinguish the two backends. Any :class:`~sysgym.emulator.network.Network` can be used.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Controls, Network, PerFlow, Readings
from sysgym.emulator.packets.counters.rows import FlowCounterArray
from sysgym.envs.congestion.flow.intervals import zero_counters
from sysgym.envs.congestion.stepping.flow_kernels import (
    HOST_CAP,
    NO_FLOW,
    NOTHING,
    WINDOW,
    conclude,
    want_actions,
    want_rates,
)
from sysgym.envs.congestion.stepping.flow_stepper import FlowStepper
from sysgym.envs.congestion.stepping.network_stepper import NetworkStepper
from sysgym.envs.congestion.stepping.protocol import ACTS, DONE
from sysgym.scenarios import CongestionScenario

FloatArray = NDArray[np.float64]


class LinuxNetworkStepper(NetworkStepper):
    """Stepper of one network whose host rates are set together; see :class:`NetworkStepper`."""

    def pass_intervals(self, first: int, behind_last: int) -> None:
        """Complete the decision."""
        settings = self.rows[0]
        if settings["stage"] == DONE:
            return
        controls = self._caps() if settings["stage"] == ACTS else Controls()
        duration_s = float(settings["interval_s"])
        self._ports[0], self._hosts[0] = self._ports[1], self._hosts[1]
        settings["began_s"] = settings["ended_s"]
        self.ideal_bytes[0] = self._ideal_bytes(duration_s)
        self._network.clear_maxima()
        self._keep(self._network.step(controls, duration_s))
        settings["steps"] += 1
        settings["stage"] = DONE

    def _attach(self, row: int, network: Network) -> None:
        self._network = network

    def _warm_up(self, row: int, scenario: CongestionScenario) -> None:
        last_s = min(scenario.control.decision_interval_s, scenario.control.warmup_s)
        self._keep(self._network.step(Controls(), scenario.control.warmup_s - last_s))
        self.rows["interval_s"][0] = last_s
        self._measure_from_now(0)

    def _keep(self, readings: Readings) -> None:
        self._ports[1, :, 0], self._hosts[1, :, 0] = readings.ports, readings.hosts
        self.rows["ended_s"][0] = readings.now_s

    def _caps(self) -> Controls:
        uncapped = (self.rates[0] >= 1.0) & bool(self.rows["has_law"][0])
        return Controls(host_caps_bps=np.where(uncapped, np.inf, self.rates[0] * self._line_rate_bps[0]))

    def _ideal_bytes(self, duration_s: float) -> FloatArray:
        fabric = self.fabrics[0]
        fair_bytes = self._network.oracle_rates_bps() * (fabric.payload_fraction * duration_s / 8.0)
        if not self.rows["flows_end"][0]:
            return fair_bytes
        flows = self._network.flows()
        unfinished = flows.started & np.isnan(flows.finish_s)
        left = np.where(flows.size_bytes < 0, np.inf, flows.size_bytes - flows.delivered_bytes)[unfinished]
        total_left = np.bincount(flows.src[unfinished], weights=left, minlength=fabric.n_hosts)
        return np.minimum(fair_bytes, total_left)


class LinuxFlowStepper(FlowStepper):
    """Stepper of the agents of one network; see :class:`FlowStepper`.

    Actions take effect when their interval begins.
    """

    def set_rates(self, first: int, rates_bps: FloatArray) -> None:
        """Apply the rates of the agents at once, without an interval."""
        told = np.empty(len(rates_bps))
        want_rates(self.rows, rates_bps, self.intervals, told)
        self._network.apply(self._controls(told))

    def pass_intervals(self, first: int, behind_last: int) -> None:
        """Complete the decisions; errors as in :meth:`FlowStepper.pass_intervals`."""
        settings, network = self.rows[0], self._network
        if settings["stage"] == DONE:
            return
        controls = Controls()
        if settings["stage"] == ACTS:
            told = np.empty(len(self.rows))
            want_actions(self.rows, self.intervals, told)
            controls = self._controls(told)
        interval_s, began_s = float(settings["interval_s"]), network.now_s
        self.counters[1] = self._step(controls, 0.5 * interval_s)
        self.counters[2] = self._step(Controls(), began_s + interval_s - network.now_s)
        conclude(
            self.rows,
            network.now_s - began_s,
            self.counters,
            self.intervals,
            self.features,
            self._weights,
            self.terms,
        )
        settings["now_s"] = network.now_s
        settings["steps"] += 1
        settings["stage"] = DONE

    def _attach(self, first: int, behind_last: int, network: Network) -> None:
        self._network = network
        self._senders: NDArray[np.int64] = np.asarray(network.schedule.src, dtype=np.int64)
        hosts = self.rows["flow"][0] == NO_FLOW
        # A host's data in flight is the sum over its flows, so all flows are read.
        self._read_flows = np.arange(len(self._senders)) if hosts else self.rows["flow"].copy()

    def _read_beginning(self, first: int, behind_last: int) -> None:
        self.counters[0] = self._step(Controls(), 0.0)

    def _controls(self, told: FloatArray) -> Controls:
        """Return the rates and factors in the form that the network expects.

        Raises:
            SysgymError: If a rate below the line rate was set for a flow that cannot be limited.
        """
        sets, network = int(self.rows["sets"][0]), self._network
        if sets == WINDOW:
            return Controls(window_factors=PerFlow(self._read_flows, told))
        if sets == HOST_CAP:
            caps_bps = np.full(network.n_hosts, np.inf)
            caps_bps[self.rows["host"]] = told
            return Controls(host_caps_bps=caps_bps)
        if sets == NOTHING:
            if np.any(told < math.inf):
                raise self._no_pace(network)
            return Controls()
        return Controls(flow_rates_bps=PerFlow(self._read_flows, told))

    def _step(self, controls: Controls, duration_s: float) -> FlowCounterArray:
        """Advance time; return the counters of the agents, shape (n,)."""
        readings = self._network.step(controls, max(duration_s, 0.0), read_flows=self._read_flows)
        flows = readings.flow_counters
        assert flows is not None
        return self._of_hosts(readings, flows) if self.rows["flow"][0] == NO_FLOW else flows

    def _of_hosts(self, readings: Readings, flows: FlowCounterArray) -> FlowCounterArray:
        """Return the counters of hosts; data in flight is summed over their active flows."""
        hosts, out = readings.hosts, zero_counters(len(self.rows))
        out["sent_packets"] = hosts.sent_packets
        out["acked_packets"] = hosts.acked_packets
        out["marked_packets"] = hosts.marked_packets
        out["lost_packets"] = hosts.retransmitted_packets
        out["delivered_packets"] = hosts.delivered_bytes / self._network.scenario.transport.payload_bytes
        out["rtt_sum_s"] = hosts.rtt_sum_s
        out["rtt_samples"] = hosts.rtt_samples
        out["timeouts"] = hosts.timeouts
        out["active_flows"] = hosts.active_flows
        active = flows["active_flows"] > 0.0
        for name in ("in_flight_packets", "cwnd_packets"):
            out[name] = np.bincount(self._senders[active], weights=flows[name][active], minlength=len(out))
        return out
