"""Show what the law adaptive_target does: its constants, and how a window answers to queue, marks and losses.

    python scripts/law_curves.py agents/checkpoints/adaptive_target.json docs/images/law-curves.png
    python scripts/law_curves.py results/beyond-classics/training/*/final.json law-curves.png

Prints a table of the constants, one column for each file, and draws the answer of the first file's law: the
change of a window in a round trip over the queue, for several windows, and over the share of marked packets.
The functions are those that the simulator compiles.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.adaptive_target.agent import FORM
from sysgym.bench.tables import markdown_table
from sysgym.emulator.packets.transports import adaptive_target as law
from sysgym.emulator.packets.transports import other_laws, rounds

LINE_BPS, BASE_RTT_NS, PACKET_BYTES = 10e9, 60_000, 1_500
WINDOWS = (2.0, 10.0, 50.0)
COLOURS = ("#2166ac", "#1b7837", "#b2182b")


def change(
    parameters: NDArray[np.float64], window: float, queue: float, marked: float, stretch: float
) -> float:
    """Return the change of a window in a round trip, in percent.

    Args:
        parameters: Constants of the law.
        window: Window before, packets; of a flow that is no longer young.
        queue: Queueing in packets of the line.
        marked: Share of marked packets, always the same so far.
        stretch: log2 of the target over its least.
    """
    state = np.zeros(40)
    packet_ns = 8e9 * PACKET_BYTES / LINE_BPS
    state[rounds.WINDOW] = state[other_laws.WINDOW_BELOW] = window
    state[rounds.ACKED] = state[rounds.RTT_SAMPLES] = 100.0
    state[rounds.MARKED] = 100.0 * marked
    state[rounds.ALPHA] = state[other_laws.MARKS] = marked
    state[other_laws.STRETCH] = stretch
    state[rounds.RTT_LEAST_NS] = BASE_RTT_NS + queue * packet_ns
    state[rounds.RTT_SUM_NS] = 100.0 * state[rounds.RTT_LEAST_NS]
    state[rounds.DELIVERED] = 1e9
    flow = SimpleNamespace(
        state=state, line_rate_bps=LINE_BPS, base_rtt_ns=BASE_RTT_NS, packet_bytes=PACKET_BYTES, nxt=0,
        ssthresh=1.0,
    )  # fmt: skip
    own, common = (
        {name: function.py_func for name, function in vars(module).items() if hasattr(function, "py_func")}
        for module in (law, other_laws)
    )
    own["parameter"] = lambda _, index: float(parameters[index])
    with patch.multiple(law, **own), patch.multiple(other_laws, **common):
        law.end_round(flow, None)
    grown = state[law.PER_ROUND] if state[other_laws.QUEUE] <= 1.0 else 0.0
    return float(100.0 * ((state[rounds.WINDOW] + grown) / window - 1.0))


def draw(parameters: NDArray[np.float64], path: Path) -> None:
    """Draw the answer to queues, to queues with a raised target, and to marks."""
    figure = Figure(figsize=(9.0, 3.0), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3, sharey=True)
    queues = np.geomspace(0.5, 200.0, 200)
    for window, colour in zip(WINDOWS, COLOURS, strict=True):
        label = f"window of {window:g} packets"
        for axes, stretch in zip(panels[:2], (0.0, 3.0), strict=True):
            axes.plot(
                queues,
                [change(parameters, window, queue, 0.0, stretch) for queue in queues],
                color=colour,
                label=label,
            )
        shares = np.linspace(0.0, 1.0, 101)
        panels[2].plot(
            shares, [change(parameters, window, 2.0, share, 0.0) for share in shares], color=colour
        )
    for axes, title in zip(panels, ("alone", "target raised eightfold", "a short queue, marks"), strict=True):
        axes.axhline(0.0, color="#999999", linewidth=0.8)
        axes.set_title(title, fontsize=9)
        axes.grid(alpha=0.3)
    for axes in panels[:2]:
        axes.set_xscale("log")
        axes.set_xlabel("Queue (packets)")
    panels[2].set_xlabel("Share of marked packets")
    panels[0].set_ylabel("Change in a round trip (%)")
    panels[0].set_ylim(-60.0, 60.0)
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
    laws = [np.array(FORM.read(path).parameters) for path in given.checkpoints]
    heads = ["constant", "meaning", ">before", *(f">{number}" for number in range(1, len(laws) + 1))]
    rows = [
        [f"`{one.name}`", one.meaning, f"{one.value:g}", *(f"{values[number]:.3g}" for values in laws)]
        for number, one in enumerate(law.CONSTANTS)
    ]
    print(markdown_table(heads, rows))
    draw(laws[0], given.picture)


if __name__ == "__main__":
    main()
