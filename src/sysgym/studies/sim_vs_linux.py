"""Comparison of the simulator with the Linux kernel on the same scenario files.

Every pair of scenario and transport is run with the same seeds on both backends, without an agent; ``neural``
and ``adaptive_target`` are learned laws of the package. Then policies trained on the simulator are run on
both backends. Seeds determine the traffic, but the kernel's timing is not repeatable, so all values are means
over seeds.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from sysgym.bench.contenders import Contender, parse_contender
from sysgym.bench.surveys import Page, Progress
from sysgym.scenarios.units import metric_text
from sysgym.studies.kernel_episodes import KernelEpisodes

SCENARIOS = (
    "linux-dumbbell-100m",
    "linux-dumbbell-1g",
    "linux-fattree-stride",
    "linux-fattree-incast",
    "linux-fattree-incast-shallow",
)
INCAST, DUMBBELL = "linux-fattree-incast-shallow", "linux-dumbbell-100m"
_FEWER = {"queue.buffer_bytes": 30_000, "queue.ecn_threshold_bytes": 6_000}
_MORE = {"workload.senders": 15, "workload.period_s": 0.5, "workload.jitter_s": 5e-3}
_MOST = {
    "topology": {
        "kind": "single_switch",
        "hosts": 25,
        "link_rate_bps": 20e6,
        "link_delay_s": 1e-6,
        "link_jitter_s": 1e-6,
        "link_batch_s": 10e-6,
        "link_model": "shaper",
    },
    "queue.buffer_bytes": 150_000,
    "queue.ecn_threshold_bytes": 30_000,
    "workload.senders": 24,
    "workload.jitter_s": 8e-3,
    "workload.period_s": 0.8,
}
LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "20 packets": (INCAST, _FEWER),
    "40 packets": (INCAST, {}),
    "40 packets, 15 senders": (INCAST, _MORE),
    "100 packets, 24 senders": (INCAST, _MOST),
    "40 packets, persistent": (INCAST, {"transport.connections": "persistent"}),
    "0.1 % at random": (DUMBBELL, {"faults.loss_probability": 0.001}),
    "1 % at random": (DUMBBELL, {"faults.loss_probability": 0.01}),
}
"""Variants with packet loss: in the buffer of an incast, or at random on every link of a dumbbell.

