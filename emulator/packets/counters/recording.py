"""In-memory recording of selected links and flows, for tables, figures and trace files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.counters.readings import N_HOST_COUNTERS, N_PORT_COUNTERS, read_counters
from sysgym.emulator.packets.counters.rows import FLOW_COUNTERS
from sysgym.emulator.packets.counters.single_flows import read_flows
from sysgym.emulator.packets.counters.statistics import PortCounters, delivered_bytes
from sysgym.emulator.packets.engine.wire import FIXED_POINT_BITS
from sysgym.emulator.packets.memory.flow_record import NO_WINDOW_PACKETS
from sysgym.emulator.packets.memory.records import CAPTURED
from sysgym.emulator.packets.memory.state import State
from sysgym.scenarios.errors import SysgymError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Samples = NDArray[np.void]

FLOW_SAMPLE = np.dtype(
    [
        ("time_s", np.float64),  # since the reset
        ("flow", np.int64),
        ("cwnd_packets", np.float64),  # nan: its transport has no window
        ("pacing_rate_bps", np.float64),  # headers included; nan: it is not paced
        ("host_cap_bps", np.float64),  # cap on the total rate of its host, headers included; nan: none
        ("srtt_s", np.float64),  # nan before the first round trip
        ("in_flight_bytes", np.int64),  # payload that the sender believes to be in flight
        # Payload per time since the previous sample: of acknowledged packets in any order, counted as full
        # ones; and of in-order delivery, which jumps when a loss is repaired.
        ("delivery_rate_bps", np.float64),
        ("goodput_bps", np.float64),
        ("delivered_bytes", np.int64),  # this and the following: since the flow's start
        ("acked_packets", np.int64),
        ("marked_packets", np.int64),  # acknowledged with the echo of a mark
        ("lost_packets", np.int64),  # packets that the sender considered lost
        ("retransmitted_packets", np.int64),
        ("timeouts", np.int64),
    ]
)
"""Sample of a flow, in SI units."""

PORT_SAMPLE = np.dtype(
    [
        ("time_s", np.float64),  # since the reset
        ("port", np.int64),  # id of its link
        ("rate_bps", np.float64),  # present rate of the link
        ("queue_bytes", np.float64),  # now, including the unsent part of the packet being sent
        ("queue_mean_bytes", np.float64),  # over the time since the previous sample
        ("sent_bytes", np.float64),  # this and the following: since the reset
        ("marked_packets", np.int64),
        ("dropped_packets", np.int64),
        ("dropped_bytes", np.int64),
        ("paused_s", np.float64),  # by priority flow control
    ]
)
"""Sample of an output port, in SI units."""
MOST_ROWS = 5_000_000
"""Default limit of the number of samples: about half a gigabyte."""


class TimedCalls(NamedTuple):
    """Function that is called at all multiples of an interval of simulated time."""

    interval_ns: int
    function: Callable[[], object]

    def next_ns(self, now_ns: int) -> int:
        """Return the first such time after now."""
        return (now_ns // self.interval_ns + 1) * self.interval_ns


def checked_flows(flows: Iterable[int], n_flows: int) -> IntArray:
    """Return the ids of flows, ascending; raise SysgymError if one does not exist."""
    flow_ids = np.unique(np.fromiter(flows, dtype=np.int64))
    if len(flow_ids) and not 0 <= flow_ids[0] <= flow_ids[-1] < n_flows:
        raise SysgymError(f"flows {flow_ids[0]} to {flow_ids[-1]}: there are {n_flows}")
    return flow_ids


def with_room_for_packets(state: State, links: IntArray, max_packets: int) -> State:
    """Return a state of the extended loop that keeps the packets of some links; it is not bound yet.

    Raises:
        SysgymError: If ``max_packets`` is not positive.
    """
    if max_packets <= 0:
        raise SysgymError("a recording's sample interval and sizes have to be positive")
    state.ports["recorded"] = 0
    state.ports["recorded"][links] = 1
    state.world["capture_size"] = max_packets if len(links) else 0
    state.world["n_captured"] = 0
    state.world["n_missed"] = 0
    return state._replace(captured=np.zeros(max_packets, CAPTURED))


class Recording:
    """Bounded recording of every packet of some links, and of samples of their queues and of some flows.

    A flow has samples only from its start to its end; the last sample follows its last acknowledgement.

    Args:
        state: The world.
        links: Ids of links.
        flows: Ids of flows.
        sample_interval_s: Simulated time between samples.
        max_rows: Largest number of samples of flows and ports together; sampling times beyond it are only
            counted.

    Attributes:
        links: Recorded links, ascending.
        flows: Recorded flows, ascending.
        missed_samples: Number of sampling times that were not recorded.
    """

    def __init__(
        self, state: State, links: IntArray, flows: IntArray, *, sample_interval_s: float, max_rows: int
    ) -> None:
        """Begin to record; raise SysgymError if a size is not positive."""
        if not (sample_interval_s > 0 and max_rows > 0):
            raise SysgymError("a recording's sample interval and sizes have to be positive")
        self.links, self.flows = links, flows
        self.sample_ns = max(round(sample_interval_s * 1e9), 1)
        self.missed_samples = 0
        self._state = state
        self._max_rows, self._n_rows = max_rows, 0
        self._flow_samples: list[Samples] = []
        self._port_samples: list[Samples] = []
        self._to_come = flows[~_over(state.flows, flows)]
        self._sampled_ns = int(state.world["now_ns"][0])
        self._delivered_bytes = delivered_bytes(state)
        self._acked_packets = state.flows["acked_packets"].astype(np.float64)
        self._ports: FloatArray = np.empty((N_PORT_COUNTERS, len(state.links)))
        self._hosts: FloatArray = np.empty((N_HOST_COUNTERS, len(state.hosts)))
        self._queue_byte_s = self._read_ports().queue_byte_s

    @property
    def packets(self) -> NDArray[np.void]:
        """Return a copy of the packets in the order of queueing, records of ``records.CAPTURED``."""
        return self._state.captured[: int(self._state.world["n_captured"][0])].copy()

    @property
    def missed_packets(self) -> int:
        """Number of packets that were not recorded because the recording was full."""
        return int(self._state.world["n_missed"][0])

    def flow_samples(self) -> Samples:
        """Return all samples of flows so far, records of :data:`FLOW_SAMPLE`, by time and then by flow."""
        return np.concatenate([np.empty(0, FLOW_SAMPLE), *self._flow_samples])

    def port_samples(self) -> Samples:
        """Return all samples of ports so far, records of :data:`PORT_SAMPLE`, by time and then by port."""
        return np.concatenate([np.empty(0, PORT_SAMPLE), *self._port_samples])

    def bind(self, state: State) -> None:
        """Use another state, after arrays have been replaced."""
        self._state = state

    def next_ns(self, after_ns: int) -> int:
        """Return the time of the first sample after a time."""
        return (after_ns // self.sample_ns + 1) * self.sample_ns

    def take(self, now_ns: int, link_rate_bps: FloatArray) -> None:
        """Add a sample of every link, and of every flow that has begun and had not ended at the last one."""
        flows = self._state.flows
        begun = flows["begun"][self._to_come] > 0
        present = self._to_come[begun]
        self._n_rows += len(present) + len(self.links)
        if self._n_rows > self._max_rows:
            self._n_rows = self._max_rows  # full from now on: a later, smaller sample would follow a gap
            self.missed_samples += 1
            return
        time_s, passed_s = now_ns / 1e9, (now_ns - self._sampled_ns) / 1e9
        self._sampled_ns = now_ns
        self._port_samples.append(self._sample_ports(time_s, passed_s, link_rate_bps))
        if len(present):
            self._flow_samples.append(self._sample_flows(time_s, passed_s, present))
            begun[begun] = _over(flows, present)
            self._to_come = self._to_come[~begun]

    def _read_ports(self) -> PortCounters:
        """Read the recorded links' counters; the arrays are valid until the next call."""
        read_counters(int(self._state.world.ctypes.data), self._ports, self._hosts)
        return PortCounters(*self._ports[:, self.links])

    def _sample_ports(self, time_s: float, passed_s: float, link_rate_bps: FloatArray) -> Samples:
        counters, rows = self._read_ports(), np.empty(len(self.links), PORT_SAMPLE)
        rows["time_s"], rows["port"] = time_s, self.links
        rows["rate_bps"] = link_rate_bps[self.links]
        rows["queue_mean_bytes"] = (counters.queue_byte_s - self._queue_byte_s) / passed_s
        self._queue_byte_s = counters.queue_byte_s
        for name in (
            "queue_bytes",
            "sent_bytes",
            "marked_packets",
            "dropped_packets",
            "dropped_bytes",
            "paused_s",
        ):
            rows[name] = getattr(counters, name)
        return rows

    def _sample_flows(self, time_s: float, passed_s: float, ids: IntArray) -> Samples:
        state, counters = self._state, np.empty(len(ids), FLOW_COUNTERS)
        read_flows(int(state.world.ctypes.data), ids, counters)
        flows, rows = state.flows, np.empty(len(ids), FLOW_SAMPLE)
        payload_bytes = int(state.world["payload_bytes"][0])
        rows["time_s"], rows["flow"] = time_s, ids
        has_window = flows["cwnd"][ids] < NO_WINDOW_PACKETS
        rows["cwnd_packets"] = np.where(has_window, counters["cwnd_packets"], np.nan)
        rows["pacing_rate_bps"] = _or_none(flows["pacing_rate_bps"][ids])
        caps = state.hosts["cap_ns_per_byte_q20"][flows["src"][ids]]
        rows["host_cap_bps"] = 8e9 * 2.0**FIXED_POINT_BITS / _or_none(caps)
        rows["srtt_s"] = _or_none(counters["srtt_s"])
        rows["in_flight_bytes"] = np.maximum(counters["in_flight_packets"], 0.0) * payload_bytes
        rows["delivered_bytes"] = delivered_bytes(state, ids)
        rows["goodput_bps"] = (rows["delivered_bytes"] - self._delivered_bytes[ids]) * 8.0 / passed_s
        self._delivered_bytes[ids] = rows["delivered_bytes"]
        rows["acked_packets"] = counters["acked_packets"]
        newly_acked = counters["acked_packets"] - self._acked_packets[ids]
        rows["delivery_rate_bps"] = newly_acked * payload_bytes * 8.0 / passed_s
        self._acked_packets[ids] = counters["acked_packets"]
        rows["marked_packets"] = counters["marked_packets"]
        rows["lost_packets"] = counters["lost_packets"]
        rows["retransmitted_packets"] = flows["retransmitted_packets"][ids]
        rows["timeouts"] = counters["timeouts"]
        return rows


def _over(flows: NDArray[np.void], ids: IntArray) -> NDArray[np.bool_]:
    """Return whether flows have delivered everything and all of it is acknowledged."""
    over: NDArray[np.bool_] = (flows["finish_ns"][ids] >= 0) & (flows["active"][ids] == 0)
    return over


def _or_none(values: NDArray[np.float64] | NDArray[np.int64]) -> FloatArray:
    """Return positive values as they are, and nan for 0."""
    return np.where(values > 0, values, np.nan)
