"""Live view of the environments of a network."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.counters.statistics import HostCounters, PortCounters
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.topology.geometry import node_positions, node_tiers
from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.base import CongestionLifecycle
from sysgym.envs.congestion.live.controls import LAW, controls_of
from sysgym.envs.congestion.render.frame import amount
from sysgym.envs.live import Chart, Emit, Fact, LaneFrame, NetworkPanel, Scene
from sysgym.scenarios.errors import SysgymError

FRAMES_AN_EPISODE = 750
"""25 frames a second for half a minute."""

EVENTS = {
    "mark": ("packet marked", "packets marked"),
    "drop": ("packet dropped", "packets dropped"),
    "resend": ("retransmission", "retransmissions"),
    "timeout": ("time-out", "time-outs"),
    "done": ("flow completed", "flows completed"),
}


class NetworkView:
    """Live view of a network; frames are taken at regular simulated times, also between decisions.

    Args:
        env: An environment with a simulated packet network.

    Raises:
        SysgymError: If the network runs on the kernel.
    """

    def __init__(self, env: CongestionLifecycle) -> None:
        if env.backend != "packets":
            raise SysgymError("sysgym live shows simulated networks only; on the kernel, use ss and tc")
        self._env = env
        self._network: PacketNetwork
        self._emit: Emit
        # The first law may be unregistered, such as the law of the agent ``neural``, so it is kept.
        self._first_law: Transport

    def watch(self, emit: Emit) -> None:
        """Report frames from the next reset on."""
        self._emit = emit
        self._env.before_warmup = self._begin

    def _begin(self, network: Network) -> None:
        assert isinstance(network, PacketNetwork)
        self._network, self._first_law = network, network.law
        topology, usual_bytes = network.topology, network.scenario.queue.buffer_bytes
        self._scale = np.where(topology.from_host, 0.0, 100.0 / topology.buffers_bytes(usual_bytes))
        self._ports, self._hosts = network.ports(), network.hosts()
        self._done, self._last_ns = 0, 0
        self._n_begun, self._open = 0, np.flatnonzero(network.schedule.needs)
        self._fct_sum_s, self._slowdowns = 0.0, np.empty(0)
        network.call_every(network.scenario.horizon_s / FRAMES_AN_EPISODE, self._take)
        self._take()

    def scene(self) -> Scene:
        """Return the scene of the present episode."""
        network, topology = self._network, self._network.topology
        tiers, places = node_tiers(topology), node_positions(topology)
        nodes = [
            (name, round(float(x), 4), float(tier), "host" if node < topology.n_hosts else "switch")
            for node, (name, (x, _), tier) in enumerate(zip(topology.node_names, places, tiers, strict=True))
        ]
        ends = zip(topology.link_source.tolist(), topology.link_target.tolist(), strict=True)
        full_bytes = float(network.scenario.queue.buffer_bytes)
        full = f"{amount(full_bytes)}B"
        controls = controls_of(network)
        threshold = next((one.key for one in controls if one.key == "queue.ecn_threshold_bytes"), "")
        return Scene(
            panels=(
                NetworkPanel("net", "Links by use, ports by queue", nodes, list(ends), full, full_bytes),
            ),
            charts=(
                Chart("queue", "Longest queue", "bytes", line_of=threshold),
                Chart("arriving", "Arriving at all hosts", "bit/s"),
                Chart("flows", "Flows under way", ""),
            ),
            facts=(
                Fact("done", "flows completed"),
                Fact("fct_s", "mean completion time", "s"),
                Fact("slowdown", "slowdown, 99th percentile", "x"),
                Fact("marks", "packets marked"),
                Fact("drops", "packets dropped"),
                Fact("resent", "sent again"),
                Fact("timeouts", "time-outs"),
            ),
            end=network.scenario.horizon_s,
            interval=network.scenario.horizon_s / FRAMES_AN_EPISODE,
            events=EVENTS,
            places=(*topology.link_names, *topology.node_names[: topology.n_hosts]),
            controls=controls,
        )

    def set_interval(self, interval: float) -> None:
        """Report frames at all multiples of an interval, in seconds, from now on."""
        self._network.call_every(interval, self._take)

    def after_step(self) -> None:
        """Report the end of the episode; all other frames are taken at their simulated times."""
        network = self._network
        if self._last_ns < network.now_ns and network.now_ns >= round(network.scenario.horizon_s * 1e9):
            self._take()

    def change(self, key: str, value: float | str) -> None:
        """Change a setting of the network, or the law of its flows."""
        if key != LAW:
            self._network.change({key: value})
        elif value == self._first_law.name:
            self._network.change({}, transport=self._first_law)
        else:
            self._network.change({}, transport=str(value))

    def _take(self) -> None:
        """Report a frame of the present time."""
        network = self._network
        now_ns, ports, hosts = network.now_ns, network.ports(), network.hosts()
        elapsed_s = max((now_ns - self._last_ns) * 1e-9, 1e-12)
        sent_bits = 8.0 * (ports.sent_bytes - self._ports.sent_bytes)
        use = sent_bits * (100.0 / elapsed_s) / network.link_rate_bps
        arrived_bits = float(sent_bits[network.topology.to_host].sum())
        ended = self._count_completions()
        switch_queues = np.where(self._scale > 0.0, ports.queue_bytes, 0.0)
        values = {
            "net": _whole(np.minimum(use, 100.0)),
            "net_queue": _whole(np.minimum(ports.queue_bytes * self._scale, 100.0)),
            "queue": int(switch_queues.max()),
            "arriving": int(arrived_bits / elapsed_s) if now_ns else 0,
            "flows": int(hosts.active_flows.sum()),
            "done": self._done,
            "fct_s": _rounded(self._fct_sum_s / self._done) if self._done else None,
            "slowdown": self._slowdown(),
            "marks": int(ports.marked_packets.sum()),
            "drops": int(ports.dropped_packets.sum()),
            "resent": int(hosts.retransmitted_packets.sum()),
            "timeouts": int(hosts.timeouts.sum()),
        }
        events = (*self._of_ports(ports), *self._of_hosts(hosts), *ended)
        self._ports, self._hosts, self._last_ns = ports, hosts, now_ns
        self._emit(LaneFrame(round(now_ns * 1e-9, 9), values, events))

    def _of_ports(self, ports: PortCounters) -> tuple[tuple[str, int, int], ...]:
        before = self._ports
        return (
            *_events("mark", ports.marked_packets - before.marked_packets),
            *_events("drop", ports.dropped_packets - before.dropped_packets),
        )

    def _of_hosts(self, hosts: HostCounters) -> tuple[tuple[str, int, int], ...]:
        before, first = self._hosts, self._network.n_links
        return (
            *_events("resend", hosts.retransmitted_packets - before.retransmitted_packets, first),
            *_events("timeout", hosts.timeouts - before.timeouts, first),
        )

    def _count_completions(self) -> tuple[tuple[str, int, int], ...]:
        """Count the flows that have completed since the last frame; return an event for each receiver."""
        network = self._network
        running = network.running
        flows, n_begun = running.state.flows, running.n_begun
        self._open = np.concatenate((self._open, np.arange(self._n_begun, n_begun)))
        self._n_begun = n_begun
        finish_ns = flows["finish_ns"][self._open]
        over = finish_ns >= 0
        ended, self._open = self._open[over], self._open[~over]
        if not len(ended):
            return ()
        fct_s = (finish_ns[over] - flows["start_ns"][ended]) * 1e-9
        self._done += len(ended)
        self._fct_sum_s += float(fct_s.sum())
        slowdown = fct_s / running.ideal_fct_s[ended]
        self._slowdowns = np.concatenate((self._slowdowns, slowdown[np.isfinite(slowdown)]))[-MOST_KEPT:]
        receivers = np.bincount(flows["dst"][ended], minlength=network.n_hosts)
        return _events("done", receivers, network.n_links)

    def _slowdown(self) -> float | None:
        if not len(self._slowdowns):
            return None
        return _rounded(float(np.quantile(self._slowdowns, 0.99)))


MOST_KEPT = 5_000
"""Number of newest completions over which the percentile is computed."""


def live_view(env: Any) -> NetworkView:
    """Return the live view of an environment of the family."""
    return NetworkView(env)


def _events(kind: str, counts: NDArray[Any], first: int = 0) -> tuple[tuple[str, int, int], ...]:
    """Return an event for each place where something happened."""
    (where,) = np.nonzero(counts)
    return tuple((kind, first + int(place), int(counts[place])) for place in where)


def _whole(values: NDArray[np.float64]) -> list[int]:
    whole: list[int] = np.rint(values).astype(np.int64).tolist()
    return whole


def _rounded(value: float) -> float:
    """Return a number with four digits, so that files stay small."""
    return float(f"{value:.4g}")
