"""Draw the figures of the labs' handouts into docs/images.

    python scripts/labs/pictures.py                         all of them, a few minutes once all is compiled
    python scripts/labs/pictures.py 1 7                     these labs
    python scripts/labs/pictures.py 5 --trainings runs      with the trainings of record_trainings.py

Each is drawn from runs that the lab makes too. Lab 5 takes the trained policy of its solution, and a policy
that is trained at home, ``home-1`` of the folder of trainings.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from sysgym.labs.incast import Incast, play_rounds
from sysgym.labs.jobs import clock, play_job
from sysgym.labs.links import PACKET_BYTES, Link, play, watch
from sysgym.labs.rates import home, play_policy, play_rule
from sysgym.labs.recorded import KERNEL, SIMULATOR, laws, values

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "images"
SIZE = (6.4, 2.5)
DPI = 110
PAIR = ("#0072b2", "#d55e00")
MORE = ("#009e73", "#cc79a7")


def bufferbloat() -> Any:
    """Queue over time with three buffers."""
    link = Link(10e6, 0.03, 0.0)
    figure, axes = plt.subplots(1, 3, figsize=SIZE)  # each with its own scales: the shape is the point
    for axis, factor, shown_s in zip(axes, (0.25, 1.0, 10.0), ((12, 14), (12, 18), (0, 30)), strict=True):
        for law, colour in zip(("reno", "bbr"), PAIR, strict=True):
            seen = watch(link.with_buffer(factor * link.bdp_bytes), law, samples=6000)
            name = "bbr (version 1)" if law == "bbr" else law
            axis.plot(seen.time_s, 8e3 * seen.queue_bytes / link.rate_bps, color=colour, lw=0.8, label=name)
        axis.set(title=f"buffer of {factor:g} BDP", xlabel="time (s)", xlim=shown_s)
        axis.set_ylim(bottom=0.0)
    axes[0].set_ylabel("queueing delay (ms)")
    axes[2].legend(frameon=False, loc="center", bbox_to_anchor=(0.5, 0.33))
    return figure


def dctcp() -> Any:
    """Use and queue over K."""
    shares = np.array([0.03, 0.07, 1 / 7, 0.25, 0.5, 1.0])
    figure, (left, right) = plt.subplots(1, 2, figsize=SIZE)
    for flows, colour in zip((2, 8, 16), (PAIR[0], MORE[0], PAIR[1]), strict=True):
        link = Link(10e9, 100e-6, 1e6, flows=flows)
        results = [play(link.with_marks(share * link.bdp_bytes), "dctcp") for share in shares]
        left.semilogx(shares, [100 * one.used for one in results], "o-", color=colour, label=f"{flows} flows")
        right.semilogx(shares, [one.queue_bytes / PACKET_BYTES for one in results], "o-", color=colour)
    left.axvline(1 / 7, color="gray", ls=":")
    left.text(1 / 7, 94.6, " BDP / 7", color="gray")
    left.set(xlabel="K / BDP", ylabel="link used (%)")
    right.set(xlabel="K / BDP", ylabel="mean queue (packets)")
    left.legend(frameon=False, loc="lower right")
    return figure


def control_law() -> Any:
    """Windows and queue of Reno and DCTCP."""
    link = Link(100e6, 0.01, 500e3, 30e3)
    figure, axes = plt.subplots(1, 2, figsize=SIZE)
    for law, colour in zip(("reno", "dctcp"), PAIR, strict=True):
        seen = watch(link, law, duration_s=3.0)
        axes[0].plot(seen.time_s, seen.cwnd_packets[:, 0], color=colour, lw=0.9, label=law)
        axes[1].plot(seen.time_s, seen.queue_bytes / 1e3, color=colour, lw=0.9)
    axes[0].set(xlabel="time (s)", ylabel="window of one flow (packets)")
    axes[1].set(xlabel="time (s)", ylabel="queue (kB)")
    axes[0].legend(frameon=False)
    return figure


def incast() -> Any:
    """Slowdown over the first window."""
    windows = np.arange(1, 11)
    figure, axis = plt.subplots(figsize=SIZE)
    for (servers, room), colour in zip(((32, 100), (48, 150)), PAIR, strict=True):
        slow = [play_rounds(Incast(servers, room, int(one)), "dctcp").slowdown for one in windows]
        axis.plot(windows, slow, "o-", color=colour, label=f"{servers} servers, buffer of {room} packets")
        axis.axvline(room / (servers - 1), color=colour, ls=":")
    axis.set(xlabel="first window (packets); dotted: what fits the buffer", ylabel="slowdown of a request")
    axis.legend(frameon=False)
    return figure


def rule(known: dict[str, Any]) -> list[float]:
    """Return the rates of the rule of lab 5's solution."""
    rate = sum(known["rates"]) / 2
    following = rate * (1 - 0.5 * known["marks"]) if known["marks"] > 0.02 else rate + 0.01
    return [following, following]


def home_policy(trainings: Path) -> Path:
    """Return a policy that was trained at home, as lab 5 trains it; it is trained if it is not there."""
    from sysgym.agents.learned.training.train import train

    out = trainings / "home-1"
    final = out / "final.zip"
    if not final.is_file():
        arguments: dict[str, Any] = {"total_steps": 30_000, "seed": 1, "hyper_parameters": {"gamma": 0.5}}
        train("ppo", home(), out=out, resume=out.is_dir(), **arguments)
    return final


