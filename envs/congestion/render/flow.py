"""Rendering of an episode of one flow, as a line of text or a picture drawn with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.envs.congestion.flow.intervals import FLOW_INTERVAL, IntervalArray
from sysgym.envs.congestion.flow.metrics import interval_metrics
from sysgym.envs.congestion.flow.world import fair_flow_rates_bps
from sysgym.envs.congestion.render.frame import (
    CROSS,
    DASHED,
    INK,
    LINES,
    SOLID,
    Frame,
    Picture,
    Series,
    TimePanel,
    amount,
    clock,
    span_end,
    time_text,
)
from sysgym.envs.congestion.render.window import window

if TYPE_CHECKING:
    from sysgym.envs.congestion.render.network import NetworkPanel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

N_ROWS = 4
HEADROOM = 1.05
RATE, GOODPUT, RTT, LOSS, MARKS = LINES[0], LINES[2], LINES[1], INK, LINES[4]
THERE, BACK = LINES[3], "#9aa3ad"


class FlowRecorder:
    """Recorder of an episode of one flow, for rendering; it does not modify the network.

    Args:
        scenario: Heading of pictures and text.
        preset: Name of the preset.
        transport: Congestion control law of the flow.
    """

    def __init__(self, scenario: str, preset: str, transport: str) -> None:
        self._scenario, self._preset, self._transport = scenario, preset, transport
        self._contender: str | None = None
        self._picture: FlowPicture | None = None
        self._history: FlowHistory | None = None

    @property
    def contender(self) -> str:
        """Name of the agent for pictures; preset and transport if none was given."""
        return self._contender or f"preset {self._preset}, transport {self._transport}"

    @contender.setter
    def contender(self, words: str) -> None:
        self._contender = words
        self._picture = None

    def clear(self, network: Network, flow: int = 0, end_s: float | None = None) -> None:
        """Begin an episode.

        Args:
            network: The network after its reset.
            flow: The flow of the agent.
            end_s: End of the episode; None: unknown, because intervals follow the round-trip time.
        """
        self._history = FlowHistory(network, flow, end_s)
        self._picture = None

    def record(self, interval: np.void) -> None:
        """Record one interval.

        Args:
            interval: A ``FLOW_INTERVAL`` record.

        Raises:
            RuntimeError: If no episode has begun.
        """
        if self._history is None:
            raise RuntimeError("record() before clear()")
        self._history.add(interval)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy: the recorded history; the picture is redrawn."""
        return {**self.__dict__, "_picture": None}

    def text(self) -> str:
        """Return a one-line summary of the newest interval."""
        if self._history is None or not len(self._history):
            return "nothing yet: call reset()"
        metrics = interval_metrics(self._history.newest)
        return (
            f"{self._scenario}, {self._preset}: {self._history.now_s * 1e3:.3f} ms, rate "
            f"{metrics['rate_bps'] / 1e6:.3f} Mb/s, goodput {metrics['goodput_bps'] / 1e6:.3f} Mb/s, RTT "
            f"{metrics['rtt_mean_s'] * 1e3:.3f} ms, lost {metrics['loss_fraction']:.2%}, marked "
            f"{metrics['mark_fraction']:.2%}"
        )

    def picture(self) -> Picture:
        """Return a picture of the newest interval and the flow so far, shape (720, 1280, 3)."""
        if self._history is None:
            return Frame(self._scenario, self.contender).pixels()
        if self._picture is None:
            self._picture = FlowPicture(self._history, self._scenario, self.contender)
        return self._picture.pixels()


