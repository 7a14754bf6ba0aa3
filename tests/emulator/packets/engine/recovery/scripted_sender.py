"""One sender whose network is played by a script, in the style of packetdrill."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from sysgym.emulator.compiling import compile_for
from sysgym.emulator.optimising import whole
from sysgym.emulator.packets.engine.event_queue.tournament import new_tournament
from sysgym.emulator.packets.engine.hosts import begin_flow, check_timers, receive_ack
from sysgym.emulator.packets.memory.flow_record import ARRIVED, LOST
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_CE,
    PACKET_DUPLICATE,
    PACKET_IS_ACK,
    world_at,
)
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports.base import Transport
from sysgym.scenarios import CongestionScenario, load_scenario

BEGIN, CHECK_TIMERS = -1, -2


def _play(world_address: int, what: int) -> int:
    world = world_at(world_address, 0)
    if what == BEGIN:
        begin_flow(world, 0, world.now_ns, None)
    elif what == CHECK_TIMERS:
        check_timers(world, world.now_ns, None)
    else:
        receive_ack(world, what, world.now_ns, None)
    return 0


_play_compiled: Any = None


def _halve(flow: Any, event: Any) -> None:
    flow.ssthresh = max(0.5 * flow.cwnd, 2.0)
    flow.cwnd = flow.ssthresh


def _restart(flow: Any, event: Any) -> None:
    flow.ssthresh = max(0.5 * flow.cwnd, 2.0)
    flow.cwnd = 1.0


def _stay(flow: Any, event: Any) -> None:
    pass


HALVING = Transport(
    name="halving",
    summary="halves its window at a loss and never grows",
    on_ack=_stay,
    on_loss=_halve,
    on_timeout=_restart,
)


class ScriptedSender:
    """Sender of one flow. The script says which packets are acknowledged, and when.

    Times are in milliseconds. ``sent()`` returns the packets that left since the last call.
    """

    def __init__(
        self,
        *,
        window: int,
        packets: int = 10**6,
        min_rto_ms: float = 200.0,
        tick_ms: float = 4.0,
        base_rtt_ms: float = 20.0,
        transport: Transport = HALVING,
        detection: str = "rack",
        header_bytes: int = 40,
    ) -> None:
        global _play_compiled
        if _play_compiled is None:
            signature = types.int64(types.int64, types.int64)
            with whole():  # its parts are not optimised one by one, as in the event loop
                _play_compiled = compile_for(signature, _play, packages=["sysgym.emulator.packets"])
        overrides = {
            "topology.hosts_per_side": 1,
            "workload": {"kind": "long_lived", "pairs": "one_to_one"},
            "transport.initial_window_packets": window,
            "transport.min_rto_s": min_rto_ms * 1e-3,
            "transport.max_rto_s": 60.0,
            "transport.timer_tick_s": tick_ms * 1e-3,
            "transport.loss_detection": detection,
            "transport.header_bytes": header_bytes,
            "transport.host_queue_packets": 4096,
        }
        scenario = load_scenario("dumbbell-10g", overrides=overrides, expect=CongestionScenario)
        self._by_time = detection in ("rack", "linux")
        self._network = PacketNetwork(scenario, transport=transport)
        self._state = self._network._state
        self._last_sent_ns: dict[int, int] = {}
        self._seen: set[int] = set()
        self.world: Any = self._state.world.view(np.recarray)[0]
        self.flow: Any = self._state.flows.view(np.recarray)[0]
        self.flow.n_packets = packets
        self.flow.base_rtt_ns = round(base_rtt_ms * 1e6)
        if detection == "linux":  # the handshake's sample
            self.flow.srtt_ns = self.flow.base_rtt_ns
            self.flow.rttvar_ns = self.flow.base_rtt_ns / 2
        self._play(BEGIN)

    def _play(self, what: int) -> None:
        _play_compiled(self._state.world.ctypes.data, what)
        assert self.world.halted == 0

    def at(self, time_ms: float) -> ScriptedSender:
        """Move the clock, and let the timers that are due expire."""
        now_ns = round(time_ms * 1e6)
        tick_ns = int(self.world.timer_tick_ns)
        for tick in range(int(self.world.now_ns) // tick_ns + 1, now_ns // tick_ns + 1):
            self._forget_network(tick * tick_ns)
            self._play(CHECK_TIMERS)
        self._forget_network(now_ns)
        return self

    def _forget_network(self, now_ns: int) -> None:
        """Collect what was sent, and let the card be idle at that time."""
        self._collect()
        self.world.now_ns = now_ns
        self._state.links["busy_until_ns"] = 0
        self._state.hosts["awake"] = 0
        no_events = np.array([], np.int64)
        empty = new_tournament(self._state.world, no_events, len(self._state.leaf_of))
        for name, array in empty._asdict().items():
            getattr(self._state, name)[:] = array

    def _collect(self) -> None:
        links, packets = self._state.links, self._state.packets
        self._pending = getattr(self, "_pending", [])
        for link in np.flatnonzero(links["head"] != NOBODY):
            slot = int(links["head"][link])
            while slot != NOBODY:
                seq = int(self._state.segments["seq"][slot])
                self._last_sent_ns[seq] = int(self._state.segments["sent_ns"][slot])
                self._pending.append(seq)
                slot = int(packets["next"][slot])
            packets["next"][int(links["tail"][link])] = self.world.first_free_packet
            self.world.first_free_packet = int(links["head"][link])
            self.world.free_packets += len(self._pending)
            links["head"][link] = links["tail"][link] = NOBODY

    def sent(self) -> list[int]:
        """Return the packets that left since the last call, in order."""
        self._collect()
        pending, self._pending = self._pending, []
        return pending

    def last_sent_ns(self, seq: int) -> int:
        """Return the time at which a packet was last sent."""
        self._collect()
        return self._last_sent_ns[seq]

    def ack(
        self,
        next_expected: int,
        by: int,
        *,
        duplicate: bool = False,
        marked: bool = False,
        sent_ms: float | None = None,
    ) -> None:
        """Acknowledge all packets below one.

        Args:
            next_expected: The cumulative acknowledgement.
            by: Packet that caused the ACK: at or beyond ``next_expected``, it is acknowledged selectively.
            duplicate: Whether it had arrived before (DSACK).
            marked: Whether it tells of a mark.
            sent_ms: Time of the transmission that arrived; that of the last one if None.
        """
        self._collect()
        slot = int(self.world.first_free_packet)
        self.world.first_free_packet = int(self._state.packets["next"][slot])
        self.world.free_packets -= 1
        self._state.packets["flow"][slot] = 0
        self._state.packets["flags"][slot] = (
            PACKET_IS_ACK | (PACKET_DUPLICATE if duplicate else 0) | (PACKET_CE if marked else 0)
        )
        self._state.segments["seq"][slot] = by
        self._state.segments["ack"][slot] = next_expected
        sent_ns = self._last_sent_ns[by] if sent_ms is None else round(sent_ms * 1e6)
        self._state.segments["sent_ns"][slot] = sent_ns
        self._play(slot)
        self.check()

    def check(self) -> None:
        """Check that the counts agree with the packets' states, which senders that detect by time keep."""
        if not self._by_time:
            return
        state = self._state.transmissions["status"]
        first, mask = int(self.flow.first_transmission), int(self.flow.window_mask)
        window = [int(state[first + (seq & mask)]) for seq in range(int(self.flow.una), int(self.flow.nxt))]
        assert window.count(LOST) == self.flow.lost
        assert window.count(ARRIVED) == self.flow.sacked

    @property
    def window(self) -> float:
        """The transport's window, packets."""
        return float(self.flow.cwnd)


RTT_MS = 20.0


def sender(window: int, **settings: Any) -> ScriptedSender:
    """A sender of which the first packet has made a round trip, so that round trips are known."""
    scripted = ScriptedSender(window=window, **settings)
    assert scripted.sent() == list(range(window))
    scripted.at(RTT_MS).ack(1, by=0)
    assert scripted.sent() == [window]
    return scripted