def ppo(trainings: Path) -> Any:
    """Return over the core link's rate."""
    rates_bps = np.array([3, 4, 5, 6, 7, 8, 10]) * 1e6
    at_home, varied = home_policy(trainings), ROOT / "labs" / "5-ppo.zip"
    figure, axis = plt.subplots(figsize=(SIZE[0], 3.0))
    lines: tuple[tuple[str, str, str, Callable[[float], float]], ...] = (
        ("constant 0.48, the best at home", "s-", PAIR[1], lambda rate: play_rule(_constant, rate).total),
        ("a rule of three lines", "^-", MORE[0], lambda rate: play_rule(rule, rate).total),
        ("PPO, trained at home (10 Mb/s)", "v-", MORE[1], lambda rate: play_policy(at_home, rate).total),
        (
            "PPO, trained on 3, 5, 7 and 10 Mb/s",
            "o-",
            PAIR[0],
            lambda rate: play_policy(varied, rate).total,
        ),
    )
    for name, style, colour, total in lines:
        axis.plot(rates_bps / 1e6, [total(rate) for rate in rates_bps], style, color=colour, label=name)
    axis.set(xlabel="core link (Mb/s)", ylabel="return of an episode")
    axis.legend(frameon=False, loc="lower right")
    return figure


def _constant(known: dict[str, Any]) -> list[float]:
    return [0.48, 0.48]


def sim_to_real() -> Any:
    """Queues of all recorded runs."""
    figure, axis = plt.subplots(figsize=SIZE)
    for place, law in enumerate(laws()):
        for shift, backend, mark, colour in ((-0.1, SIMULATOR, "o", PAIR[0]), (0.1, KERNEL, "s", PAIR[1])):
            queues = values(law, backend, "queue_mean_bytes") / 1e3
            name = {SIMULATOR: "simulator", KERNEL: "kernel"}[backend]
            places = np.full(len(queues), place + shift)
            axis.plot(places, queues, mark, color=colour, alpha=0.6, label=None if place else name)
    axis.set_xticks(range(len(laws())), laws())
    axis.set_ylabel("mean queue of a run (kB)")
    axis.legend(frameon=False)
    return figure


def stragglers() -> Any:
    """CPU of stragglers and others at the fourth decision."""
    seen: list[Any] = []

    def look(known: Any) -> Any:
        seen.append(known)
        return np.zeros(len(known["running"]), np.bool_)

    play_job(look, 20_002)
    known, end = seen[3], seen[-1]
    cpu = np.log(known["cpu_rate"] / np.median(known["cpu_rate"]) + 1e-6)
    finished_soon = np.nan_to_num(end["latency"], nan=np.inf) < known["threshold"]
    figure, axis = plt.subplots(figsize=SIZE)
    bins = np.linspace(-2.0, 0.6, 40).tolist()
    axis.hist(cpu[finished_soon], bins, color=PAIR[0], alpha=0.7, density=True, label="others")
    axis.hist(cpu[~finished_soon], bins, color=PAIR[1], alpha=0.7, density=True, label="will be stragglers")
    axis.set(xlabel="ln(CPU so far / median of the siblings), fourth decision", ylabel="density of tasks")
    axis.legend(frameon=False)
    print("clock at 0.8, F1 over time of this job:", play_job(clock(0.8), 20_002)["f1_over_time"])
    return figure


def placement() -> Any:
    """Times of all placements of one problem, sorted."""
    from sysgym.emulator.accelerators.cost.model import CostModel
    from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
    from sysgym.emulator.accelerators.matrices import default_matrix, enumerate_matrices
    from sysgym.emulator.accelerators.problem import Reduction

    levels = (Level("rack", 4, 10e9, 14e-6), Level("node", 4, 40e9, 14e-6), Level("gpu", 8, 300e9, 3e-6))
    racks, axes = Hierarchy("racks", levels), (2, 8, 8)
    model, reductions = CostModel(racks), (Reduction((0,), 4e9), Reduction((2,), 2e8))

    def time_s(matrix: Any) -> float:
        return sum(model.all_reduce_time_s(matrix, one) for one in reductions)

    times = sorted(time_s(matrix) for matrix in enumerate_matrices(racks.cardinalities, axes))
    figure, axis = plt.subplots(figsize=SIZE)
    axis.semilogy(range(1, len(times) + 1), times, "o", color=PAIR[0], ms=4)
    axis.axhline(
        time_s(default_matrix(racks.cardinalities, axes)), color=PAIR[1], label="the usual order of ranks"
    )
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set(xlabel="all placements of (2, 8, 8) on 4 x 4 x 8 devices, sorted", ylabel="time (s)")
    axis.legend(frameon=False)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "lab-1": bufferbloat,
    "lab-2": dctcp,
    "lab-3": control_law,
    "lab-4": incast,
    "lab-6": sim_to_real,
    "lab-7": stragglers,
    "lab-8": placement,
}


def main() -> None:
    """Draw the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labs", nargs="*", type=int)
    parser.add_argument("--trainings", type=Path, help="folder of trainings of lab 5 (default: train anew)")
    given = parser.parse_args()
    plt.rcParams.update({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False})
    with tempfile.TemporaryDirectory() as temporary:
        trainings = given.trainings or Path(temporary)
        figures: dict[str, Callable[[], Any]] = {**FIGURES, "lab-5": lambda: ppo(trainings)}
        for name, draw in sorted(figures.items()):
            if given.labs and int(name.removeprefix("lab-")) not in given.labs:
                continue
            figure = draw()
            figure.tight_layout()
            figure.savefig(FOLDER / f"{name}.png", dpi=DPI, metadata={"Software": None})
            print(FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
