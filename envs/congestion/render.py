"""What an episode looks like: bars in a terminal, or a picture drawn with matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.measurement import Fabric, Interval

FloatArray = NDArray[np.float64]

BAR_WIDTH = 24
PORTS_SHOWN = 6
HOSTS_SHOWN = 8
LEAST_QUEUE_SHOWN = 0.05
"""Of the longest queue."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


class Recorder:
    """Keeps what is needed to draw an episode.

    Args:
        fabric: The network.
        title: Heading of pictures and text.
    """

    def __init__(self, fabric: Fabric, title: str) -> None:
        self._title = title
        self.clear(fabric)

    def clear(self, fabric: Fabric) -> None:
        """Begin an episode."""
        self._fabric = fabric
        self._time_s: list[float] = []
        self._queue_bytes: list[FloatArray] = []
        self._queue_max_bytes: list[FloatArray] = []
        self._rate_bps: list[FloatArray] = []
        self._goodput_bps: list[FloatArray] = []
        self._active: list[NDArray[np.bool_]] = []

    def record(self, interval: Interval) -> None:
        """Remember one interval."""
        duration_s = interval.duration_s
        self._time_s.append(interval.after.now_s)
        self._queue_bytes.append(interval.queue_bytes)
        self._queue_max_bytes.append(interval.queue_max_bytes)
        self._rate_bps.append(interval.action * self._fabric.line_rate_bps)
        goodput = (
            interval.delivered_bytes * 8.0 / duration_s
            if duration_s > 0.0
            else np.zeros(self._fabric.n_hosts)
        )
        self._goodput_bps.append(goodput)
        self._active.append(interval.active_flows > 0)

    def text(self) -> str:
        """Return the newest interval: a line for time, one for each of the busiest ports and hosts."""
        if not self._time_s:
            return "nothing yet: call reset()"
        fabric = self._fabric
        # The first record is the reading of the reset, before any decision.
        lines = [f"{self._title}   {_time(self._time_s[-1])}, decision {len(self._time_s) - 1}"]
        lines.append(
            f"queues of switch ports (full bar {_amount(fabric.buffer_bytes)}B, the longest of the episode)"
        )
        ports = self._ports_shown()
        width = max(len(fabric.port_names[port]) for port in ports)
        for port in ports:
            queue = self._queue_bytes[-1][port]
            delay_s = queue * 8.0 / fabric.port_rate_bps[port]
            lines.append(
                f"  {fabric.port_names[port]:<{width}} {bar(queue / fabric.buffer_bytes)} "
                f"{_amount(queue):>8}B  {_time(delay_s):>9}"
            )
        lines += _left_out(fabric.n_ports - len(ports), "port")
        lines.append("hosts (bar: goodput of line rate)")
        hosts = self._hosts_shown()
        width = max(len(fabric.host_names[host]) for host in hosts)
        for host in hosts:
            goodput, rate = self._goodput_bps[-1][host], self._rate_bps[-1][host]
            lines.append(
                f"  {fabric.host_names[host]:<{width}} {bar(goodput / fabric.line_rate_bps[host])} "
                f"goodput {_amount(goodput):>8}b/s  rate {_amount(rate):>8}b/s"
                f"{'' if self._active[-1][host] else '  idle'}"
            )
        lines += _left_out(fabric.n_hosts - len(hosts), "host")
        return "\n".join(lines) + "\n"

    def picture(self) -> NDArray[np.uint8]:
        """Return the episode so far as a picture, shape (height, width, 3)."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 6.6), dpi=100, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        queue_axes, rate_axes, goodput_axes = figure.subplots(3, 1, sharex=True)
        figure.suptitle(self._title, fontsize=11)
        for axes in (queue_axes, rate_axes, goodput_axes):
            axes.grid(alpha=0.3)
        if self._time_s:
            scale, unit = _time_scale(self._time_s[-1])
            time = np.asarray(self._time_s) / scale
            self._draw_queues(queue_axes, time)
            # Before the first decision there is no rate that anyone chose.
            self._draw_hosts(rate_axes, time[1:], self._rate_bps[1:], "allowed rate")
            self._draw_hosts(goodput_axes, time[1:], self._goodput_bps[1:], "goodput")
            goodput_axes.set_xlabel(f"simulated time ({unit})")
            rate_axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3].copy()

    def _draw_queues(self, axes: Any, time: FloatArray) -> None:
        fabric = self._fabric
        queues = np.asarray(self._queue_max_bytes)
        ports = self._ports_shown()
        scale, prefix = _scale(max(float(queues[:, ports].max()), fabric.ecn_threshold_bytes or 0.0, 1.0))
        for port in ports:
            axes.plot(time, queues[:, port] / scale, linewidth=1.2, label=fabric.port_names[port])
        if fabric.ecn_threshold_bytes is not None:
            threshold = fabric.ecn_threshold_bytes / scale
            axes.axhline(threshold, color="black", linestyle="--", linewidth=1.0, label="K: marks above")
        if queues.max() > 0.5 * fabric.buffer_bytes:
            axes.axhline(
                fabric.buffer_bytes / scale, color="black", linestyle=":", linewidth=1.0, label="buffer"
            )
        axes.set_ylabel(f"largest queue ({prefix}B)")
        axes.set_ylim(bottom=0.0)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)

    def _draw_hosts(self, axes: Any, time: FloatArray, values: list[FloatArray], name: str) -> None:
        hosts = self._hosts_shown()
        if not values:
            return
        series = np.asarray(values)[:, hosts]
        scale, prefix = _scale(max(float(series.max()), 1.0))
        for column, host in enumerate(hosts):
            axes.step(
                time,
                series[:, column] / scale,
                where="pre",
                linewidth=1.2,
                label=self._fabric.host_names[host],
            )
        axes.set_ylabel(f"{name} ({prefix}b/s)")
        axes.set_ylim(0.0, 1.08 * max(float(series.max()), 1.0) / scale)

    def _ports_shown(self) -> list[int]:
        """The ports that had the longest queues, without those that hardly had one, in the fabric's order."""
        longest = np.max(self._queue_max_bytes, axis=0)
        chosen = _largest(longest, PORTS_SHOWN)
        return sorted(port for port in chosen if longest[port] >= LEAST_QUEUE_SHOWN * longest[chosen[0]])

    def _hosts_shown(self) -> list[int]:
        """The hosts that delivered most, in the fabric's order."""
        goodput = np.mean(self._goodput_bps, axis=0)
        chosen = _largest(goodput, HOSTS_SHOWN)
        return sorted(host for host in chosen if goodput[host] > 0.0 or goodput[chosen[0]] == 0.0)


