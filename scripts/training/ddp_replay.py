"""Train a small model on two processes, and replay what PyTorch's profiler saw of it.

    python scripts/training/ddp_replay.py
    python scripts/training/ddp_replay.py --steps 40 --out traces --no-replay

Two processes train a multilayer perceptron with torch's DistributedDataParallel over gloo, and each writes
its profile, ``rank0.json`` and ``rank1.json``. The second one works on a larger batch (``--slow``), so there
is a straggler that is known. Prints errors of replays beside those of the trivial predictor, and what the
analysis makes of the slow rank. On a busy machine steps vary, and so do the figures.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import tempfile
from multiprocessing.process import BaseProcess
from pathlib import Path

N_RANKS, WARM_UP_STEPS = 2, 5
_JOIN_S, _CHECK_S = 5.0, 0.2


def train(rank: int, folder: Path, steps: int, width: int, batch: int, slow: float) -> None:
    """Train on one rank, and write its profile."""
    # Who stops the script stops the first process, which ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.set_num_threads(1)
    store = (folder / "store").as_uri()
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=N_RANKS)
    torch.manual_seed(rank)
    layers = [torch.nn.Linear(width, width) for _ in range(6)]
    # Buckets of a layer and a half, so that there are several of them.
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=6e-6 * width * width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(round(batch * (slow if rank == N_RANKS - 1 else 1.0)), width)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=WARM_UP_STEPS, active=steps, repeat=1),
        on_trace_ready=lambda ready: ready.export_chrome_trace(str(folder / f"rank{rank}.json")),
    ) as profiler:
        for _ in range(WARM_UP_STEPS + steps):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
            profiler.step()
    distributed.destroy_process_group()


def write_profiles(folder: Path, steps: int, width: int, batch: int, slow: float) -> list[Path]:
    """Train on all ranks, and return their profiles.

    Raises:
        SystemExit: If a process fails.
    """
    (folder / "store").unlink(missing_ok=True)
    spawn = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = [
        spawn.Process(target=train, args=(rank, folder, steps, width, batch, slow), daemon=True)
        for rank in range(N_RANKS)
    ]
    try:
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            for process in processes:
                process.join(_CHECK_S)
            # The others would wait for one that failed.
            if any(process.exitcode for process in processes):
                break
        exit_codes = [process.exitcode for process in processes]
    finally:
        for process in processes:
            if process.pid is None:
                continue
            process.terminate()
            process.join(_JOIN_S)
            if process.is_alive():
                process.kill()
                process.join()
        (folder / "store").unlink(missing_ok=True)
    if failed := [rank for rank, code in enumerate(exit_codes) if code]:
        raise SystemExit(f"rank {failed[0]} has failed")
    return [folder / f"rank{rank}.json" for rank in range(N_RANKS)]


def report(files: list[Path]) -> None:
    """Replay profiles, and print errors and the slowest rank."""
    from sysgym.emulator.training.accuracy import step_errors
    from sysgym.emulator.training.clocks import clock_offsets_s
    from sysgym.emulator.training.formats.reading import read_job
    from sysgym.emulator.training.what_if import WhatIf

    trace, graph, _, _ = read_job(files)
    n_groups = len(graph.groups())
    print(f"{len(trace.steps)} steps of {len(trace.operations)} operations, {n_groups} collectives matched")
    print(f"clocks differ by {1e3 * float(abs(clock_offsets_s(trace, graph)).max()):.3f} ms")
    print(f"a step takes {1e3 * trace.step_s.mean():.2f} ms (from {1e3 * trace.step_s.min():.2f}"
          f" to {1e3 * trace.step_s.max():.2f})")  # fmt: skip
    for error in step_errors(trace, graph):
        print(f"  {error.name}, {error.steps}: mean error {error.mean:.2%}, bias {error.bias:+.2%}")
    what_if = WhatIf.of(trace, graph)
    operators = trace.operations.computes & (trace.operations.kind != "late start")
    for rank in trace.operations.ranks.tolist():
        mine = operators & (trace.operations.rank == rank)
        own_ms = 1e3 * what_if.durations[:, mine].sum(axis=1).mean()
        shorter = 1.0 - what_if.step_without_s(trace.operations.rank == rank) / what_if.step_s
        print(
            f"  rank {rank}: {own_ms:.2f} ms of threads; without its stragglers, steps {shorter:.1%} shorter"
        )


def main() -> None:
    """Train, write, replay, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20, help="profiled steps")
    parser.add_argument("--width", type=int, default=512, help="of the six layers")
    parser.add_argument("--batch", type=int, default=256, help="rows of a rank's batch")
    parser.add_argument("--slow", type=float, default=2.0, help="batch of the last rank, as a multiple")
    parser.add_argument("--out", type=Path, help="folder for the profiles (default: they are not kept)")
    parser.add_argument("--no-replay", action="store_true", help="only write the profiles")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if options.out is None else options.out
        folder.mkdir(parents=True, exist_ok=True)
        try:
            files = write_profiles(
                folder.resolve(), options.steps, options.width, options.batch, options.slow
            )
        except KeyboardInterrupt:
            raise SystemExit("stopped; no process is left") from None
        if options.out is not None:
            print(f"wrote {', '.join(map(str, files))}")
        if not options.no_replay:
            report(files)


if __name__ == "__main__":
    main()