class FlowHistory:
    """Recorded intervals of one flow, one row each; the first interval ends when the agent starts.

    Args:
        network: The network after its reset.
        flow: The flow of the agent.
        end_s: End of the episode; None: unknown.
    """

    def __init__(self, network: Network, flow: int, end_s: float | None) -> None:
        self.network, self.flow, self.end_s = network, np.array([flow], dtype=np.int64), end_s
        self.topology = network.topology
        self.path, back = (_links(network.routes(acks=acks)[flow]) for acks in (False, True))
        self.ports: IntArray = np.asarray(self.topology.switch_ports, dtype=np.int64)
        self._ports_there, self._ports_back = (
            np.flatnonzero(np.isin(self.ports, way)) for way in (self.path, back)
        )
        self.time_s = Series()
        self._intervals = Series(len(FLOW_INTERVAL.names or ()))
        self.fair_bps = Series()
        self.path_queue_bytes = Series(2)
        """Longest mean queue of each interval: on the path of the data, and on the path of the ACKs."""
        self.queue_bytes: FloatArray = np.zeros(len(self.ports))
        """Mean queue of every switch port in the newest interval."""
        self.utilization: FloatArray = np.zeros(self.topology.n_links)
        self.active: NDArray[np.bool_] = np.zeros(self.topology.n_hosts, dtype=np.bool_)
        self._read_s = network.now_s
        ports = network.ports()
        self._sent_bytes, self._queue_byte_s = ports.sent_bytes.copy(), ports.queue_byte_s.copy()

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def now_s(self) -> float:
        """End of the newest interval."""
        return float(self.time_s.column[-1])

    @property
    def newest(self) -> np.void:
        """The newest interval."""
        record: np.void = self.intervals[-1]
        return record

    @property
    def intervals(self) -> IntervalArray:
        """All intervals so far, ``FLOW_INTERVAL`` records."""
        return np.ascontiguousarray(self._intervals.rows).view(FLOW_INTERVAL)[:, 0]

    def add(self, interval: np.void) -> None:
        """Record one interval."""
        network = self.network
        ports, now_s = network.ports(), network.now_s
        if now_s > self._read_s:
            duration_s = now_s - self._read_s
            sent_bytes = ports.sent_bytes - self._sent_bytes
            self.utilization = 8.0 * sent_bytes / duration_s / self.topology.link_rate_bps
            self.queue_bytes = ((ports.queue_byte_s - self._queue_byte_s) / duration_s)[self.ports]
        self._read_s = now_s
        self._sent_bytes, self._queue_byte_s = ports.sent_bytes.copy(), ports.queue_byte_s.copy()
        self.active = network.hosts().active_flows > 0
        self.time_s.append(now_s)
        self._intervals.append(np.array(interval.tolist()))
        self.fair_bps.append(float(fair_flow_rates_bps(network, self.flow)[0]))
        self.path_queue_bytes.append(
            np.array(
                [self.queue_bytes[way].max(initial=0.0) for way in (self._ports_there, self._ports_back)]
            )
        )


