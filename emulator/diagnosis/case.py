"""A case: steps with faults, what each fault costs, and what what-if analysis says of a part.

What a fault costs is known, as the same steps can be replayed without it. What-if analysis (Lin et al., OSDI
2025) sees the durations with all faults, and replaces those of a part by ideal ones: a good guess.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sysgym.emulator.diagnosis.parts import (
    DATA_RANK,
    KIND,
    RANK,
    STAGE,
    Part,
    operations_of,
    parts_of,
)
from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import (
    BACKWARD,
    BACKWARD_SEND,
    FORWARD,
    FORWARD_SEND,
    FloatArray,
    Operations,
)
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.replay import step_times_s
from sysgym.emulator.training.schedules import schedule_graph, step_operations
from sysgym.emulator.training.synthetic import TRANSFER_S, TYPICAL_S
from sysgym.emulator.training.tables import read_trace
from sysgym.emulator.training.timing import durations_s, ideal_durations_s
from sysgym.emulator.training.what_if import WhatIf
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.diagnosis import DiagnosisScenario

STREAM = 0xD1A6
"""Random stream of cases."""

_TRIES = 100


class Fault(NamedTuple):
    """A fault.

    Attributes:
        part: What is slow: a rank or a stage, whose computations take longer by the factor, or a kind of
            operations, of which some are delayed by (factor - 1) times a mean forward computation. Data that
            are sent late arrive late: a delayed send delays its receive by as much.
        factor: The factor.
    """

    part: Part
    factor: float


class Case(NamedTuple):
    """Recorded steps of a job with faults.

    Attributes:
        what_if: Analysis of the steps.
        parts: Parts of the job.
        faults: The faults.
        cost_s: By how much a step would be shorter without each fault, float64 [n_faults].
    """

    what_if: WhatIf
    parts: list[Part]
    faults: list[Fault]
    cost_s: FloatArray

    @property
    def culprit(self) -> Part:
        """The fault that costs most."""
        return self.faults[int(self.cost_s.argmax())].part

    def score(self, part: Part) -> float:
        """Return the cost of a fault over that of the culprit, which is positive; 0 without a fault."""
        costs = [cost for fault, cost in zip(self.faults, self.cost_s, strict=True) if fault.part == part]
        return max(float(costs[0] / self.cost_s.max()), 0.0) if costs else 0.0

    def share(self, part: Part) -> float:
        """Return the share of the lost time that what-if analysis puts down to a part."""
        return self.what_if.share_of(operations_of(self.what_if.operations, part))


def draw_case(scenario: DiagnosisScenario, episode_seed: int) -> Case:
    """Return the case of an episode; faults are drawn until the worst one costs something, and enough.

    Args:
        scenario: The drawn scenario.
        episode_seed: Seed of the steps and the faults.

    Raises:
        TraceError: If the scenario's trace cannot be used.
        ScenarioError: If the worst one of the drawn faults never costs enough.
    """
    rng = np.random.default_rng([STREAM, episode_seed])
    job, faults = scenario.job, scenario.faults
    if job.trace:
        operations, graph, recorded_s = _recorded(job.trace)
        sound_s = recorded_s[np.sort(rng.choice(len(recorded_s), min(job.steps, len(recorded_s)), False))]
    else:
        operations, graph = _pipeline(job.schedule, job.stages, job.data_ranks, job.microbatches)
        sound_s = _generated_s(scenario, operations, rng)
    parts = parts_of(operations)
    for _ in range(_TRIES):
        drawn = _draw_faults(scenario, parts, rng)
        added_s = [_added_s(scenario, operations, graph, sound_s, fault, rng) for fault in drawn]
        with_all_s = sound_s + np.sum(added_s, axis=0)
        step_s = float(step_times_s(graph, with_all_s).mean())
        cost_s = np.array([step_s - float(step_times_s(graph, with_all_s - one).mean()) for one in added_s])
        worst_s = float(cost_s.max())
        if worst_s > 0.0 and worst_s >= faults.least_loss * step_s:
            break
    else:
        raise ScenarioError(
            scenario.name,
            "faults.least_loss",
            faults.least_loss,
            f"a share of a step that faults cost: in {_TRIES} draws with episode seed {episode_seed}"
            " the worst one cost less than that, or nothing",
            advice="lower faults.least_loss, or raise faults.excess, faults.kind_share or faults.most",
        )
    ideal = ideal_durations_s(operations, with_all_s)
    ideal_step_s = float(step_times_s(graph, ideal[None])[0])
    what_if = WhatIf(operations, graph, with_all_s, ideal, step_s, ideal_step_s)
    return Case(what_if, parts, drawn, cost_s)


@lru_cache(maxsize=16)
def _pipeline(schedule: str, stages: int, data_ranks: int, microbatches: int) -> tuple[Operations, Graph]:
    operations = step_operations(stages, data_ranks, microbatches)
    return operations, schedule_graph(operations, schedule)


@lru_cache(maxsize=2)
def _recorded(path: str) -> tuple[Operations, Graph, FloatArray]:
    trace = read_trace(Path(path).expanduser(), whole_stages=True)
    graph = graph_of(trace)
    durations = np.maximum(durations_s(trace, graph), 0.0)
    return trace.operations, graph, levelled(trace.operations, durations)


def levelled(operations: Operations, durations: FloatArray) -> FloatArray:
    """Return durations in which computations of a kind have the same mean on all ranks.

    A recorded job may have slow ranks and stages of its own, whose costs are not known; what varies from step
    to step and between microbatches stays.

    Args:
        operations: The n operations of a step.
        durations: Their durations, float64 [n_steps, n].
    """
    found = durations.copy()
    for kind in np.unique(operations.kind[operations.computes]):
        of_kind = operations.kind == kind
        mean_s = float(durations[:, of_kind].mean())
        for rank in operations.ranks.tolist():
            here = of_kind & (operations.rank == rank)
            own_s = float(durations[:, here].mean()) if here.any() else 0.0
            if own_s > 0.0:
                found[:, here] *= mean_s / own_s
    return found


def _generated_s(scenario: DiagnosisScenario, operations: Operations, rng: np.random.Generator) -> FloatArray:
    """Return durations without faults, float64 [n_steps, n]."""
    job = scenario.job
    typical_s = np.array([TYPICAL_S.get(kind, TRANSFER_S) for kind in operations.kind.tolist()])
    computing = operations.computes & np.isin(operations.kind, (FORWARD, BACKWARD))
    stage_size = np.exp(rng.normal(0.0, job.stage_log_sd, job.stages))
    typical_s[computing] *= stage_size[operations.stage[computing]]
    found = typical_s * np.exp(rng.normal(0.0, job.noise_log_sd, (job.steps, len(operations))))
    lengths = np.exp(rng.normal(0.0, job.length_log_sd, (job.steps, job.data_ranks, job.microbatches)))
    found[:, computing] *= lengths[:, operations.data_rank[computing], operations.index[computing]]
    return np.asarray(found)


def _draw_faults(scenario: DiagnosisScenario, parts: list[Part], rng: np.random.Generator) -> list[Fault]:
    """Draw faults in different parts; ranks, stages and kinds are equally likely."""
    faults = scenario.faults
    candidates = [part for part in parts if part.what != DATA_RANK]
    of_what = {what: [part for part in candidates if part.what == what] for what in (STAGE, KIND, RANK)}
    n = min(int(rng.integers(faults.least, faults.most + 1)), len(candidates))
    chosen: list[Part] = []
    while len(chosen) < n:
        group = of_what[(STAGE, KIND, RANK)[int(rng.integers(3))]]
        part = group[int(rng.integers(len(group)))]
        if part not in chosen:
            chosen.append(part)
    excess = faults.excess * np.exp(rng.normal(0.0, faults.excess_log_sd, n))
    return [Fault(part, 1.0 + float(one)) for part, one in zip(chosen, excess, strict=True)]


def _added_s(
    scenario: DiagnosisScenario,
    operations: Operations,
    graph: Graph,
    sound_s: FloatArray,
    fault: Fault,
    rng: np.random.Generator,
) -> FloatArray:
    """Return by how much operations take longer by a fault, float64 [n_steps, n]."""
    here = operations_of(operations, fault.part)
    excess = fault.factor - 1.0
    if fault.part.what == KIND:
        delayed = here & (rng.random(sound_s.shape) < scenario.faults.kind_share)
        if fault.part.which in (FORWARD_SEND, BACKWARD_SEND):
            of_groups = np.zeros((len(sound_s), len(graph.first_place) - 1), np.bool_)
            of_groups[:, graph.group_of[here]] = delayed[:, here]
            delayed = of_groups[:, graph.group_of]
        return np.asarray(excess * sound_s[:, operations.kind == FORWARD].mean() * delayed)
    return np.asarray(excess * sound_s * (here & operations.computes))
