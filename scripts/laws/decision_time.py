"""Measure how long adaptive_target takes for a decision, at the end of a round trip.

python scripts/laws/decision_time.py

Prints nanoseconds of one core for the law as the simulator compiles it (floating point) and for the source of
its eBPF program, which is in fixed point, compiled for user space: clang or cc, -O2. Both decide in the same
random situations with the constants in the package. The time of restoring a situation before each decision is
measured by itself and subtracted.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numba import njit

from sysgym.agents.learned.congestion.adaptive_target.agent import FORM
from sysgym.agents.learned.shipped import shipped_checkpoint
from sysgym.emulator.linux.kernel.bpf_objects import SOURCES
from sysgym.emulator.linux.kernel.parameters import in_fixed_point
from sysgym.emulator.packets.memory.flow_record import FLOW
from sysgym.emulator.packets.memory.records import EVENT
from sysgym.emulator.packets.transports.searched import adaptive_target as law
from sysgym.emulator.packets.transports.searched import other_laws, rounds

SITUATIONS, PASSES, REPEATS = 1024, 10, 200
PACKET_BYTES, LINE_RATE_BPS, BASE_RTT_NS = 1500, 10e9, 20_000

PROGRAM = """
#include <stdint.h>
#include <time.h>
#include "decisions/adaptive_target.h"

/* Nanoseconds of n_passes over all situations; decide = 0: only restore them. */
double measure(const struct constants *constants, const double *situations, int n, int n_passes, int decide)
{
	static struct law laws[4096];
	static struct seen rounds[4096];
	static volatile unsigned int sink;
	struct timespec from, to;

	for (int k = 0; k < n; k++) {
		const double *one = situations + 5 * k;

		law_start(&laws[k], (unsigned int)(one[0] * FIXED_ONE));
		laws[k].ssthresh = laws[k].packets;
		laws[k].company.window_below = laws[k].packets;
		laws[k].company.queue_before_ns = (unsigned int)one[1];
		rounds[k] = (struct seen){
			.mean_rtt_ns = BASE_RTT_NS + (uint64_t)one[1],
			.least_rtt_ns = BASE_RTT_NS + (uint64_t)one[2],
			.base_rtt_ns = BASE_RTT_NS,
			.line_ns = LINE_NS,
			.delivered_packets = (unsigned int)one[3],
			.marked_share = (unsigned int)(one[4] * FIXED_ONE),
		};
	}
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int pass = 0; pass < n_passes; pass++)
		for (int k = 0; k < n; k++) {
			struct law law = laws[k];

			__asm__ volatile("" : "+m"(law));
			if (decide)
				law_end_round(constants, &law, &rounds[k]);
			sink = law.packets;
		}
	clock_gettime(CLOCK_MONOTONIC, &to);
	return (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
}
"""


def situations() -> np.ndarray[Any, Any]:
    """Return random ends of round trips: window, mean and least delay, packets delivered, share of marks."""
    rng = np.random.default_rng(0)
    return np.column_stack(
        [
            2.0 ** rng.uniform(0.0, 8.0, SITUATIONS),
            delay_ns := 2.0 ** rng.uniform(8.0, 18.0, SITUATIONS),
            delay_ns * rng.uniform(size=SITUATIONS),
            2.0 ** rng.uniform(0.0, 20.0, SITUATIONS),
            rng.integers(2, size=SITUATIONS) * rng.uniform(size=SITUATIONS),
        ]
    )


@njit
def _simulated(flows: Any, states: Any, events: Any, n_passes: int, decide: bool) -> float:
    total = 0.0
    for _ in range(n_passes):
        for k in range(len(flows)):
            flow = flows[k]
            flow.state[:] = states[k]
            if decide:
                law.end_round(flow, events[0])
            total += flow.state[rounds.WINDOW]
    return total


def in_simulator(parameters: np.ndarray[Any, Any]) -> float:
    """Return the nanoseconds of a decision in the code that the simulator runs."""
    flows, events = np.zeros(SITUATIONS, FLOW), np.zeros(1, EVENT)
    flows["base_rtt_ns"], flows["line_rate_bps"] = BASE_RTT_NS, LINE_RATE_BPS
    flows["packet_bytes"] = PACKET_BYTES
    events["parameters"], events["n_parameters"] = parameters.ctypes.data, len(parameters)
    states = np.zeros((SITUATIONS, FLOW["state"].shape[0]))
    for state, (window, delay_ns, least_ns, delivered, marked) in zip(states, situations(), strict=True):
        state[rounds.WINDOW] = state[other_laws.WINDOW_BELOW] = window
        state[rounds.RTT_SUM_NS], state[rounds.RTT_SAMPLES] = BASE_RTT_NS + delay_ns, 1.0
        state[rounds.RTT_LEAST_NS] = BASE_RTT_NS + least_ns
        state[rounds.DELIVERED] = delivered
        state[rounds.ACKED], state[rounds.MARKED] = 1.0, marked
        state[other_laws.QUEUE_BEFORE] = delay_ns * LINE_RATE_BPS / (8e9 * PACKET_BYTES)
        state[law.PER_ROUND] = state[other_laws.QUEUE] = 1.0

    def once(decide: bool) -> float:
        start_ns = time.perf_counter_ns()
        _simulated(flows, states, events, PASSES, decide)
        return float(time.perf_counter_ns() - start_ns)

    once(True)  # compiles
    return per_decision_ns(once)


def in_c(parameters: np.ndarray[Any, Any], folder: Path) -> float:
    """Return the nanoseconds of a decision of the eBPF program's source, compiled for user space."""
    compiler = shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        sys.exit("error: no C compiler; install clang or gcc, and run this again")
    source, library = folder / "decision.c", folder / "decision.so"
    source.write_text(PROGRAM)
    line_ns = round(PACKET_BYTES * 8e9 / LINE_RATE_BPS)
    flags = ["-O2", "-shared", "-fPIC", "-Wno-unknown-pragmas", f"-DBASE_RTT_NS={BASE_RTT_NS}ull"]
    command = [compiler, *flags, f"-DLINE_NS={line_ns}u", f"-I{SOURCES}", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    measure = ctypes.CDLL(str(library)).measure
    measure.restype = ctypes.c_double
    fixed, shown = in_fixed_point(law.NAME, parameters.tolist()), np.ascontiguousarray(situations())
    pointers = [ctypes.c_void_p(one.ctypes.data) for one in (fixed, shown)]
    return per_decision_ns(lambda decide: float(measure(*pointers, SITUATIONS, PASSES, int(decide))))


def per_decision_ns(once: Callable[[bool], float]) -> float:
    """Return the time of a decision: the least time with decisions less the least time without them."""
    least_ns = [min(once(decide) for _ in range(REPEATS)) for decide in (True, False)]
    return (least_ns[0] - least_ns[1]) / (SITUATIONS * PASSES)


def main() -> None:
    """Measure both and print."""
    shipped = shipped_checkpoint(law.NAME, "dumbbell-10g")
    assert shipped is not None
    parameters = np.array(FORM.read(shipped).parameters)
    print(f"simulator: {in_simulator(parameters):.0f} ns a decision")
    with TemporaryDirectory() as folder:
        taken_ns = in_c(parameters, Path(folder))
    print(f"source of the eBPF program, in user space: {taken_ns:.0f} ns a decision")


if __name__ == "__main__":
    main()
