"""Counters of the kernel's senders by flow and by host, in the simulator's units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.traffic.sockets import TCP_INFO, Connection, read_infos
from sysgym.emulator.packets.counters.rows import FLOW_COUNTERS, HOST_ROW, as_rows
from sysgym.emulator.packets.memory.records import NEVER_NS, NOBODY
from sysgym.emulator.packets.workloads.schedule import FlowSchedule

FloatArray = NDArray[np.float64]

_SENT_BYTES, _SENT_PACKETS, _DELIVERED_BYTES, _ACKED, _RTT_SUM_S = range(5)
_RTT_SAMPLES, _MARKED, _RETRANSMITTED, _TIMEOUTS = range(5, 9)
_N_SUMS = 9


class FlowRecords:
    """Counters of all flows of a schedule, updated by :meth:`sample`.

    Where one of our congestion controls adds up round trips, as for every flow with a slot, they are the
    samples of all ACKs. The kernel's own congestion controls keep no sum: each call adds the smoothed round
    trip (RFC 6298) once for every packet acknowledged since the last call, so that sum over count is a mean
    over packets. Sums and means exclude the time that a packet waits for its host's cap (:meth:`take_off`);
    least and latest round trips include it.

    Args:
        schedule: The flows.
        n_hosts: Number of hosts.
        header_bytes: Bytes of headers of a data packet.
        payload_bytes: Bytes of payload of a full packet.
        reports: Reports of connections with a slot, ``FLOW_RECORD``; None if there are none.

    Attributes:
        info: The last ``TCP_INFO`` of every flow's sender, shape (n_flows,).
        started: Whether a flow has started, shape (n_flows,).
        start_s: Start of each flow; nan before.
        finish_s: Time at which its last byte was received; nan before.
    """

    def __init__(
        self,
        schedule: FlowSchedule,
        n_hosts: int,
        *,
        header_bytes: int,
        payload_bytes: int,
        reports: NDArray[Any] | None = None,
    ) -> None:
        n_flows = len(schedule.src)
        self._src, self._dst = schedule.src.astype(np.int64), schedule.dst.astype(np.int64)
        self._size = schedule.size_bytes.astype(np.float64)
        self._schedule, self._reports = schedule, reports
        self._n_hosts, self._header_bytes, self._payload_bytes = n_hosts, header_bytes, payload_bytes
        self.info: NDArray[np.void] = np.zeros(n_flows, TCP_INFO)
        self.started = np.zeros(n_flows, dtype=np.bool_)
        self.start_s, self.finish_s = np.full(n_flows, np.nan), np.full(n_flows, np.nan)
        self._sums = np.zeros((n_flows, _N_SUMS))
        self._before = np.zeros((n_flows, _N_SUMS))  # what their connections had counted when they started
        self._of_host = np.zeros((n_hosts, _N_SUMS))
        self._round_trips_before = np.zeros((n_flows, 2))  # sums and samples at the last take_off
        self._taken_off_s, self._owed_s = np.zeros(n_flows), np.zeros(n_flows)
        self._received_bytes = np.zeros(n_hosts)

    def sample(self, connections: Sequence[Connection]) -> None:
        """Read the senders of some flows."""
        if not connections:
            return
        flows = np.array([one.flow for one in connections])
        infos = read_infos(connections)
        sums = self._counted(connections, infos) - self._before[flows]
        slots = np.array([one.slot for one in connections])
        silent = slots == 0 if self._reports is not None else np.ones(len(flows), np.bool_)
        before = self._sums[flows]
        new = np.maximum(sums[:, _ACKED] - before[:, _ACKED], 0)
        sums[silent, _RTT_SUM_S] = (before[:, _RTT_SUM_S] + new * infos["rtt_us"] * 1e-6)[silent]
        sums[silent, _RTT_SAMPLES] = (before[:, _RTT_SAMPLES] + new)[silent]
        self.info[flows] = infos
        self._put(flows, sums)

    def continue_connection(self, flow: int, connection: Connection) -> None:
        """Count for a flow only what its connection, which others have used, counts from now on."""
        self._before[flow] = self._counted([connection], read_infos([connection]))[0]

    def _counted(self, connections: Sequence[Connection], infos: NDArray[np.void]) -> FloatArray:
        """Return what connections have counted since they were opened; round trips only in reports."""
        sums = np.zeros((len(connections), _N_SUMS))
        sums[:, _SENT_PACKETS] = infos["data_segs_out"]
        sums[:, _SENT_BYTES] = infos["bytes_sent"] + infos["data_segs_out"] * np.float64(self._header_bytes)
        # The kernel counts the SYN as a byte and as a packet.
        sums[:, _DELIVERED_BYTES] = np.maximum(infos["bytes_acked"].astype(np.float64) - 1, 0)
        sums[:, _ACKED] = np.maximum(infos["delivered"].astype(np.float64) - 1, 0)
        if self._reports is not None:
            slots = np.array([one.slot for one in connections])
            reporting = slots > 0
            found = self._reports[slots[reporting]]
            sums[reporting, _RTT_SUM_S] = found["rtt_sum_us"] * 1e-6
            sums[reporting, _RTT_SAMPLES] = found["rtt_samples"]
        sums[:, _MARKED] = infos["delivered_ce"]
        sums[:, _RETRANSMITTED] = infos["total_retrans"]
        sums[:, _TIMEOUTS] = infos["total_rto"]
        return sums

    def finish(self, flow: int, time_s: float) -> None:
        """Record that all of a flow has been received."""
        self.finish_s[flow] = time_s
        sums = self._sums[flow : flow + 1].copy()
        sums[:, _DELIVERED_BYTES] = self._size[flow]
        self._put(np.array([flow]), sums)

    def _put(self, flows: NDArray[np.int64], sums: FloatArray) -> None:
        # A flow that has been received whole is known to be delivered before its last ACK is back.
        whole = ~np.isnan(self.finish_s[flows])
        sums[whole, _DELIVERED_BYTES] = self._size[flows[whole]]
        change = sums - self._sums[flows]
        self._sums[flows] = sums
        np.add.at(self._of_host, self._src[flows], change)
        np.add.at(self._received_bytes, self._dst[flows], change[:, _DELIVERED_BYTES])

    def take_off(self, wait_s: FloatArray) -> None:
        """Subtract the waits for hosts' caps from the round trips sampled since the last call.

        Args:
            wait_s: Mean wait at each host since then, shape (n_hosts,).
        """
        now = self._sums[:, [_RTT_SUM_S, _RTT_SAMPLES]]
        (sum_s, samples), self._round_trips_before = (now - self._round_trips_before).T, now
        self._owed_s += samples * wait_s[self._src]
        taken_off_s = np.minimum(self._owed_s, sum_s)  # no round trip gets negative: the rest is owed
        self._owed_s -= taken_off_s
        self._taken_off_s += taken_off_s

    def hosts(self) -> FloatArray:
        """Return counters by host, shape (11, n_hosts).

        Rows are as in :class:`~sysgym.emulator.packets.counters.statistics.HostCounters`.
        """
        out = np.empty((len(HOST_ROW), self._n_hosts))
        of_host = self._of_host
        out[HOST_ROW.sent_bytes] = of_host[:, _SENT_BYTES]
        out[HOST_ROW.sent_packets] = of_host[:, _SENT_PACKETS]
        out[HOST_ROW.delivered_bytes] = of_host[:, _DELIVERED_BYTES]
        out[HOST_ROW.received_bytes] = self._received_bytes
        out[HOST_ROW.acked_packets] = of_host[:, _ACKED]
        taken_off_s = np.bincount(self._src, self._taken_off_s, minlength=self._n_hosts)
        out[HOST_ROW.rtt_sum_s] = of_host[:, _RTT_SUM_S] - taken_off_s
        out[HOST_ROW.rtt_samples] = of_host[:, _RTT_SAMPLES]
        out[HOST_ROW.marked_packets] = of_host[:, _MARKED]
        out[HOST_ROW.retransmitted_packets] = of_host[:, _RETRANSMITTED]
        out[HOST_ROW.timeouts] = of_host[:, _TIMEOUTS]
        active = self.started & np.isnan(self.finish_s)
        out[HOST_ROW.active_flows] = np.bincount(self._src[active], minlength=self._n_hosts)
        return out

    def counters(self, flow_ids: NDArray[np.int64]) -> FloatArray:
        """Return counters by flow, shape (n, 13), columns as the fields of ``FLOW_COUNTERS``."""
        sums, info = self._sums[flow_ids], self.info[flow_ids]
        out = np.empty(len(flow_ids), FLOW_COUNTERS)
        lost = info["lost"].astype(np.float64)
        out["sent_packets"] = sums[:, _SENT_PACKETS]
        out["acked_packets"] = sums[:, _ACKED]
        out["marked_packets"] = sums[:, _MARKED]
        out["lost_packets"] = sums[:, _RETRANSMITTED] + lost
        out["delivered_packets"] = np.floor(sums[:, _DELIVERED_BYTES] / self._payload_bytes)
        out["rtt_sum_s"] = sums[:, _RTT_SUM_S] - self._taken_off_s[flow_ids]
        out["rtt_samples"] = sums[:, _RTT_SAMPLES]
        out["timeouts"] = sums[:, _TIMEOUTS]
        out["in_flight_packets"] = np.maximum(
            info["unacked"] - info["sacked"].astype(np.float64) - lost + info["retrans"], 0
        )
        out["cwnd_packets"] = info["snd_cwnd"]
        out["srtt_s"] = info["rtt_us"] * 1e-6 * (sums[:, _RTT_SAMPLES] > 0)
        out["min_rtt_s"] = self._min_rtt_s(flow_ids, 0.0)
        out["active_flows"] = self.started[flow_ids] & np.isnan(self.finish_s[flow_ids])
        return as_rows(out)

    def table(self, ideal_fct_s: FloatArray) -> dict[str, NDArray[np.generic]]:
        """Return arrays of shape (n_flows,), named as the fields of ``FlowTable``."""
        everyone = np.arange(len(self._src))
        sampled = self._sums[:, _RTT_SAMPLES] > 0
        rtt_mean_s = np.full(len(everyone), np.nan)
        sum_s = self._sums[:, _RTT_SUM_S] - self._taken_off_s
        np.divide(sum_s, self._sums[:, _RTT_SAMPLES], out=rtt_mean_s, where=sampled)
        return {
            "src": self._src,
            "dst": self._dst,
            "size_bytes": self._schedule.size_bytes.astype(np.int64),
            "group": self._schedule.group.astype(np.int64),
            "started": self.started.copy(),
            "start_s": np.where(self.started, self.start_s, self._planned_start_s()),
            "finish_s": self.finish_s.copy(),
            "ideal_fct_s": ideal_fct_s,
            "delivered_bytes": self._sums[:, _DELIVERED_BYTES].astype(np.int64),
            "acked_packets": self._sums[:, _ACKED].astype(np.int64),
            "marked_packets": self._sums[:, _MARKED].astype(np.int64),
            "retransmitted_packets": self._sums[:, _RETRANSMITTED].astype(np.int64),
            "timeouts": self._sums[:, _TIMEOUTS].astype(np.int64),
            "rtt_mean_s": rtt_mean_s,
            "rtt_min_s": self._min_rtt_s(everyone, np.nan),
        }

    def _planned_start_s(self) -> FloatArray:
        planned_ns = self._schedule.start_ns
        return np.where(planned_ns < NEVER_NS, planned_ns * 1e-9, np.nan)

    def _min_rtt_s(self, flow_ids: NDArray[np.int64], none: float) -> FloatArray:
        least_us = self.info["min_rtt_us"][flow_ids]
        known = (least_us != 2**32 - 1) & (self._sums[flow_ids, _RTT_SAMPLES] > 0)
        seconds: FloatArray = np.where(known, least_us * 1e-6, none)
        return seconds


def no_flows() -> FlowSchedule:
    """Return a schedule without flows."""
    nobody, never = np.empty(0, np.int32), np.empty(0, np.int64)
    return FlowSchedule(
        nobody, nobody, never, never, nobody, nobody, nobody, np.full((0, 0), NOBODY, np.int32), never, nobody
    )