def bar(fraction: float, width: int = BAR_WIDTH) -> str:
    """Return a bar of fixed width, filled to an eighth of a character."""
    eighths = round(min(max(fraction, 0.0), 1.0) * width * 8)
    full, part = divmod(eighths, 8)
    return "|" + ("█" * full + (_EIGHTHS[part] if part else "")).ljust(width) + "|"


def _largest(values: FloatArray, count: int) -> list[int]:
    """Indices of the largest values; of equal ones the first come first."""
    return [int(index) for index in np.argsort(-values, kind="stable")[:count]]


def _left_out(count: int, what: str) -> list[str]:
    return [f"  and {count} more {what}{'s' if count > 1 else ''}"] if count > 0 else []


def _scale(value: float) -> tuple[float, str]:
    return next(((scale, prefix) for scale, prefix in _UNITS if value >= scale), _UNITS[-1])


def _time_scale(value_s: float) -> tuple[float, str]:
    return next(((scale, unit) for scale, unit in _TIME_UNITS if value_s >= scale), _TIME_UNITS[-1])


def _amount(value: float) -> str:
    scale, prefix = _scale(value)
    return f"{value / scale:.3g} {prefix}"


def _time(value_s: float) -> str:
    scale, unit = _time_scale(value_s)
    return f"{value_s / scale:.4g} {unit}"