class FlowPicture:
    """Picture of a history, updated as the history grows.

    Args:
        history: History to draw.
        scenario: Title.
        contender: Name of the agent or transport.
    """

    def __init__(self, history: FlowHistory, scenario: str, contender: str) -> None:
        self._history = history
        network = history.network
        self._frame = frame = Frame(scenario, contender)
        self._network = _network_panel(frame, history)
        queue = network.scenario.queue
        link_bps = float(history.topology.link_rate_bps[history.path].min())
        self._threshold = queue.ecn_threshold_bytes

        self._rates = TimePanel(frame, 0, "Rate", "b/s", floor=0.2 * link_bps, n_rows=N_ROWS)
        self._rates.level(link_bps, f"slowest link {amount(link_bps)}b/s", dotted=True)
        self._goodput = self._rates.line(GOODPUT, steps=True, width=3.0)
        self._rate = self._rates.line(RATE, steps=True, width=1.6)
        self._fair = self._rates.line(INK, steps=True, width=1.5, linestyle=(0, (4, 2)))
        self._rates.legend(
            [(SOLID, "send rate", RATE), (SOLID, "goodput", GOODPUT), (DASHED, "max-min fair share", INK)]
        )

        self._rtts = TimePanel(frame, 1, "Round trip", "s", floor=1e-6, n_rows=N_ROWS)
        self._rtt = self._rtts.line(RTT, steps=True)
        self._rtts.legend([(SOLID, "mean of the interval's samples", RTT)])
        self._base_named = False

        floor = max(1.5 * (self._threshold or 0.0), 0.02 * queue.buffer_bytes)
        self._queues = TimePanel(
            frame, 2, "Queue on the path, interval's mean", "B", floor=floor, n_rows=N_ROWS
        )
        if self._threshold is not None:
            self._queues.level(self._threshold, f"K = {amount(self._threshold)}B, marks above")
        self._queues.level(queue.buffer_bytes, f"buffer {amount(queue.buffer_bytes)}B", dotted=True)
        self._queue_back = self._queues.line(BACK, width=2.0)
        self._queue_there = self._queues.line(THERE, width=2.2)
        self._queues.legend([(SOLID, "of the data", THERE), (SOLID, "of its ACKs", BACK)])

        self._signals = TimePanel(frame, 3, "Lost or marked packets", "%", floor=0.05, n_rows=N_ROWS)
        self._marks = self._signals.line(MARKS, steps=True)
        self._loss = self._signals.line(LOSS, width=0.0, marker="x", markersize=6, markeredgewidth=1.8)
        self._signals.legend([(SOLID, "marked", MARKS), (CROSS, "lost", LOSS)])

    def pixels(self) -> Picture:
        """Return the picture of the current history."""
        history = self._history
        if not len(history):
            return self._frame.pixels()
        time_s, intervals = history.time_s.column, history.intervals
        begin_s, end_s = window(time_s, history.end_s)
        last_s = span_end(time_s, history.end_s)
        self._frame.set_time(f"t = {clock(history.now_s, last_s)}", f"decision {len(history) - 1}")
        if not self._base_named:
            self._name_base(float(intervals["base_rtt_s"][0]))
        for panel in (self._rates, self._rtts, self._queues, self._signals):
            panel.set_span(begin_s, end_s, last_s)
            panel.set_now(history.now_s)

        rate, goodput = intervals["rate_bps"], intervals["goodput_bps"]
        fair = history.fair_bps.column
        self._rates.raise_limit(HEADROOM * float(max(rate.max(), goodput.max(), fair.max())))
        self._rates.draw(self._rate, time_s, rate)
        self._rates.draw(self._goodput, time_s, goodput)
        self._rates.draw(self._fair, time_s, fair)

        rtt = intervals["rtt_s"]
        self._rtts.raise_limit(HEADROOM * float(rtt.max()))
        self._rtts.draw(self._rtt, time_s, np.where(rtt > 0.0, rtt, np.nan))

        queue = history.path_queue_bytes.rows
        self._queues.raise_limit(HEADROOM * float(queue.max()))
        self._queues.draw(self._queue_there, time_s, queue[:, 0])
        self._queues.draw(self._queue_back, time_s, queue[:, 1])

        marks, loss = intervals["mark_fraction"], intervals["loss_fraction"]
        self._signals.raise_limit(min(HEADROOM * float(max(marks.max(), loss.max())), 1.0))
        self._signals.draw(self._marks, time_s, marks)
        self._signals.draw(self._loss, time_s[loss > 0.0], loss[loss > 0.0])

        self._network.update(
            history.utilization,
            history.queue_bytes,
            self._queues.limit,
            history.active,
            self._threshold,
            {int(history.topology.link_source[history.path[0]]): RATE},
            np.arange(history.topology.n_hosts) == history.topology.link_target[history.path[-1]],
        )
        self._name_ends()
        return self._frame.pixels()

    def _name_ends(self) -> None:
        """Write the names of curves at their ends."""
        self._rates.name_lines(
            [(self._rate, "sent", RATE), (self._goodput, "goodput", GOODPUT), (self._fair, "fair", INK)]
        )
        self._queues.name_lines([(self._queue_there, "data", THERE), (self._queue_back, "ACKs", BACK)])

    def _name_base(self, base_s: float) -> None:
        """Draw the round-trip time of the empty path, which the first interval holds, with names on top."""
        self._base_named = True
        self._rtts.raise_limit(1.6 * base_s)
        self._rtts.level(base_s, f"empty path {time_text(base_s)}")
        for panel in (self._rates, self._rtts, self._queues):
            panel.names_on_top()


def _links(route: NDArray[np.int32]) -> IntArray:
    return route[route >= 0].astype(np.int64)


def _network_panel(frame: Frame, history: FlowHistory) -> NetworkPanel:
    from sysgym.envs.congestion.render.network import NetworkPanel

    return NetworkPanel(frame, history.topology, history.ports, path=history.path, queue_word="mean queue")
