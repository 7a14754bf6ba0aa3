"""Incasts into shallow buffers: hosts with duplicate ACKs, hosts as Linux's, and the kernel, in one table.

    sudo .venv/bin/python scripts/hosts/shallow_incasts.py

Plays dctcp and cubic on `linux-fattree-incast` with buffers of 60 and 30 kB that mark above a fifth, on the
simulator with `loss_detection = "dupack"` and with the scenario's own, and on the kernel. Prints the first
seed alone and means over all seeds. With `--no-kernel` it needs neither Linux nor root.
docs/linux-validation.md shows the table.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from sysgym.bench.contenders import parse_contender
from sysgym.bench.run.episodes import make_contender, play
from sysgym.scenarios import load_scenario
from sysgym.scenarios.units import metric_text

SCENARIO = "linux-fattree-incast"
BUFFERS_BYTES = (60_000, 30_000)
LAWS = ("dctcp", "cubic")
FIRST_SEED, N_SEEDS = 20_000, 10
METRICS = {
    "fct_slowdown_p99": "p99 slowdown",
    "round_completion_mean_s": "mean round",
    "timeouts": "time-outs",
    "drop_fraction": "drops",
}
HOSTS: dict[str, tuple[str, dict[str, Any]]] = {
    "duplicate ACKs": ("packets", {"transport.loss_detection": "dupack", "transport.quick_acks": 0}),
    "simulator": ("packets", {}),
    "kernel": ("linux", {}),
}
"""Title -> backend and overrides. Before RACK-TLP, receivers had no `quick_acks` either."""

Episodes = list[dict[str, float]]


def played(hosts: str, buffer_bytes: int, law: str, seeds: Sequence[int]) -> Episodes:
    """Return the metrics of an episode for each seed."""
    backend, own = HOSTS[hosts]
    overrides = {"queue.buffer_bytes": buffer_bytes, "queue.ecn_threshold_bytes": buffer_bytes // 5, **own}
    scenario = load_scenario(SCENARIO, overrides=overrides).resolved()
    contender = parse_contender(law, (), "congestion")
    env, agent = make_contender(scenario, "test", contender, None, backend=backend)
    try:
        return [play(env, agent, seed).info["episode_metrics"] for seed in seeds]
    finally:
        env.close()


def rows(hosts: Sequence[str], seeds: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a Markdown table: the first seed, and the means over all."""
    columns = ["buffer", "law", "seeds", *(f"{title}: {' / '.join(hosts)}" for title in METRICS.values())]
    yield f"| {' | '.join(columns)} |"
    yield f"| {' | '.join(['---'] * 3 + ['---:'] * len(METRICS))} |"
    for buffer_bytes in BUFFERS_BYTES:
        for law in LAWS:
            episodes = {one: played(one, buffer_bytes, law, seeds) for one in hosts}
            for n_seeds in sorted({1, len(seeds)}):
                which = str(seeds[0]) if n_seeds == 1 else f"{n_seeds}"
                cells = [
                    " / ".join(mean_text(name, episodes[one][:n_seeds]) for one in hosts) for name in METRICS
                ]
                yield f"| {' | '.join([f'{buffer_bytes // 1000} kB', law, which, *cells])} |"


def mean_text(name: str, episodes: Episodes) -> str:
    """Return the mean of a metric in its unit."""
    return metric_text(name, statistics.fmean(episode[name] for episode in episodes))


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--no-kernel", action="store_true", help="the simulator alone")
    parser.add_argument("--seeds", type=int, default=N_SEEDS, help="number of seeds (default: %(default)s)")
    chosen = parser.parse_args()
    hosts = [one for one, (backend, _) in HOSTS.items() if backend != "linux" or not chosen.no_kernel]
    for line in rows(hosts, range(FIRST_SEED, FIRST_SEED + chosen.seeds)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
