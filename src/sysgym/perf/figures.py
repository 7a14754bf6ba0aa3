"""Speed of simulators, cost models, environments, import and compilation on this machine.

All measurements are on one core, except those of vector environments and of training.

The workloads are those used for measurements of other simulators: long-lived DCTCP flows, ECN threshold of 65
packets, 10 Gb/s, 10 us per link. A packet-hop is one packet, data or ACK, crossing one link. Statistics, loss
recovery and transport callbacks are enabled. Reading the counters in Python is part of an environment's step
and is measured there. ``scripts/peers/against_htsim.py`` compares packet-hops with those of another
simulator.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sysgym.perf import environments, live, packets, placement

if TYPE_CHECKING:
    from sysgym.scenarios import CongestionScenario

MEASURED_S = 1.0
"""Time of one repetition of a throughput measurement: processor time for the simulator, else wall time."""

REPETITIONS = 3

READING_INTERVAL_S = 10e-3
"""Simulated time between two readings of the counters in a throughput measurement.

Readings by environments are measured separately.
"""

SETTLE_S = 4e-3
"""Simulated time before a throughput measurement, after which the flows have left slow start."""

DUMBBELL_SENDERS = (4, 16, 64)
FAT_TREE_KS = (4, 8, 16)

JOB_TASKS = (1_000, 10_000)
ENVIRONMENT_SCENARIOS = (
    "iroko-dumbbell-10m",
    "dumbbell-10g",
    "incast-32",
    "fattree-k4-websearch",
    "flow-1g-1ms",
    "google-2011",
    "google-2011-mitigation",
)
VECTOR_WORLDS = {"flow-1g-1ms": 64, "dumbbell-10g": 8, "incast-32": 8, "fattree-k4-websearch": 8}
TRAINING_SCENARIO = "flow-1g-1ms"

_START = """
import sysgym, gymnasium
env = gymnasium.make("sysgym/DatacenterCC-v0", scenario="dumbbell-10g")
env.reset(seed=0)
env.step(env.action_space.sample())
"""


@dataclass(frozen=True)
class Figure:
    """Result of a measurement.

    Attributes:
        figure: Name of the measured quantity.
        workload: Workload.
        value: Median of the repetitions.
        unit: Unit of the value.
        reference: Value of a reference, measured in the same minute and in the same unit; None if there is
            no reference.
        reference_name: Name of the reference.
    """

    figure: str
    workload: str
    value: float
    unit: str
    reference: float | None = None
    reference_name: str = ""

    @property
    def ratio(self) -> float | None:
        """Ratio of the value to the reference."""
        return None if self.reference is None else self.value / self.reference

    def row(self) -> dict[str, Any]:
        """Return the result as a JSON object, without keys of the reference if there is none."""
        row = {**asdict(self), "ratio": self.ratio}
        if self.reference is None:
            del row["reference"], row["reference_name"], row["ratio"]
        return row


def measurements() -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Yield labels and measurements in the order of the report."""
    for n_senders in DUMBBELL_SENDERS:
        name = f"dumbbell-10g-n{n_senders}"
        yield name, _hops_measurement(name, {"topology.hosts_per_side": n_senders})
    for k in FAT_TREE_KS:
        fat_tree = {"kind": "fat_tree", "k": k, "link_rate_bps": 10e9, "link_delay_s": 10e-6}
        name = f"fattree-k{k}-10g"
        yield name, _hops_measurement(name, {"topology": fat_tree})
    for figure, workload, measure, unit in packets.measurements():
        yield f"packets {workload}, {figure}", _packets_measurement(figure, workload, measure, unit)
    for n_tasks in JOB_TASKS:
        yield f"job of {n_tasks} tasks", _checkpoint_measurement(n_tasks)
    for system in placement.SYSTEMS:
        yield f"placement costs {system}", _cost_measurement(system)
    yield f"synthesis {placement.LARGEST_SYSTEM}", _synthesis_figure
    for scenario in ENVIRONMENT_SCENARIOS:
        yield f"environment {scenario}", _environment_measurement(scenario)
    for scenario, n_worlds in VECTOR_WORLDS.items():
        yield f"vector form {scenario}", _vector_measurement(scenario, n_worlds)
    for figure, workload, measure, unit in live.measurements():
        yield f"live view {workload}, {figure}", _packets_measurement(figure, workload, measure, unit)
    if find_spec("stable_baselines3") is not None:
        yield f"training {TRAINING_SCENARIO}", _training_figure
    yield "import sysgym", lambda: Figure("import_s", "import sysgym", _median_run_s("import sysgym"), "s")
    yield "start, nothing compiled", lambda: _start_figure("first_compile_s", cached=False)
    yield "start, compiled before", lambda: _start_figure("cached_start_s", cached=True)


def _hops_measurement(name: str, overrides: dict[str, Any]) -> Callable[[], Figure]:
    def measure() -> Figure:
        from sysgym.scenarios import CongestionScenario, load_scenario

        scenario = load_scenario("dumbbell-10g", overrides=overrides, expect=CongestionScenario)
        rates = [_packet_hops_per_s(scenario) for _ in range(REPETITIONS)]
        return Figure("packet_hops_per_s", name, statistics.median(rates), "1/s")

    return measure


