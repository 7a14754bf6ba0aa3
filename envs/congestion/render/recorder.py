"""Rendering of an episode, as bars in a terminal or a picture drawn with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.datacenter.measurement import Fabric, Interval
from sysgym.envs.congestion.render.frame import Picture, amount, time_text
from sysgym.envs.congestion.render.history import History

if TYPE_CHECKING:
    from sysgym.envs.congestion.render.episode import EpisodePicture

FloatArray = NDArray[np.float64]

BAR_WIDTH = 24
PORTS_SHOWN = 6
HOSTS_SHOWN = 8
LEAST_QUEUE_SHOWN = 0.05
"""Fraction of the longest queue below which a port is omitted."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Recorder:
    """Recorder of an episode, for rendering.

    Args:
        fabric: The network.
        scenario: Heading of pictures and text.
        transport: Congestion control law of the hosts.
    """

    def __init__(self, fabric: Fabric, scenario: str, transport: str) -> None:
        self._scenario, self._transport = scenario, transport
        self._contender: str | None = None
        self._picture: EpisodePicture | None = None
        self.clear(fabric)

    @property
    def contender(self) -> str:
        """Name of the agent for pictures; the transport if none was given."""
        return self._contender or f"transport {self._transport}"

    @contender.setter
    def contender(self, words: str) -> None:
        self._contender = words
        self._picture = None

    def clear(self, fabric: Fabric, end_s: float | None = None) -> None:
        """Begin an episode.

        Args:
            fabric: The network.
            end_s: End of the episode; None: unknown.
        """
        self._fabric = fabric
        self._history = History(fabric, end_s)
        self._picture = None

    def record(self, interval: Interval) -> None:
        """Record one interval."""
        self._history.add(interval)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy: the recorded history; the picture is redrawn."""
        return {**self.__dict__, "_picture": None}

    def text(self) -> str:
        """Return the newest interval as text: the time and a line for each of the busiest ports and hosts."""
        history, fabric = self._history, self._fabric
        if not len(history):
            return "nothing yet: call reset()"
        # The first record is measured at the reset, before any decision.
        lines = [
            f"{self._scenario}, {self._transport}   {time_text(history.now_s)}, decision {len(history) - 1}",
            f"queues of switch ports (full bar {amount(fabric.buffer_bytes)}B, the longest of the episode)",
        ]
        ports = self._ports_shown()
        width = max(len(fabric.port_names[port]) for port in ports)
        for port in ports:
            queue = float(history.queue_bytes[port])
            delay_s = queue * 8.0 / fabric.port_rate_bps[port]
            lines.append(
                f"  {fabric.port_names[port]:<{width}} {bar(queue / fabric.buffer_bytes)} "
                f"{amount(queue):>8}B  {time_text(delay_s):>9}"
            )
        lines += _left_out(fabric.n_ports - len(ports), "port")
        lines.append("hosts (bar: goodput of line rate)")
        hosts = self._hosts_shown()
        width = max(len(fabric.host_names[host]) for host in hosts)
        goodput_bps, rate_bps = history.goodput_bps.rows[-1], history.rate_bps.rows[-1]
        for host in hosts:
            lines.append(
                f"  {fabric.host_names[host]:<{width}} {bar(goodput_bps[host] / fabric.line_rate_bps[host])} "
                f"goodput {amount(goodput_bps[host]):>8}b/s  rate {amount(rate_bps[host]):>8}b/s"
                f"{'' if history.active.rows[-1, host] else '  idle'}"
            )
        lines += _left_out(fabric.n_hosts - len(hosts), "host")
        return "\n".join(lines) + "\n"

    def picture(self) -> Picture:
        """Return a picture of the newest interval and the episode so far, shape (720, 1280, 3)."""
        from sysgym.envs.congestion.render.episode import EpisodePicture

        if self._picture is None:
            self._picture = EpisodePicture(
                self._history, self._scenario, self.contender, paced=self._transport == "paced"
            )
        return self._picture.pixels()

    def _ports_shown(self) -> list[int]:
        """Return the ports with the longest queues, without negligible ones, in the order of the fabric."""
        longest = self._history.longest_queue_bytes
        chosen = _largest(longest, PORTS_SHOWN)
        return sorted(port for port in chosen if longest[port] >= LEAST_QUEUE_SHOWN * longest[chosen[0]])

    def _hosts_shown(self) -> list[int]:
        """Return the hosts with the highest mean goodput, in the order of the fabric."""
        goodput = self._history.goodput_bps.rows.mean(axis=0)
        chosen = _largest(goodput, HOSTS_SHOWN)
        return sorted(host for host in chosen if goodput[host] > 0.0 or goodput[chosen[0]] == 0.0)


def bar(fraction: float, width: int = BAR_WIDTH) -> str:
    """Return a bar of fixed width, with a resolution of an eighth of a character."""
    eighths = round(min(max(fraction, 0.0), 1.0) * width * 8)
    full, part = divmod(eighths, 8)
    return "|" + ("█" * full + (_EIGHTHS[part] if part else "")).ljust(width) + "|"


def _largest(values: FloatArray, count: int) -> list[int]:
    """Return the indices of the largest values; equal values keep their order."""
    return [int(index) for index in np.argsort(-values, kind="stable")[:count]]


def _left_out(count: int, what: str) -> list[str]:
    return [f"  and {count} more {what}{'s' if count > 1 else ''}"] if count > 0 else []
