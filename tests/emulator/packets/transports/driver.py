"""Driver that calls the compiled callbacks of one flow by hand, like the event loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.engine.sender import call_callback
from sysgym.emulator.packets.memory.callbacks import (
    N_PARAMETERS,
    ON_ACK,
    ON_LOSS,
    ON_START,
    ON_TICK,
    ON_TIMEOUT,
    PARAMETERS,
)
from sysgym.emulator.packets.memory.flow_record import FLOW, flow_at
from sysgym.emulator.packets.memory.records import EVENT, NEVER_NS, event_at
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.base import callback_addresses
from sysgym.emulator.packets.transports.searched import rounds


@njit
def _call_compiled(callback: int, flow_address: int, event_address: int) -> None:
    call_callback(callback, flow_at(flow_address, 0), event_at(event_address, 0))


_call: Any = _call_compiled


class Driver:
    """One flow of a transport; fields of its record are attributes of ``flow``."""

    def __init__(
        self,
        transport: str | Transport,
        cwnd: float = 10.0,
        ssthresh: float = np.inf,
        *,
        line_rate_bps: float = 10e9,
        base_rtt_ns: int = 60_000,
        packet_bytes: int = 1_500,
    ) -> None:
        """Makes a flow and calls on_start."""
        law = get_transport(transport) if isinstance(transport, str) else transport
        self._addresses = callback_addresses((law,))
        self._flows = np.zeros(1, FLOW).view(np.recarray)
        self._events = np.zeros(1, EVENT).view(np.recarray)
        self.flow: Any = self._flows[0]
        self.event: Any = self._events[0]
        self.flow.cwnd = cwnd
        self.flow.ssthresh = ssthresh
        self.flow.min_rtt_ns = NEVER_NS
        self.flow.line_rate_bps = line_rate_bps
        self.flow.base_rtt_ns = base_rtt_ns
        self.flow.packet_bytes = packet_bytes
        self.event.window_limited = 1
        self.event.parameters, self.event.n_parameters = self._addresses[PARAMETERS : N_PARAMETERS + 1]
        self._notify(ON_START)

    def _notify(self, what: int) -> None:
        _call(self._addresses[what], self._flows.ctypes.data, self._events.ctypes.data)

    def ack(
        self, packets: int = 1, *, marked: bool = False, rtt_ns: int = 100_000, now_ns: int | None = None
    ) -> None:
        """An ACK for some packets, the window kept full."""
        self.event.now_ns = self.event.now_ns if now_ns is None else now_ns
        self.event.acked_packets = packets
        self.event.marked = int(marked)
        self.event.rtt_ns = rtt_ns
        self.event.rtt_sampled = 1
        self.event.in_flight_packets = int(self.flow.cwnd)
        self.flow.srtt_ns = float(rtt_ns)
        self.event.delivered_packets += packets
        self.flow.delivered_packets = self.event.delivered_packets
        self.flow.una += packets
        self.flow.nxt = max(self.flow.una + int(self.flow.cwnd), self.flow.nxt)
        self._notify(ON_ACK)

    def call_on_ack(self) -> None:
        """Calls on_ack with the event as it stands."""
        self._notify(ON_ACK)

    def lose(self) -> None:
        """The beginning of a fast recovery; it is over at once."""
        self.event.in_flight_packets = int(self.flow.cwnd)
        self._notify(ON_LOSS)

    def time_out(self) -> None:
        """A retransmission time-out."""
        self.event.in_flight_packets = int(self.flow.cwnd)
        self._notify(ON_TIMEOUT)

    def tick(self, now_ns: int) -> None:
        """The clock of a transport with timers."""
        self.event.now_ns = now_ns
        self._notify(ON_TICK)

    def round_trip(self, *, marked_fraction: float = 0.0, rtt_ns: int = 100_000) -> None:
        """A window's worth of ACKs, the first of them marked."""
        packets = int(self.flow.cwnd)
        for index in range(packets):
            self.event.now_ns += rtt_ns // packets
            self.ack(marked=index < marked_fraction * packets, rtt_ns=rtt_ns)


def packet_ns(driver: Driver) -> float:
    """The time that a packet takes on the flow's line."""
    return float(8e9 * driver.flow.packet_bytes / driver.flow.line_rate_bps)


def one_round(driver: Driver, queue: float = 0.0, *, marked: bool = False) -> float:
    """ACKs with the round trip of a queue until a round ends; returns the window before the last of them."""
    rtt_ns = int(driver.flow.base_rtt_ns + queue * packet_ns(driver))
    end = driver.flow.state[rounds.ROUND_END]
    before = float(driver.flow.state[rounds.WINDOW])
    between_acks_ns = int(rtt_ns / max(end - driver.flow.una, 1.0))
    while driver.flow.state[rounds.ROUND_END] == end:
        before = float(driver.flow.state[rounds.WINDOW])
        driver.event.now_ns += between_acks_ns
        driver.ack(marked=marked, rtt_ns=rtt_ns)
    return before
