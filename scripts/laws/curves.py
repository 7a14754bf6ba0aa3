"""Show what a law with constants does: the constants, and how its window answers to queue and marks.

    python scripts/laws/curves.py agents/checkpoints/adaptive_target.json docs/images/law-curves.png
    python scripts/laws/curves.py agents/checkpoints/adaptive_swift.json docs/images/swift-curves.png
    python scripts/laws/curves.py results/beyond-classics/training/*/final.json law-curves.png

Prints a table of the constants, one column for each file, and draws the answer of the first file's law: the
change of a window in a round trip over the queue, for several windows, and over the share of marked packets.
Marks change the window of adaptive_swift beside other laws only, so they are drawn with its target raised.
The functions are those that the simulator compiles.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.law_search.laws import law_of_file
from sysgym.bench.tables import markdown_table
from sysgym.emulator.packets.transports.searched import adaptive_swift, adaptive_target, other_laws, rounds
from sysgym.scenarios.errors import SysgymError


class View(NamedTuple):
    """What is drawn of a law.

    Attributes:
        law: Module of the law.
        windows: Windows, packets.
        marked: Title of the panel with marks; queue there, packets, and log2 of the target over its least.
        ends: Least and largest change, percent.
    """

    law: ModuleType
    windows: tuple[float, float, float]
    marked: tuple[str, float, float]
    ends: tuple[float, float]


VIEWS = {
    adaptive_target.NAME: View(
        adaptive_target, (2.0, 10.0, 50.0), ("a short queue, marks", 2.0, 0.0), (-60.0, 60.0)
    ),
    adaptive_swift.NAME: View(
        adaptive_swift,
        (5.0, 20.0, 100.0),
        ("40 packets queue, target raised, marks", 40.0, 5.0),
        (-30.0, 90.0),
    ),
}
LINE_BPS, BASE_RTT_NS, PACKET_BYTES = 10e9, 60_000, 1_500
COLOURS = ("#2166ac", "#1b7837", "#b2182b")


class Steady(SimpleNamespace):
    """Event of an ACK for a whole window, with the constants that a law's functions read from it."""

    duplicate, window_limited, in_flight_packets = 0, 1, 0
    now_ns = 1e18


@contextmanager
def in_python(law: ModuleType) -> Iterator[None]:
    """Replace a law's compiled functions by their source for the time of the block."""
    with ExitStack() as patches:
        for module in (law, other_laws, rounds):
            for name, function in vars(module).copy().items():
                if hasattr(function, "py_func"):
                    patches.enter_context(patch.object(module, name, function.py_func))
        patches.enter_context(
            patch.object(law, "parameter", lambda event, index: float(event.parameters[index]))
        )
        yield


def change(
    law: ModuleType,
    parameters: NDArray[np.float64],
    window: float,
    queue: float,
    marked: float,
    stretch: float,
) -> float:
    """Return the change of a window in a round trip, in percent.

    Args:
        law: Module of the law.
        parameters: Its constants.
        window: Window before, packets; of a flow that is no longer young.
        queue: Queueing in packets of the line.
        marked: Share of marked packets, always the same so far.
        stretch: log2 of the target over its least.
    """
    state = np.zeros(40)
    rtt_ns = BASE_RTT_NS + queue * 8e9 * PACKET_BYTES / LINE_BPS
    state[rounds.WINDOW] = state[other_laws.WINDOW_BELOW] = window
    state[rounds.ACKED] = state[rounds.RTT_SAMPLES] = 100.0
    state[rounds.MARKED] = 100.0 * marked
    state[rounds.ALPHA] = state[other_laws.MARKS] = marked
    state[other_laws.STRETCH] = stretch
    state[rounds.RTT_LEAST_NS] = rtt_ns
    state[rounds.RTT_SUM_NS] = 100.0 * rtt_ns
    state[rounds.DELIVERED] = 1e9
    flow = SimpleNamespace(
        state=state, line_rate_bps=LINE_BPS, base_rtt_ns=BASE_RTT_NS, packet_bytes=PACKET_BYTES, nxt=0,
        ssthresh=1.0, srtt_ns=rtt_ns, in_recovery=0,
    )  # fmt: skip
    event = Steady(parameters=parameters, acked_packets=window, rtt_ns=rtt_ns)
    with in_python(law):
        if law is adaptive_swift:
            law.follow_delay(flow, event)
        law.end_round(flow, event)
    grows = law is adaptive_target and state[other_laws.QUEUE] <= 1.0
    grown = state[adaptive_target.PER_ROUND] if grows else 0.0
    return float(100.0 * ((state[rounds.WINDOW] + grown) / window - 1.0))


def draw(view: View, parameters: NDArray[np.float64], path: Path) -> None:
    """Draw the answer to queues, to queues with a raised target, and to marks."""
    figure = Figure(figsize=(9.0, 3.0), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3, sharey=True)
    queues = np.geomspace(0.5, 200.0, 200)
    title_of_marks, marked_queue, marked_stretch = view.marked
    for window, colour in zip(view.windows, COLOURS, strict=True):
        label = f"window of {window:g} packets"
        for axes, stretch in zip(panels[:2], (0.0, 3.0), strict=True):
            axes.plot(
                queues,
                [change(view.law, parameters, window, queue, 0.0, stretch) for queue in queues],
                color=colour,
                label=label,
            )
        shares = np.linspace(0.0, 1.0, 101)
        changes = [
            change(view.law, parameters, window, marked_queue, share, marked_stretch) for share in shares
        ]
        panels[2].plot(shares, changes, color=colour)
    for axes, title in zip(panels, ("alone", "target raised eightfold", title_of_marks), strict=True):
        axes.axhline(0.0, color="#999999", linewidth=0.8)
        axes.set_title(title, fontsize=9)
        axes.grid(alpha=0.3)
    for axes in panels[:2]:
        axes.set_xscale("log")
        axes.set_xlabel("Queue (packets)")
    panels[2].set_xlabel("Share of marked packets")
    panels[0].set_ylabel("Change in a round trip (%)")
    panels[0].set_ylim(*view.ends)
    panels[0].legend(fontsize=7)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the table and draw the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoints", type=Path, nargs="+")
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    try:
        searched = [law_of_file(path) for path in given.checkpoints]
        laws = [
            np.array(one.form.read(path).parameters)
            for one, path in zip(searched, given.checkpoints, strict=True)
        ]
    except SysgymError as error:
        sys.exit(f"error: {error}")
    law = searched[0]
    if law.form.agent not in VIEWS or any(one is not law for one in searched):
        parser.error(f"expected checkpoints of one law of {', '.join(VIEWS)}")
    heads = ["constant", "meaning", ">before", *(f">{number}" for number in range(1, len(laws) + 1))]
    rows = [
        [f"`{one.name}`", one.meaning, f"{one.value:g}", *(f"{values[number]:.3g}" for values in laws)]
        for number, one in enumerate(law.constants)
    ]
    print(markdown_table(heads, rows))
    draw(VIEWS[law.form.agent], laws[0], given.picture)


if __name__ == "__main__":
    main()