def _packets_measurement(
    figure: str, workload: str, measure: Callable[[], float], unit: str
) -> Callable[[], Figure]:
    return lambda: Figure(figure, workload, statistics.median(measure() for _ in range(REPETITIONS)), unit)


def _packet_hops_per_s(scenario: CongestionScenario) -> float:
    """Return packet-hops per second of processor time, on which other programs have little effect."""
    from sysgym.emulator.packets.network import PacketNetwork

    network = PacketNetwork(scenario, transport="dctcp")
    network.advance(SETTLE_S)
    hops_before = network.packet_hops
    began_s = time.process_time()
    while (elapsed_s := time.process_time() - began_s) < MEASURED_S:
        network.advance(READING_INTERVAL_S)
        network.ports()
        network.hosts()
        network.clear_maxima()
    return (network.packet_hops - hops_before) / elapsed_s


def _checkpoint_measurement(n_tasks: int) -> Callable[[], Figure]:
    """Return a measurement of one checkpoint: simulation of a window and update of all observations."""

    def measure() -> Figure:
        from sysgym.emulator.cluster.execution import UNLIMITED, Execution
        from sysgym.emulator.cluster.source import job_source
        from sysgym.scenarios import StragglerScenario, load_scenario

        sizes = {"jobs.tasks_min": n_tasks, "jobs.tasks_max": n_tasks, "jobs.cluster.machines": n_tasks}
        scenario = load_scenario("google-2011", overrides=sizes, expect=StragglerScenario)
        job = job_source(scenario).job("train", scenario.splits.train.first_seed)
        means_s = []
        for _ in range(REPETITIONS):
            world, checkpoints = Execution(job, UNLIMITED), 0
            began_s = time.perf_counter()
            while not world.done:
                world.advance(job.window_s)
                world.snapshot()
                checkpoints += 1
            means_s.append((time.perf_counter() - began_s) / checkpoints)
        return Figure("checkpoint_s", f"google-2011, {n_tasks} tasks", statistics.median(means_s), "s")

    return measure


def _cost_measurement(system: str) -> Callable[[], Figure]:
    def measure() -> Figure:
        rates = [placement.cost_evaluations_per_s(system, MEASURED_S) for _ in range(REPETITIONS)]
        return Figure("cost_evaluations_per_s", system, statistics.median(rates), "1/s")

    return measure


def _synthesis_figure() -> Figure:
    system = placement.LARGEST_SYSTEM
    durations = [placement.synthesis_s(system) for _ in range(REPETITIONS)]
    return Figure("synthesis_s", system, statistics.median(durations), "s")


def _environment_measurement(scenario: str) -> Callable[[], Figure]:
    def measure() -> Figure:
        env = environments.single(scenario)
        rates = [environments.steps_per_s(env, MEASURED_S) for _ in range(REPETITIONS)]
        env.close()
        return Figure("env_steps_per_s", scenario, statistics.median(rates), "1/s")

    return measure


def _vector_measurement(scenario: str, n_worlds: int) -> Callable[[], Figure]:
    """Return a measurement of parallel environments on all cores, alternating with a single environment."""

    def measure() -> Figure:
        env = environments.single(scenario)
        vector = environments.side_by_side(scenario, n_worlds)
        singles, rates = [], []
        for _ in range(REPETITIONS):
            singles.append(environments.steps_per_s(env, MEASURED_S))
            rates.append(environments.vector_steps_per_s(vector, MEASURED_S))
        env.close()
        vector.close()
        workload, single = f"{scenario}, {n_worlds} worlds", statistics.median(singles)
        return Figure("vector_steps_per_s", workload, statistics.median(rates), "1/s", single, "one world")

    return measure


def _training_figure() -> Figure:
    rate = environments.training_steps_per_s(TRAINING_SCENARIO)
    worlds = environments.TRAINING_WORLDS
    return Figure("training_steps_per_s", f"ppo on {TRAINING_SCENARIO}, {worlds} worlds", rate, "1/s")


def _median_run_s(
    code: str, environment: dict[str, str] | None = None, repetitions: int = REPETITIONS
) -> float:
    """Return the median wall time of ``code`` in a new interpreter, minus that of an empty program."""
    durations = []
    for _ in range(repetitions):
        empty_s = _run_s("pass", environment)
        durations.append(_run_s(code, environment) - empty_s)
    return statistics.median(durations)


def _run_s(code: str, environment: dict[str, str] | None) -> float:
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env={**os.environ, **(environment or {})})
    return time.perf_counter() - began_s


def _start_figure(figure: str, *, cached: bool) -> Figure:
    """Return the time from the start of an interpreter to the first step of an environment."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {"NUMBA_CACHE_DIR": cache}
        if cached:
            _run_s(_START, environment)
            value = _median_run_s(_START, environment)
        else:
            value = _median_run_s(_START, environment, repetitions=1)
    return Figure(figure, "sysgym/DatacenterCC-v0", value, "s")
