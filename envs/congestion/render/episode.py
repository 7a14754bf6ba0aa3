"""Picture of an episode of a whole network: the network on the left, time series on the right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.render.frame import (
    CROSS,
    DASHED,
    INK,
    LINES,
    SOLID,
    Frame,
    Picture,
    TimePanel,
    amount,
    clock,
    span_end,
)
from sysgym.envs.congestion.render.history import MOST_HOSTS_DRAWN, PORTS_DRAWN, History
from sysgym.envs.congestion.render.network import NetworkPanel
from sysgym.envs.congestion.render.window import window

FloatArray = NDArray[np.float64]

MANY_HOSTS = 12
"""Number of hosts above which their range replaces a curve for each host."""
HEADROOM = 1.02
IDEAL = "max-min fair ideal"
RANGE, LONGEST = "#bfe1f5", "#c3cad2"


class EpisodePicture:
    """Picture of a history, updated as the history grows.

    Args:
        history: History to draw.
        scenario: Title.
        contender: Name of the agent or transport.
        paced: Whether the agent alone determines the send rates of hosts; otherwise the measured send rates
            are shown instead of the allowed ones.
    """

    def __init__(self, history: History, scenario: str, contender: str, *, paced: bool) -> None:
        self._history, self._rates = history, history.rate_bps if paced else history.sent_bps
        fabric = history.fabric
        self._frame = Frame(scenario, contender)
        self._network = NetworkPanel(self._frame, fabric.topology, fabric.port_links)
        self._few = fabric.n_hosts <= MANY_HOSTS
        self._queue_panel = self._make_queues()
        least_bps = 0.2 * float(fabric.line_rate_bps.max())
        rate = "Allowed rate" if paced else "Send rate"
        goodput = "Goodput"
        if not self._few:
            rate, goodput = f"{rate} of hosts", f"{goodput}, all hosts together"
        self._rate_panel = TimePanel(self._frame, 1, rate, "b/s", floor=least_bps)
        self._goodput_panel = TimePanel(self._frame, 2, goodput, "b/s", floor=least_bps)
        if self._few:
            self._rate_lines = self._lines(self._rate_panel, 2.2)
            self._goodput_lines = self._lines(self._goodput_panel, 2.2)
            self._fair_lines = self._lines(self._goodput_panel, 1.4, colour=INK, linestyle=(0, (4, 2)))
        else:
            self._rate_range = self._rate_panel.band(RANGE, 1.0)
            self._rate_middle = self._rate_panel.line(LINES[0], steps=True)
            self._rate_panel.legend(
                [(SOLID, "lowest to highest", RANGE), (SOLID, "median, of those that send", LINES[0])]
            )
            self._total = self._goodput_panel.line(LINES[2], steps=True, width=2.6)
            self._ideal = self._goodput_panel.line(INK, steps=True, width=1.4, linestyle=(0, (4, 2)))
            self._goodput_panel.legend([(SOLID, "delivered", LINES[2]), (DASHED, IDEAL, INK)])
        for panel in (self._queue_panel, self._rate_panel, self._goodput_panel):
            panel.names_on_top()
        self._named: tuple[list[tuple[int, int]], list[int], bool] | None = None

    def pixels(self) -> Picture:
        """Return the picture of the current history."""
        history = self._history
        if not len(history):
            return self._frame.pixels()
        time_s = history.time_s.column
        begin_s, end_s = window(time_s, history.end_s)
        last_s = span_end(time_s, history.end_s)
        # The first row is measured at the reset, before any decision.
        self._frame.set_time(f"t = {clock(history.now_s, last_s)}", f"decision {len(history) - 1}")
        for panel in (self._queue_panel, self._rate_panel, self._goodput_panel):
            panel.set_span(begin_s, end_s, last_s)
            panel.set_now(history.now_s)
        senders = history.senders[:MOST_HOSTS_DRAWN] if self._few else []
        self._name_curves(senders)
        self._update_queues(time_s)
        # No rate is set before the first decision.
        if self._few:
            self._update_each(time_s[1:], senders)
        elif len(history) > 1:
            self._update_all(time_s[1:])
        self._network.update(
            history.utilization,
            history.queue_max_bytes.rows[-1],
            self._queue_panel.limit,
            history.active.rows[-1] > 0.0,
            history.fabric.ecn_threshold_bytes,
            dict(zip(senders, LINES, strict=False)),
            history.receivers,
        )
        self._name_ends(senders)
        return self._frame.pixels()

    def _make_queues(self) -> TimePanel:
        fabric = self._history.fabric
        threshold = fabric.ecn_threshold_bytes
        floor = max(1.5 * (threshold or 0.0), 0.02 * fabric.buffer_bytes)
        panel = TimePanel(self._frame, 0, "Largest queue of each interval", "B", floor=floor)
        if threshold is not None:
            panel.level(threshold, f"K = {amount(threshold)}B, marks above")
        panel.level(fabric.buffer_bytes, f"buffer {amount(fabric.buffer_bytes)}B", dotted=True)
        self._longest = panel.band(LONGEST, 0.7)
        self._queue_lines = [panel.line(colour, width=2.0) for colour in LINES[:PORTS_DRAWN]]
        self._drops = panel.line(INK, width=0.0, marker="x", markersize=6, markeredgewidth=1.8, clip_on=False)
        return panel

    @staticmethod
    def _lines(panel: TimePanel, width: float, colour: str | None = None, **style: Any) -> list[Any]:
        return [
            panel.line(colour or own, steps=True, width=width, **style) for own in LINES[:MOST_HOSTS_DRAWN]
        ]

    def _name_curves(self, senders: list[int]) -> None:
        """Redraw legends if curves were added or removed."""
        history = self._history
        dropped = bool(history.dropped_packets.column.any())
        named = (history.curves, list(senders), dropped)
        if named == self._named:
            return
        self._named = named
        fabric = history.fabric
        entries = []
        if fabric.n_ports > len(history.curves):
            entries.append((SOLID, f"longest of all {fabric.n_ports} ports", LONGEST))
        if dropped:
            entries.append((CROSS, "drops", INK))
        self._queue_panel.legend(entries)
        if self._few:
            self._goodput_panel.legend([(DASHED, IDEAL, INK)])

    def _name_ends(self, senders: list[int]) -> None:
        """Write the names of curves at their ends."""
        fabric = self._history.fabric
        self._queue_panel.name_lines(
            [
                (self._queue_lines[place], fabric.port_names[port].replace("->", "→"), LINES[place])
                for place, port in self._history.curves
            ]
        )
        if not self._few:
            return
        for panel, lines in (
            (self._rate_panel, self._rate_lines),
            (self._goodput_panel, self._goodput_lines),
        ):
            panel.name_lines(
                [(lines[place], fabric.host_names[host], LINES[place]) for place, host in enumerate(senders)]
            )

    def _update_queues(self, time_s: FloatArray) -> None:
        history, panel = self._history, self._queue_panel
        queues = history.queue_max_bytes.rows
        panel.raise_limit(min(HEADROOM * float(queues.max()), history.fabric.buffer_bytes))
        longest = queues.max(axis=1)
        panel.draw_band(self._longest, time_s, np.zeros_like(longest), longest, steps=False)
        curves = dict(history.curves)
        for place, line in enumerate(self._queue_lines):
            line.set_visible(place in curves)
            if place in curves:
                panel.draw(line, time_s, queues[:, curves[place]])
        dropping = history.dropped_packets.column > 0.0
        dropping &= panel.shows(time_s)
        panel.draw(self._drops, time_s[dropping], np.full(int(dropping.sum()), panel.limit))

    def _update_each(self, time_s: FloatArray, senders: list[int]) -> None:
        history = self._history
        rates, goodput, ideal = self._rates.rows[1:], history.goodput_bps.rows[1:], history.ideal_bps.rows[1:]
        if len(time_s):
            self._rate_panel.raise_limit(HEADROOM * float(rates.max()))
            self._goodput_panel.raise_limit(HEADROOM * float(max(goodput.max(), ideal.max())))
        for place, host in enumerate(senders):
            self._rate_panel.draw(self._rate_lines[place], time_s, rates[:, host])
            self._goodput_panel.draw(self._goodput_lines[place], time_s, goodput[:, host])
            self._goodput_panel.draw(self._fair_lines[place], time_s, ideal[:, host])

    def _update_all(self, time_s: FloatArray) -> None:
        history = self._history
        sending = history.active.rows[1:] > 0.0
        rates = np.where(sending, self._rates.rows[1:], np.nan)
        low, middle, high = np.full((3, len(time_s)), np.nan)
        some = sending.any(axis=1)
        if some.any():
            low[some], middle[some], high[some] = np.nanquantile(rates[some], (0.0, 0.5, 1.0), axis=1)
            self._rate_panel.raise_limit(HEADROOM * float(np.nanmax(high)))
        self._rate_panel.draw_band(self._rate_range, time_s, low, high)
        self._rate_panel.draw(self._rate_middle, time_s, middle)
        total, ideal = history.goodput_bps.rows[1:].sum(axis=1), history.ideal_bps.rows[1:].sum(axis=1)
        self._goodput_panel.raise_limit(HEADROOM * float(max(total.max(), ideal.max())))
        self._goodput_panel.draw(self._total, time_s, total)
        self._goodput_panel.draw(self._ideal, time_s, ideal)
