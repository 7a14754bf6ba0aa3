"""Measure how long congestion controls take for an ACK in the kernel.

    sudo .venv/bin/python scripts/laws/decision_time_on_kernel.py adaptive_swift adaptive_target neural dctcp

Plays linux-dumbbell-100m for some seconds with each law and prints the mean time of its eBPF program for an
ACK, as the kernel counts it (kernel.bpf_stats_enabled, which is set for that time): whatever the program
does, the decision, the window and pace, and what it reports to user space. The kernel's clock is read before
and after each run, which is part of the time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sysgym.bench.tables import markdown_table
from sysgym.emulator.linux.kernel.bpf_objects import run_times
from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.backends import LINUX, network_on
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from sysgym.studies.laws import transports_of

SCENARIO = "linux-dumbbell-100m"
WARM_UP_S, MEASURED_S = 1.0, 4.0
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
ON_ACK = "_cong"
"""Part of the name of a program's function for ACKs, cong_control, of which the kernel may keep no more."""


@contextmanager
def counted() -> Iterator[None]:
    """Let the kernel count the time of eBPF programs for the time of the block."""
    before = STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        yield
    finally:
        STATISTICS.write_text(before)


def time_of_an_ack_ns(law: Transport) -> tuple[float, int]:
    """Return the mean time of a law's program for an ACK, and the number of ACKs.

    Raises:
        SysgymError: If the kernel counts nothing.
    """
    scenario = load_scenario(SCENARIO, expect=CongestionScenario)
    with closing(network_on(LINUX, scenario, law, {})) as network:
        network.reset(0)
        network.advance(WARM_UP_S)
        before = run_times(ON_ACK)
        network.advance(MEASURED_S)
        after = run_times(ON_ACK)
    common = after.keys() & before.keys()
    total_ns, runs = (sum(after[one][part] - before[one][part] for one in common) for part in (0, 1))
    if not runs:
        raise SysgymError(f"{law.name}: the kernel counted no ACK of an eBPF program; has it one?")
    return total_ns / runs, runs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("laws", nargs="+", help="laws, as contenders: NAME, or NAME=AGENT@CHECKPOINT")
    given = parser.parse_args()
    try:
        print(table(given.laws))
    except SysgymError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {error.filename}: {error.strerror}; run this as root, on Linux 5.1 or later")


def table(laws: Sequence[str]) -> str:
    """Return times and numbers of ACKs, in Markdown."""
    body = []
    with counted():
        for name, law in transports_of(laws, SCENARIO).items():
            mean_ns, runs = time_of_an_ack_ns(law)
            body.append([name, f"{mean_ns:.0f}", str(runs)])
    return markdown_table(["law", ">time of an ACK, ns", ">ACKs"], body)


if __name__ == "__main__":
    main()