On persistent connections, an answer begins with the congestion window of the previous answer."""

LOSS_SEEDS = tuple(range(20_000, 20_020))
"""Seeds of :data:`LOSSES`; more than :data:`SEEDS`, because losses vary a lot between episodes."""

LOSS_TRANSPORTS = ("cubic", "reno", "dctcp", "bbr", "neural", "adaptive_target")
LOSS_METRICS = (
    "goodput_bps",
    "drop_fraction",
    "timeouts",
    "round_completion_mean_s",
    "fct_slowdown_p50",
    "fct_slowdown_p99",
)
TRANSPORTS = ("cubic", "reno", "dctcp", "bbr", "newvegas", "neural", "adaptive_target")
SEEDS = tuple(range(20_000, 20_010))
METRICS = {
    "goodput_bps": "higher",
    "queue_mean_bytes": "lower",
    "queue_p99_bytes": "lower",
    "mark_fraction": "",
    "drop_fraction": "",
    "timeouts": "",
    "rtt_mean_s": "lower",
    "jain_index": "higher",
    "fct_slowdown_p50": "lower",
    "fct_slowdown_p99": "lower",
    "round_completion_mean_s": "lower",
}
"""Metric -> better direction; empty for metrics without a winner."""

TRANSFER_SCENARIO = "linux-dumbbell-100m"
TRANSFER_STEPS = 100_000
TRANSFER_TRAININGS = (0, 1, 2)
"""Seeds of the trainings; :func:`quick` uses only the first."""

TRANSFER_AGAINST = ("cubic", "dctcp", "neural")
TRANSFER_METRICS = ("goodput_bps", "queue_mean_bytes", "queue_p99_bytes", "rtt_mean_s", "drop_fraction")
BACKENDS = SIMULATOR, KERNEL = ("packets", "linux")

GOALS = {
    "goodput_bps": 0.05,
    "queue_mean_bytes": 0.2,
    "drop_fraction": 0.2,
    "fct_slowdown_p50": 0.2,
    "fct_slowdown_p99": 0.2,
    "round_completion_mean_s": 0.2,
}
"""Goals by metric: maximum relative difference between the backends."""

TIMEOUTS_FACTOR = 1.5
"""Goal for time-outs: maximum ratio between the backends."""

TIMEOUTS_OFFSET = 0.5
"""Number added to the time-outs of both backends, so that 0 and 0.2 count as similar."""

CALM_GOALS = (
    "goodput_bps",
    "queue_mean_bytes",
    "fct_slowdown_p50",
    "fct_slowdown_p99",
    "round_completion_mean_s",
)
LOSS_GOALS = (
    "goodput_bps",
    "drop_fraction",
    "fct_slowdown_p50",
    "fct_slowdown_p99",
    "round_completion_mean_s",
    "timeouts",
)
"""Metrics with a goal in the networks of :data:`SCENARIOS` and of :data:`LOSSES`."""

_NORMAL_975 = 1.96
"""97.5 % quantile of the normal distribution."""

LEARNED = ("neural", "adaptive_target")
EQUAL = 0.01
"""Relative difference from the best mean within which contenders count as equal winners."""


class Difference(NamedTuple):
    """Difference between the backends, and half its 95 % interval by linear error propagation."""

    value: float
    margin: float


@dataclass(frozen=True)
class Measured:
    """Metrics of a contender on both backends, one value per seed."""

    contender: str
    values: dict[str, dict[str, list[float]]]

    def mean(self, backend: str, metric: str) -> float | None:
        """Return the mean over seeds; None if the scenario has no such metric."""
        found = self.values[backend].get(metric, [])
        played = max(len(values) for metrics in self.values.values() for values in metrics.values())
        return statistics.fmean(found) if len(found) == played else None

    def error(self, backend: str, metric: str) -> float:
        """Return the standard error of a mean; 0 for one seed."""
        found = self.values[backend].get(metric, [])
        return statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else 0.0

    def relative(self, metric: str, offset: float = 0.0) -> Difference | None:
        """Return the simulator's relative difference from the kernel; None if a value is missing.

        Args:
            metric: The metric.
            offset: Added to both means.
        """
        means = [self.mean(backend, metric) for backend in BACKENDS]
        if None in means:
            return None
        simulated, real = (float(mean or 0.0) + offset for mean in means)
        if real == 0.0:
            return Difference(math.copysign(simulated != 0.0, simulated), 0.0)
        ratio = simulated / real
        of_simulated, of_real = (self.error(backend, metric) for backend in BACKENDS)
        return Difference(ratio - 1.0, _NORMAL_975 * math.hypot(of_simulated, of_real * ratio) / real)

    def judged(self, metric: str) -> Difference | None:
        """Return the difference in the form that is compared with the goal.

        For time-outs, this is the logarithm of their ratio to the base :data:`TIMEOUTS_FACTOR`.
        """
        if metric != "timeouts":
            return self.relative(metric)
        relative = self.relative(metric, TIMEOUTS_OFFSET)
        if relative is None:
            return None
        scale, ratio = math.log(TIMEOUTS_FACTOR), 1.0 + relative.value
        return Difference(math.log(ratio) / scale, relative.margin / ratio / scale)

    def cell(self, metric: str) -> str:
        """Return ``simulator / kernel (difference ± margin)``, or a dash if a value is missing."""
        simulated, real = (self.mean(backend, metric) for backend in BACKENDS)
        relative = self.relative(metric)
        if simulated is None or real is None or relative is None:
            return "–"
        text = f"{metric_text(metric, simulated)} / {metric_text(metric, real)}"
        if real == 0.0:
            return text
        margin = f" ± {relative.margin:.1%}" if relative.margin > 0.0 else ""
        return f"{text} ({relative.value:+.1%}{margin})"


def survey(folder: Path, _n_workers: int, progress: Progress) -> list[Page]:
    """Return pages for each scenario, for losses, winners and goals, and for the trained policies.

    Args:
        folder: Results folder; the kernel's episodes are stored in it, so that an interrupted survey can be
            resumed.
        _n_workers: Not used: the kernel runs one network at a time.
        progress: Callback with the number of finished parts and of all parts.

    Raises:
        BackendUnavailable: The kernel backend is not available.
        MissingExtra: The extra ``emulator`` or ``train`` is not installed.
    """
    jobs = [(scenario, transport) for scenario in SCENARIOS for transport in TRANSPORTS]
    losing = [(variant, transport) for variant in LOSSES for transport in LOSS_TRANSPORTS]
    done, total = 0, len(jobs) + len(losing) + len(TRANSPORTS) + 1
    measured: dict[str, list[Measured]] = {scenario: [] for scenario in SCENARIOS}
    lost: dict[str, list[Measured]] = {variant: [] for variant in LOSSES}
    with closing(KernelEpisodes(folder)) as kept:
        for scenario, transport in jobs:
            progress(done, total)
            measured[scenario].append(
                on_both_backends(scenario, shipped_contender(transport, scenario), kept)
            )
            done += 1
        for variant, transport in losing:
            progress(done, total)
            scenario, overrides = LOSSES[variant]
            contender = shipped_contender(transport, scenario)
            lost[variant].append(on_both_backends(scenario, contender, kept, overrides, LOSS_SEEDS))
            done += 1
        progress(done, total)
        transfer = _transfer(measured[TRANSFER_SCENARIO], TRANSFER_TRAININGS, kept)
    pages = [_page(scenario, rows) for scenario, rows in measured.items()]
    judged = [_winners(measured | lost), _counts(measured, lost), _outside(measured | lost, set(lost))]
    return [*pages, _losses(lost), *judged, transfer]


def quick(folder: Path, _n_workers: int, progress: Progress) -> list[Page]:
    """Return only the page for a trained policy, in about a minute.

    Args:
        folder: Results folder; the kernel's episodes are stored in it.
        _n_workers: Not used.
        progress: Callback with the number of finished parts and of all parts.

    Raises:
        BackendUnavailable: The kernel backend is not available.
        MissingExtra: The extra ``emulator`` or ``train`` is not installed.
    """
    classics = []
    with closing(KernelEpisodes(folder)) as kept:
        for done, transport in enumerate(TRANSFER_AGAINST):
            progress(done, len(TRANSFER_AGAINST) + 1)
            contender = shipped_contender(transport, TRANSFER_SCENARIO)
            classics.append(on_both_backends(TRANSFER_SCENARIO, contender, kept))
        progress(len(classics), len(classics) + 1)
        return [_transfer(classics, TRANSFER_TRAININGS[:1], kept)]


def shipped_contender(transport: str, scenario: str) -> Contender:
    """Return a contender by name; a learned one has the package's checkpoint for the scenario."""
    return parse_contender(transport, (), "congestion").with_shipped(scenario)


