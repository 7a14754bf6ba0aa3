"""One network of the Linux kernel, which goes on by itself: decisions take wall time.

Same rows, intervals and features as :mod:`sysgym.envs.congestion.controllers` and
:mod:`sysgym.envs.congestion.senders` have for simulated networks, so that an environment does not see which
of the two it has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.client import LinuxNetwork, Readings
from sysgym.envs.congestion.controllers import CONTROLLER
from sysgym.envs.congestion.flow_intervals import N_VALUES, RTT_S, counters
from sysgym.envs.congestion.flow_presets import (
    FlowReward,
    Preset,
    aurora_rate_bps,
    log_rate_bps,
    orca_factor,
)
from sysgym.envs.congestion.flow_signals import AURORA, MOST_TERMS, conclude_all
from sysgym.envs.congestion.measurement import Fabric, Interval, Reading
from sysgym.envs.congestion.senders import (
    FLOW_ID,
    FLOW_PACE,
    HOST_CAP,
    SENDER,
    WINDOW,
    no_pace,
    plan_next_interval,
    take_rate,
)

FloatArray = NDArray[np.float64]

Pairs = tuple[NDArray[np.int64], FloatArray]

_OWN = np.array([FLOW_ID])


class LiveController:
    """One controller of all hosts.

    Attributes:
        rows: What :data:`~sysgym.envs.congestion.controllers.CONTROLLER` says, shape (1,).

    Args:
        has_law: Whether the hosts' transport sets rates too, so that the line rate is no cap.
    """

    def __init__(self, *, has_law: bool) -> None:
        self.rows: NDArray[Any] = np.zeros(1, CONTROLLER)
        self.rows["has_law"] = has_law
        self._network: LinuxNetwork
        self._before: Readings
        self._interval: Interval

    def begin(self, row: int, network: LinuxNetwork, fabric: Fabric, episode_seed: int) -> Interval:
        """Take up an episode and let its warm-up pass, without caps; returns the last interval of that."""
        control, settings = network.scenario.control, self.rows
        self._network, self._fabric = network, fabric
        settings["flows_end"][row] = network.scenario.workload.kind != "long_lived"
        settings["episode_seed"][row] = episode_seed
        settings["episode_steps"][row] = control.episode_steps
        last_s = min(control.decision_interval_s, control.warmup_s)
        self._before = self._read(control.warmup_s - last_s, None)
        self._pass(row, np.ones(fabric.n_hosts), last_s, None)
        settings["steps"][row] = 0
        return self._interval

    def decide(self, row: int, rates: FloatArray) -> Interval:
        """Cap the hosts and let an interval pass; returns what was measured."""
        uncapped = (rates >= 1.0) & bool(self.rows["has_law"][row])
        caps_bps = np.where(uncapped, np.inf, rates * self._fabric.line_rate_bps)
        self._pass(row, rates, self._network.scenario.control.decision_interval_s, caps_bps)
        self.rows["steps"][row] += 1
        return self._interval

    def interval(self, row: int) -> Interval:
        """Return the newest interval."""
        return self._interval

    def _pass(self, row: int, rates: FloatArray, duration_s: float, caps_bps: FloatArray | None) -> None:
        ideal_bytes = self._ideal_bytes(row, duration_s)
        self._network.clear_maxima()
        after = self._read(duration_s, caps_bps)
        began, ended = (Reading(one.now_s, one.ports, one.hosts) for one in (self._before, after))
        self._interval = Interval(self._fabric, began, ended, rates, ideal_bytes)
        self._before = after

    def _read(self, duration_s: float, caps_bps: FloatArray | None) -> Readings:
        network = self._network
        if duration_s > 0.0:
            return network.step(caps_bps, duration_s)
        return network.refresh()

    def _ideal_bytes(self, row: int, duration_s: float) -> FloatArray:
        fair_bytes = self._network.oracle_rates_bps() * (self._fabric.payload_fraction * duration_s / 8.0)
        if not self.rows["flows_end"][row]:
            return fair_bytes
        flows = self._network.flows()
        unfinished = flows.started & np.isnan(flows.finish_s)
        left = np.where(flows.size_bytes < 0, np.inf, flows.size_bytes - flows.delivered_bytes)[unfinished]
        total_left = np.bincount(flows.src[unfinished], weights=left, minlength=self._fabric.n_hosts)
        return np.minimum(fair_bytes, total_left)


class LiveSender:
    """The sender of one flow; see :class:`~sysgym.envs.congestion.senders.Senders` for what it has.

    Args:
        preset: What is observed, and what actions mean.
        history: Intervals in an observation.
        reward: What is paid.
        weights: Of its terms, in their order.
    """

    def __init__(self, preset: Preset, history: int, reward: FlowReward, weights: FloatArray) -> None:
        self.rows: Any = np.zeros(1, SENDER).view(np.recarray)
        self.values: FloatArray = np.zeros((1, N_VALUES))
        self._empty = preset.empty(history)
        self.features: NDArray[np.float32] = self._empty[np.newaxis].copy()
        self.terms: FloatArray = np.zeros((1, MOST_TERMS))
        self.before = counters(1)
        self._preset, self._reward, self._weights = preset, reward, weights
        self._network: LinuxNetwork
        self._caps_bps: FloatArray | None = None
        self._flow_rates: Pairs | None = None
        self._factor: Pairs | None = None

    def begin(self, row: int, network: LinuxNetwork, settings: dict[str, float], values: FloatArray) -> None:
        """Take up an episode; as :meth:`Senders.begin`."""
        self._network = network
        for name, value in settings.items():
            self.rows[name][row] = value
        self.values[row], self.features[row] = values, self._empty

    def set_rate(self, row: int, rate_bps: float) -> None:
        """Set a rate now, without an interval."""
        self._plan_rate(row, rate_bps)
        caps_bps, flow_rates = self._caps_bps, self._flow_rates
        self._caps_bps = self._flow_rates = None
        if caps_bps is not None:
            self._network.set_host_rate_caps(caps_bps)
        if flow_rates is not None:
            self._network.set_flow_rates(*flow_rates)

    def _plan_rate(self, row: int, rate_bps: float) -> None:
        """Set a rate that goes to the kernel with the next interval, in the same message."""
        settings = self.rows[row]
        rate_bps = float(take_rate(settings, rate_bps, self.values[row]))
        if settings["sets"] == HOST_CAP:
            self._caps_bps = np.full(self._network.n_hosts, np.inf)
            self._caps_bps[int(settings["host"])] = rate_bps
        elif settings["sets"] == FLOW_PACE:
            self._flow_rates = (_OWN, np.array([rate_bps]))
        elif rate_bps < math.inf:
            network = self._network
            raise no_pace(network.scenario.name, int(settings["host"]), network.flow_transports[FLOW_ID])

    def pass_first_interval(self, row: int) -> None:
        """Let an interval pass in which nobody decides anything."""
        self.before[:] = self._step(0.0)
        self._pass(row)
        self.rows["steps"][row] = 0

    def decide(self, row: int, action: float) -> None:
        """Let the action take effect and its interval pass."""
        settings = self.rows[row]
        if settings["sets"] == WINDOW:
            self._factor = (_OWN, np.array([orca_factor(action)]))
        elif self._preset.code == AURORA:
            step = float(settings["action_step"])
            self._plan_rate(row, aurora_rate_bps(float(settings["rate_bps"]), action, step))
        else:
            least_bps, most_bps = float(settings["least_bps"]), float(settings["line_rate_bps"])
            self._plan_rate(row, log_rate_bps(action, least_bps, most_bps))
        self._pass(row)

    def _pass(self, row: int) -> None:
        settings = self.rows[row]
        interval_s = float(settings["interval_s"])
        began_s = self._network.now_s
        middle = self._step(0.5 * interval_s)
        after = self._step(began_s + interval_s - self._network.now_s)
        conclude_all(
            self.before,
            middle,
            after,
            self._network.now_s - began_s,
            self.values,
            self._preset.code,
            self.features,
            len(self._preset.features),
            self._reward.code,
            self._weights,
            self.terms,
        )
        plan_next_interval(settings, float(self.values[row, RTT_S]))
        settings["now_s"] = self._network.now_s
        settings["steps"] += 1

    def _step(self, duration_s: float) -> FloatArray:
        """Let time pass; returns the flow's counters, shape (1, N_COUNTERS)."""
        if duration_s <= 0.0:
            readings = self._network.refresh(_OWN)
        else:
            caps_bps, flow_rates, factor = self._caps_bps, self._flow_rates, self._factor
            self._caps_bps = self._flow_rates = self._factor = None
            readings = self._network.step(
                caps_bps, duration_s, flow_rates=flow_rates, window_factors=factor, read_flows=_OWN
            )
        read: FloatArray = np.asarray(readings.flow_counters, dtype=np.float64)
        return read
