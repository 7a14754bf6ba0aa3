"""Errors of replays on generated jobs, against a finer truth: where they are under 5 %, and where not.

    python scripts/training/replay_error.py
    python scripts/training/replay_error.py --seeds 3 --only decoder

Each job is recorded for some steps, in the finer simulation of :mod:`sysgym.emulator.training.generated`, and
replayed from the recorded durations. "Same step" is the mean absolute error of a step replayed with its own
durations alone. The others predict the mean step of a changed job, which is simulated with noise of its own:
mean absolute error over the seeds, with the 95 % interval of the mean (bootstrap over seeds), beside two
predictions without a replay: that nothing changes, and that every operation takes what the cost model says.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np

from sysgym.emulator.training.generated.changes import CHANGES, Errors, errors_of
from sysgym.emulator.training.generated.effects import LEVELS
from sysgym.emulator.training.generated.job import ParallelJob
from sysgym.emulator.training.operations import FloatArray

CLAIM = 0.05
RESAMPLES = 2000

V100, A100, H100 = 5e13, 1.2e14, 3e14
"""Operations a second that accelerators reach, assumed."""

JOBS = (
    # Data parallelism; the network between nodes from slow to fast.
    ParallelJob("resnet50", 16, 1, 1, microbatches=1, batch=64, system="p2-v100", flops_per_s=V100),
    ParallelJob("resnet50", 64, 1, 1, microbatches=1, batch=64, system="dgx-a100", flops_per_s=A100),
    ParallelJob("vgg16", 16, 1, 1, microbatches=1, batch=64, system="p2-v100", flops_per_s=V100),
    ParallelJob("bert_large", 16, 1, 1, microbatches=2, batch=32, system="p2-v100", flops_per_s=V100),
    # Data and pipeline parallelism.
    ParallelJob("vgg16", 8, 1, 2, microbatches=4, batch=16, system="p2-v100", flops_per_s=V100),
    ParallelJob("bert_large", 4, 1, 4, "gpipe", microbatches=8, batch=8, system="p2-v100", flops_per_s=V100),
    ParallelJob("bert_large", 4, 1, 4, microbatches=8, batch=8, system="p2-v100", flops_per_s=V100),
    # All three, sequences of different lengths.
    *(
        ParallelJob("decoder", 4, 2, 4, schedule, virtual, 4, 4, "p2-a100", A100, length_log_sd=0.3)
        for schedule, virtual in (("gpipe", 1), ("1f1b", 1), ("interleaved", 2))
    ),
    *(
        ParallelJob("decoder", 2, 4, 4, schedule, virtual, 4, 4, "dgx-h100", H100, length_log_sd=0.3)
        for schedule, virtual in (("gpipe", 1), ("1f1b", 1), ("interleaved", 2))
    ),
)

Found = dict[tuple[ParallelJob, str], list[Errors]]
"""Errors by job and effects, one for each seed."""


def measured(jobs: Sequence[ParallelJob], seeds: range, n_steps: int) -> Found:
    """Return the errors of all jobs, and tell on standard error how far it is."""
    found: Found = {}
    begin_s = time.perf_counter()
    for job in jobs:
        for level, effects in LEVELS.items():
            found[job, level] = [errors_of(job, effects, seed, n_steps) for seed in seeds]
            cells = [f"{name} {_cell(found[job, level], name)}" for name in found[job, level][0].replay]
            done_s = time.perf_counter() - begin_s
            print(f"{done_s:.0f} s: {_title(job)}, {level}: {', '.join(cells)}", file=sys.stderr, flush=True)
    return found


def tables(found: Found) -> Iterator[str]:
    """Yield the lines of the tables."""
    jobs = list(dict.fromkeys(job for job, _ in found))
    yield "Same step, replayed with its own durations alone: mean absolute error, %"
    yield ""
    yield f"| job | {' | '.join(LEVELS)} |"
    yield f"| --- |{' ---: |' * len(LEVELS)}"
    for job in jobs:
        same = [np.mean([one.same_step for one in found[job, level]]) for level in LEVELS]
        yield f"| {_title(job)} | {' | '.join(f'{100 * one:.2f}' for one in same)} |"
    for name in CHANGES:
        with_it = [job for job in jobs if name in found[job, next(iter(LEVELS))][0].replay]
        if not with_it:
            continue
        yield ""
        yield f"{name}: mean absolute error by replay [95 % interval] (of no change), %;"
        yield f"* not shown to be under {CLAIM:.0%}"
        yield ""
        yield f"| job | {' | '.join(LEVELS)} |"
        yield f"| --- |{' ---: |' * len(LEVELS)}"
        for job in with_it:
            yield f"| {_title(job)} | {' | '.join(_cell(found[job, level], name) for level in LEVELS)} |"
    yield ""
    yield f"| mean error under {CLAIM:.0%} | by replay | by no change | by the cost model | replay nearest |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name in CHANGES:
        rows = [_means(one, name) for one in found.values() if name in one[0].replay]
        if rows:
            under = [f"{sum(one[place] < CLAIM for one in rows)} of {len(rows)}" for place in range(3)]
            nearest = sum(one[0] < min(one[1:]) for one in rows)
            yield f"| {name} | {' | '.join(under)} | {nearest} of {len(rows)} |"


def _title(job: ParallelJob) -> str:
    return f"{job.name.replace('_', '-')}, {job.system}"


def _means(found: Sequence[Errors], name: str) -> tuple[float, float, float]:
    """Return the mean absolute errors of replay, of no change and of the cost model."""
    replay, no_change, cost_model = (
        float(np.mean(np.abs([getattr(one, of)[name] for one in found])))
        for of in ("replay", "no_change", "cost_model")
    )
    return replay, no_change, cost_model


def _cell(found: Sequence[Errors], name: str) -> str:
    """Return the error of the replay with its interval, and that of no change."""
    errors = np.abs([one.replay[name] for one in found])
    low, high = _interval(errors)
    star = "" if high < CLAIM else "*"
    no_change = _means(found, name)[1]
    return f"{100 * errors.mean():.1f}{star} [{100 * low:.1f}, {100 * high:.1f}] ({100 * no_change:.1f})"


def _interval(errors: FloatArray) -> tuple[float, float]:
    """Return the 95 % interval of the mean, by bootstrap over seeds."""
    rng = np.random.default_rng(0)
    means = errors[rng.integers(len(errors), size=(RESAMPLES, len(errors)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default: 5)")
    parser.add_argument("--steps", type=int, default=2, help="steps of each job (default: 2)")
    parser.add_argument("--only", default="", help="only jobs whose name contains this")
    arguments = parser.parse_args()
    jobs = [job for job in JOBS if arguments.only in job.name]
    print(f"{arguments.seeds} seeds, {arguments.steps} steps of each job\n")
    for line in tables(measured(jobs, range(arguments.seeds), arguments.steps)):
        print(line)


if __name__ == "__main__":
    main()
