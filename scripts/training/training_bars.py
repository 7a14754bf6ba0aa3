"""Bars of replay and what-if on traces of training jobs that you have.

python scripts/training/training_bars.py trace-ST.parquet --published ms-ST.json mw-ST.json
python scripts/training/training_bars.py trace-SE.parquet --published ms-SE.json mw-SE.json --durations-bar 1

Prints value, bar, and whether it is met: error of steps that are replayed with their own durations, and with
launch gaps learned from earlier steps; published values of the what-if analysis, in the JSON files that lie
beside ByteDance's traces; and offsets of the ranks' clocks that are added to the trace and found again.
Exits with 1 if a bar is not met.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.training.accuracy import step_errors
from sysgym.emulator.training.clocks import aligned, clock_offsets_s
from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import TrainingTrace
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.tables import read_trace
from sysgym.emulator.training.what_if import WhatIf
from sysgym.errors import SysgymError

GAPS_BAR = 0.005
PUBLISHED_BAR = 1e-5
CLOCKS_BAR_S = 1e-4
INJECTED_S = 0.05

PUBLISHED = {
    "tori": "mean step by replay",
    "tideal": "step without stragglers",
    "Ms": "share of the last stage",
    "Mw": "share of the worst ranks",
}
"""Keys of the published files that are compared."""


class Bar(NamedTuple):
    """A bar.

    Attributes:
        name: What is measured.
        value: The value, with its unit.
        bar: The most that it may be, likewise.
        met: Whether it is met; None: it does not decide.
        note: What is printed if it does not decide.
    """

    name: str
    value: str
    bar: str
    met: bool | None
    note: str = ""


def error_bars(trace: TrainingTrace, graph: Graph, durations_bar: float) -> Iterator[Bar]:
    """Yield the errors of replayed steps."""
    bars = {
        "durations of the step": durations_bar,
        "durations of the step, earlier launch gaps": GAPS_BAR,
    }
    for one in step_errors(trace, graph):
        if one.name in bars:
            bar = bars[one.name]
            yield Bar(
                f"step from {one.name}, {one.steps}: mean error",
                f"{one.mean:.3%}",
                f"{bar:.2%}",
                one.mean <= bar,
            )


def published_bars(trace: TrainingTrace, files: Sequence[Path]) -> Iterator[Bar]:
    """Yield the differences to published values, relative to them.

    Raises:
        SysgymError: If a file has none of them.
    """
    found = WhatIf.of(trace, graph_of(trace, "same-kind"))
    values = {
        "tori": found.step_s,
        "tideal": found.ideal_step_s,
        "Ms": found.share_of_last_stage(),
        "Mw": found.share_of_worst_ranks(),
    }
    for path in files:
        published = _published(path)
        for key in [key for key in PUBLISHED if key in published]:
            apart = abs(values[key] / published[key] - 1.0)
            yield Bar(
                f"{key} of {path.name}, {PUBLISHED[key]}: {values[key]:.7g}",
                f"{apart:.1e}",
                f"{PUBLISHED_BAR:.0e}",
                apart <= PUBLISHED_BAR,
            )


def clock_bars(trace: TrainingTrace, graph: Graph, seed: int, ranks_per_host: int) -> Iterator[Bar]:
    """Yield how well offsets of up to 50 ms that are added to the ranks' clocks are found.

    What is found is compared with what was added, as if the clocks of the trace agreed; and, since they need
    not agree, with what was added to the offsets that the trace itself shows. The latter is exact by
    construction, as medians move with what is added; it tests the pairs and the equations.
    """
    own_s = clock_offsets_s(trace, graph)
    injected_s = np.random.default_rng(seed).uniform(-INJECTED_S, INJECTED_S, len(own_s))
    injected_s[0] = 0.0
    found_s = clock_offsets_s(aligned(trace, -injected_s), graph)
    of_own = np.abs(found_s - own_s - injected_s).max()
    absolute = np.abs(found_s - injected_s).max()
    bar = f"{1e3 * CLOCKS_BAR_S:g} ms"
    yield Bar(
        "offsets found, beyond the trace's own", f"{1e3 * of_own:.4f} ms", bar, bool(of_own <= CLOCKS_BAR_S)
    )
    missed = "" if absolute <= CLOCKS_BAR_S else "missed: its clocks differ, or the estimate is wrong"
    yield Bar(
        "offsets found, as if its clocks agreed", f"{1e3 * absolute:.4f} ms", bar, None, missed or "met"
    )
    yield Bar("the trace's own offsets: largest apart", f"{1e3 * np.ptp(own_s):.4f} ms", "", None)
    of_hosts = host_spread_s(trace, own_s, ranks_per_host)
    if of_hosts is not None:
        between_s, within_s = of_hosts
        yield Bar(
            f"  standard deviation between hosts of {ranks_per_host} ranks",
            f"{1e3 * between_s:.4f} ms",
            "",
            None,
        )
        yield Bar("  within a host", f"{1e3 * within_s:.4f} ms", "", None)


def host_spread_s(
    trace: TrainingTrace, offsets_s: NDArray[np.float64], ranks_per_host: int
) -> tuple[float, float] | None:
    """Return the standard deviations of the hosts' mean offsets and of ranks around that of their host.

    None if there are not two hosts, or none has two recorded ranks. The ranks of a host share a clock: if
    they agree and hosts do not, the clocks of hosts differ.
    """
    _, host, count = np.unique(
        trace.operations.ranks // ranks_per_host, return_inverse=True, return_counts=True
    )
    if len(count) == 1 or count.max() == 1:
        return None
    means_s = np.bincount(host, offsets_s) / count
    return float(means_s.std()), float(np.sqrt(np.mean((offsets_s - means_s[host]) ** 2)))


def _published(path: Path) -> dict[str, float]:
    try:
        read: Any = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SysgymError(f"{path}: cannot be read: {error}") from None
    if not isinstance(read, dict) or not PUBLISHED.keys() & read.keys():
        raise SysgymError(
            f"{path}: expected an object with one of {', '.join(PUBLISHED)}, as published beside the traces"
        )
    return {key: float(read[key]) for key in PUBLISHED if key in read}


def bars_of(arguments: argparse.Namespace) -> list[Bar]:
    """Return all bars of a file."""
    trace = read_trace(arguments.file)
    graph = graph_of(trace)
    return [
        *error_bars(trace, graph, arguments.durations_bar / 100.0),
        *published_bars(trace, arguments.published),
        *clock_bars(trace, graph, arguments.seed, arguments.ranks_per_host),
    ]


def main(given: Sequence[str] | None = None) -> int:
    """Print the bars; return 1 if one is not met, 2 if a file cannot be used."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="table of operations, .parquet or .csv")
    parser.add_argument("--published", type=Path, nargs="+", default=[], help="published what-if results")
    parser.add_argument(
        "--durations-bar", type=float, default=2.5, help="bar of the durations-only error, %% (default 2.5)"
    )
    parser.add_argument("--ranks-per-host", type=int, default=8, help="ranks that share a clock (default 8)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the added offsets (default 0)")
    try:
        bars = bars_of(parser.parse_args(given))
    except SysgymError as error:
        print(error, file=sys.stderr)
        return 2
    width = max(len(bar.name) for bar in bars)
    for bar in bars:
        verdict = {None: bar.note, True: "met", False: "NOT MET"}[bar.met]
        print(f"{bar.name:{width}}  {bar.value:>12}  {bar.bar:>8}  {verdict}".rstrip())
    return int(any(bar.met is False for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