def on_both_backends(
    scenario: str,
    contender: Contender,
    kept: KernelEpisodes,
    overrides: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = SEEDS,
) -> Measured:
    """Run a contender's episodes on the simulator and, unless they are stored, on the kernel.

    Args:
        scenario: Name of a scenario.
        contender: The contender.
        kept: Stored episodes of the kernel.
        overrides: Changes of the scenario.
        seeds: Episode seeds.
    """
    values: dict[str, dict[str, list[float]]] = {backend: {} for backend in BACKENDS}
    for backend in BACKENDS:
        for metrics in _episodes(scenario, contender, kept if backend == KERNEL else None, overrides, seeds):
            for name, value in metrics.items():
                values[backend].setdefault(name, []).append(value)
    return Measured(contender.name, values)


def _episodes(
    scenario: str,
    contender: Contender,
    kept: KernelEpisodes | None,
    overrides: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = SEEDS,
) -> Iterator[dict[str, float]]:
    """Run the episodes of some seeds one after another and yield the metrics of each.

    Args:
        scenario: Name of a scenario.
        contender: The contender.
        kept: Stored episodes of the kernel, where the others run; None: all run on the simulator.
        overrides: Changes of the scenario.
        seeds: Episode seeds.
    """
    from sysgym.bench.run.episodes import make_contender, play
    from sysgym.scenarios import CongestionScenario, load_scenario

    loaded = load_scenario(scenario, overrides=overrides, expect=CongestionScenario)
    found = {seed: kept.get(loaded, contender, seed) if kept else None for seed in seeds}
    if all(found.values()):
        yield from (metrics for metrics in found.values() if metrics)
        return
    backend = SIMULATOR if kept is None else KERNEL
    env, agent = make_contender(loaded.resolved(), "test", contender, None, backend=backend)
    try:
        for seed, metrics in found.items():
            if metrics is None:
                metrics = play(env, agent, seed).info["episode_metrics"]
                if kept is not None:
                    kept.add(loaded, contender, seed, metrics)
            yield metrics
    finally:
        env.close()


def _page(scenario: str, rows: Sequence[Measured]) -> Page:
    present = [name for name in METRICS if any(row.cell(name) != "–" for row in rows)]
    columns = ("metric", *(row.contender for row in rows))
    cells = tuple((name, *(row.cell(name) for row in rows)) for name in present)
    text = (
        "Simulator / kernel (the simulator's difference from the kernel ± half its 95 % interval), means over"
        f" {len(SEEDS)} seeds of the test split, without an agent."
    )
    return Page(scenario, text, columns, cells)


def _losses(measured: dict[str, list[Measured]]) -> Page:
    """Return the page of variants with packet loss, with a row for each variant and transport."""
    rows = [
        (f"{variant}, {row.contender}", *(row.cell(metric) for metric in LOSS_METRICS))
        for variant, players in measured.items()
        for row in players
    ]
    text = (
        f"{INCAST} with other buffers and numbers of senders, and {DUMBBELL} with random loss on every link."
        " Simulator / kernel (the simulator's difference from the kernel ± half its 95 % interval), means"
        f" over {len(LOSS_SEEDS)} seeds."
    )
    return Page("Where packets are lost", text, ("losses, law", *LOSS_METRICS), tuple(rows))


