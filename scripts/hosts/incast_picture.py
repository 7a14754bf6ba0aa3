"""Draw one incast under four ways to notice or avoid losses: docs/images/incast-hosts.png.

python scripts/hosts/incast_picture.py

32 servers answer one host at the same time with 64 kB each, through a port with a buffer of 40 packets.
Above, the number of complete answers over the time since the request; below, the queue of the port.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.scenarios import CongestionScenario, load_scenario

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "incast-hosts.png"
SENDERS, ANSWER_BYTES, RATE_BPS, BUFFER_BYTES = 32, 64_000, 10e9, 60_000
SEED = 20_000
SAMPLE_S = 2e-6
QUEUE_SHOWN_S = 4e-3
END_S = 1.0


class Hosts(NamedTuple):
    """One panel: what the hosts do, and the queues that they need."""

    label: str
    transport: str
    colour: str
    overrides: dict[str, Any]


PANELS = (
    Hosts("DCTCP, duplicate ACKs", "dctcp", "#b2182b", {"transport.loss_detection": "dupack"}),
    Hosts("DCTCP, RACK-TLP", "dctcp", "#ef8a62", {"transport.loss_detection": "rack"}),
    Hosts("NDP, trimming", "ndp", "#2166ac", {"queue.classes": 2, "queue.trim": True}),
    Hosts("Homa, 8 priorities", "homa", "#1b7837", {"queue.classes": 8}),
)


class Measured(NamedTuple):
    """What one panel shows.

    Attributes:
        finish_s: Completion times, ascending, shape (32,).
        time_s: Times of the samples.
        queue_bytes: Queue of the port to the receiver at these times, all classes together.
        dropped_packets: At all ports.
        timeouts: Of all senders.
    """

    finish_s: NDArray[np.float64]
    time_s: NDArray[np.float64]
    queue_bytes: NDArray[np.float64]
    dropped_packets: int
    timeouts: int


def main() -> None:
    """Simulate the four, print a line for each and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE)
    given = parser.parse_args()
    measured = [measure(hosts) for hosts in PANELS]
    print(f"answers of {SENDERS} servers; the line alone takes {line_s() * 1e3:.2f} ms")
    for hosts, got in zip(PANELS, measured, strict=True):
        print(
            f"{hosts.label:24} median {np.median(got.finish_s) * 1e3:6.2f} ms,"
            f" last {got.finish_s[-1] * 1e3:6.2f} ms,"
            f" {got.dropped_packets} packets dropped, {got.timeouts} time-outs"
        )
    given.out.parent.mkdir(parents=True, exist_ok=True)
    draw(measured, given.out)


def line_s() -> float:
    """Return the time for which all answers together occupy the receiver's link."""
    packets = -(-ANSWER_BYTES // 1460)
    return SENDERS * 8 * (ANSWER_BYTES + 40 * packets) / RATE_BPS


def measure(hosts: Hosts) -> Measured:
    """Simulate one incast."""
    overrides: dict[str, Any] = {
        "topology.link_delay_s": 2e-6,
        "queue.buffer_bytes": BUFFER_BYTES,
        "queue.ecn_threshold_bytes": BUFFER_BYTES // 5,
        **hosts.overrides,
    }
    scenario = load_scenario("incast-32", overrides=overrides, expect=CongestionScenario)
    network = PacketNetwork(scenario, transport=hosts.transport)
    schedule = make_schedule(
        np.random.default_rng(SEED),
        np.arange(1, SENDERS + 1),
        np.zeros(SENDERS, int),
        size_bytes=np.full(SENDERS, ANSWER_BYTES),
        start_ns=np.zeros(SENDERS, int),
    )
    network.reset(SEED, schedule)
    port = network.topology.host_downlink[0]
    time_s, queue_bytes = [], []
    while network.now_s < QUEUE_SHOWN_S:
        network.advance(SAMPLE_S)
        time_s.append(network.now_s)
        queue_bytes.append(network.ports().queue_bytes[port])
    network.advance(END_S)
    flows = network.flows()
    return Measured(
        np.sort(flows.finish_s),
        np.array(time_s),
        np.array(queue_bytes),
        int(network.ports().dropped_packets.sum()),
        int(flows.timeouts.sum()),
    )


def draw(measured: list[Measured], out: Path) -> None:
    """Draw the picture."""
    figure = Figure(figsize=(8.5, 6.4), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, len(PANELS), height_ratios=(1.5, 1.0))
    draw_completions(figure.add_subplot(grid[0, :]), measured)
    first: Axes | None = None
    for column, (hosts, got) in enumerate(zip(PANELS, measured, strict=True)):
        axes = figure.add_subplot(grid[1, column], sharey=first)
        axes.plot(1e3 * got.time_s, got.queue_bytes / 1e3, color=hosts.colour, linewidth=0.9)
        axes.set_title(hosts.label, fontsize=9, color=hosts.colour)
        axes.set_xlim(0.0, 1e3 * QUEUE_SHOWN_S)
        axes.set_xlabel("time (ms)", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.25)
        if first is None:
            first = axes
            axes.set_ylim(bottom=0.0)
            axes.set_ylabel("queue at the receiver's port (kB)", fontsize=9)
        else:
            axes.tick_params(labelleft=False)
    figure.savefig(out)


def draw_completions(axes: Axes, measured: list[Measured]) -> None:
    """Draw the number of complete answers over time."""
    last_ms = 1e3 * max(got.finish_s[-1] for got in measured)
    for hosts, got in zip(PANELS, measured, strict=True):
        finish_ms = 1e3 * np.concatenate([[0.1], got.finish_s, [10 * last_ms]])
        answers = np.concatenate([np.arange(SENDERS + 1), [SENDERS]])
        label = f"{hosts.label}: the last after {1e3 * got.finish_s[-1]:.2g} ms"
        axes.step(finish_ms, answers, where="post", color=hosts.colour, linewidth=2.0, label=label)
    axes.axvline(1e3 * line_s(), color="black", linestyle=":", linewidth=1.2)
    axes.annotate(
        f"the link needs\n{1e3 * line_s():.2f} ms for all",
        (1e3 * line_s(), 22.0),
        textcoords="offset points",
        xytext=(6, 0),
        fontsize=9,
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.set_xlim(0.1, 1.5 * last_ms)
    axes.set_ylim(0.0, SENDERS + 1)
    axes.set_xlabel("time since the request (ms, logarithmic)")
    axes.set_ylabel(f"complete answers of {SENDERS}")
    axes.grid(alpha=0.25, which="both")
    axes.legend(fontsize=9, loc="upper left")
    axes.set_title(
        f"{SENDERS} servers answer one host at once: {ANSWER_BYTES // 1000} kB each,"
        f" {RATE_BPS / 1e9:.0f} Gb/s, {BUFFER_BYTES // 1000} kB of buffer",
        fontsize=11,
    )


if __name__ == "__main__":
    main()