def _winners(measured: dict[str, list[Measured]]) -> Page:
    rows = []
    for scenario, players in measured.items():
        for metric, direction in METRICS.items():
            winners = [_best(players, backend, metric, direction) for backend in BACKENDS]
            if all(winners):
                agrees = "yes" if set(winners[0]) & set(winners[1]) else "no"
                rows.append((f"{scenario}, {metric}", *(", ".join(found) for found in winners), agrees))
    text = f"Best transport on each backend, with those within {EQUAL:.0%} of the best."
    return Page("Winners", text, ("metric", "simulator", "kernel", "the same"), tuple(rows))


def _judged(
    measured: Mapping[str, Sequence[Measured]], losing: Collection[str]
) -> Iterator[tuple[str, Measured, str, float, float]]:
    """Yield title, contender, metric, distance beyond its goal and margin, for each metric with a goal."""
    for title, players in measured.items():
        for name in LOSS_GOALS if title in losing else CALM_GOALS:
            for row in players:
                difference = row.judged(name)
                if difference is not None:
                    yield title, row, name, abs(difference.value) - GOALS.get(name, 1.0), difference.margin


def _counts(measured: Mapping[str, Sequence[Measured]], lost: Mapping[str, Sequence[Measured]]) -> Page:
    """Return the page with the numbers of pairs of network and law within the goals."""
    groups = [(some, learned) for some in (measured, lost) for learned in (False, True)]
    titles = [
        f"{where}, {who}" for where in ("networks", "losses") for who in ("classical laws", "learned laws")
    ]
    rows = []
    for metric in (*GOALS, "timeouts"):
        cells = []
        for some, learned in groups:
            met = [
                beyond <= 0.0
                for _, row, name, beyond, _ in _judged(some, set(lost))
                if name == metric and (row.contender in LEARNED) == learned
            ]
            cells.append(f"{sum(met)} of {len(met)}" if met else "–")
        goal = f"{GOALS[metric]:.0%}" if metric in GOALS else f"a factor of {TIMEOUTS_FACTOR:g}"
        rows.append((metric, goal, *cells))
    text = "Pairs of network and law within the goals. Time-outs count half a time-out more on both backends."
    return Page("Within the goals", text, ("metric", "goal", *titles), tuple(rows))


def _outside(measured: Mapping[str, Sequence[Measured]], losing: Collection[str]) -> Page:
    """Return the page with the pairs of network and law that miss a goal, and whether they do so clearly."""
    rows = tuple(
        (f"{title}, {row.contender}", metric, row.cell(metric), "yes" if beyond > margin else "no")
        for title, row, metric, beyond, margin in _judged(measured, losing)
        if beyond > 0.0
    )
    text = "Simulator / kernel (difference ± half its 95 % interval)."
    return Page("Outside the goals", text, ("pair", "metric", "values", "clearly"), rows)


def _best(players: Sequence[Measured], backend: str, metric: str, direction: str) -> list[str]:
    means = {player.contender: player.mean(backend, metric) for player in players}
    known = {name: mean for name, mean in means.items() if mean is not None}
    if not direction or len(known) < len(players):
        return []
    best = (max if direction == "higher" else min)(known.values())
    return [name for name, mean in known.items() if abs(mean - best) <= EQUAL * abs(best)]


def _transfer(classics: Sequence[Measured], trainings: Sequence[int], kept: KernelEpisodes) -> Page:
    """Train on the simulator and evaluate on both backends, beside the classical laws."""
    from sysgym.agents.learned import train

    rows = [row for row in classics if row.contender in TRANSFER_AGAINST]
    for seed in trainings:
        with tempfile.TemporaryDirectory() as folder:
            final: Any = train(
                "ppo", TRANSFER_SCENARIO, total_steps=TRANSFER_STEPS, out=folder, n_envs=8, seed=seed
            )
            contender = parse_contender("ppo", (), "congestion").with_checkpoint(final)
            played = on_both_backends(TRANSFER_SCENARIO, contender, kept)
        rows.append(replace(played, contender=f"{played.contender}, training {seed}"))
    cells = tuple((name, *(row.cell(name) for row in rows)) for name in TRANSFER_METRICS)
    text = (
        f"PPO, trained on the simulator for {TRANSFER_STEPS:,} steps of {TRANSFER_SCENARIO} and not on the"
        " kernel, beside the kernel's own laws. Simulator / kernel (difference)."
    )
    return Page("From simulator to kernel", text, ("metric", *(row.contender for row in rows)), cells)
