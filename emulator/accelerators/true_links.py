"""True links of a system, which differ from its data sheet: slow nodes and links, and the flows of others.

A hidden system is a bandwidth for every directed link in each of a few states of the traffic of others. The
time of a candidate is that of its collectives as flows on these links (:mod:`~.flows.pipelines`); no closed
form of the levels describes it. All of this is our convention.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.candidates import Candidate
from sysgym.emulator.accelerators.flows.collective import instruction_groups, link_graph, vector_shares
from sysgym.emulator.accelerators.flows.links import LinkGraph
from sysgym.emulator.accelerators.flows.pipelines import (
    GroupFlows,
    group_flows,
    mean_hop_s_per_byte,
    step_times_s,
)
from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import Matrix, reduction_factors
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.programs import Collective, Program
from sysgym.scenarios.schema.placement_tables import Joint

FloatArray = NDArray[np.float64]

_HALVES = (Collective.REDUCE_SCATTER, Collective.ALL_GATHER)

LEAST_FREE = 0.1
"""Share of a link that others' flows leave free at least."""


@dataclass(frozen=True, eq=False)
class TrueLinks:
    """Links as they are.

    Attributes:
        graph: The links of the hierarchy.
        bandwidth_bytes_per_s: What every directed link has left in each state of others' traffic, all equally
            likely, float64 [n_states, n_links].
        slow_node: Slow instance of the outermost level; None for none.
        slow_link: First of the two directed links of a slow uplink; None for none.
    """

    graph: LinkGraph
    bandwidth_bytes_per_s: FloatArray
    slow_node: int | None
    slow_link: int | None


def draw_links(hierarchy: Hierarchy, joint: Joint, rng: np.random.Generator) -> TrueLinks:
    """Draw the hidden links of a system.

    Args:
        hierarchy: The system by its data sheet.
        joint: What can be wrong with it, and how much traffic others have.
        rng: Generator of all draws; their number does not depend on what is found.
    """
    graph = link_graph(hierarchy)
    shares = rng.uniform(joint.level_share_min, 1.0, hierarchy.n_levels)
    bandwidth = graph.bandwidth_bytes_per_s * np.repeat(shares, np.diff(graph.first_link))
    chance, at = rng.random(2), rng.random(3)
    slow_node = slow_link = None
    if chance[0] < joint.slow_node_probability:
        slow_node = int(at[0] * hierarchy.cardinalities[0])
        bandwidth[_links_of_node(graph, slow_node)] *= joint.slow_node_share
    if chance[1] < joint.slow_link_probability:
        level = int(at[1] * hierarchy.n_levels)
        first, stop = graph.first_link[level : level + 2]
        slow_link = int(first) + 2 * int(at[2] * ((stop - first) // 2))
        bandwidth[slow_link : slow_link + 2] *= joint.slow_link_share
    states = [bandwidth - _taken(graph, bandwidth, joint, rng) for _ in range(joint.background_states)]
    return TrueLinks(graph, np.maximum(states, LEAST_FREE * bandwidth), slow_node, slow_link)


def _links_of_node(graph: LinkGraph, node: int) -> NDArray[np.int64]:
    """Return all links inside an instance of the outermost level, and its uplinks."""
    n_nodes = graph.hierarchy.cardinalities[0]
    of_level = [
        np.arange(first, stop).reshape(n_nodes, -1)[node]
        for first, stop in zip(graph.first_link[:-1], graph.first_link[1:], strict=True)
    ]
    return np.concatenate(of_level)


def _taken(graph: LinkGraph, bandwidth: FloatArray, joint: Joint, rng: np.random.Generator) -> FloatArray:
    """Return what the flows of others take of every link in one state, bytes/s [n_links]."""
    n_flows, n_devices = joint.background_flows, graph.hierarchy.n_devices
    taken = np.zeros(graph.n_links)
    if not n_flows or n_devices < 2:
        return taken
    source = rng.integers(n_devices, size=n_flows)
    target = (source + rng.integers(1, n_devices, size=n_flows)) % n_devices
    paths = graph.paths(source, target, np.stack([source, target], axis=1), np.arange(n_flows))
    rates = rng.uniform(0.0, joint.background_flow_share, n_flows)
    for flow, rate in enumerate(rates.tolist()):
        links, shares = paths.links_of(flow), paths.shares_of(flow)
        taken[links] += rate * (bandwidth[links] / shares).min() * shares
    return taken


class _Linear(NamedTuple):
    """Time of a step whose groups are all alike: the longer of two times that are linear in the bytes.

    Attributes:
        fullest_s: Time of the fullest link per byte of the vector in each state, float64 [n_states].
        after_s: Latency after the last byte.
        around_s: Time of a ring's connections, one after another, per byte, float64 [n_states]; zeros for
            chains and trees.
        latency_s: Latencies of all rounds.
    """

    fullest_s: FloatArray
    after_s: float
    around_s: FloatArray
    latency_s: float

    def times_s(self, vector_bytes: float, part: float) -> FloatArray:
        """Return the time of a vector in each state, with a part of the rounds, float64 [n_states]."""
        fullest_s = part * vector_bytes * self.fullest_s + self.after_s
        return np.asarray(
            np.maximum(fullest_s, part * (vector_bytes * self.around_s + self.latency_s)), np.float64
        )


def _linear(flows: GroupFlows, vector_bytes: float, true: TrueLinks) -> _Linear:
    bandwidth = true.bandwidth_bytes_per_s
    latency_s, scale = float(flows.latency_s[0]), flows.size_bytes.max() / vector_bytes
    paths = flows.paths
    per_byte_s = np.bincount(paths.link, paths.share, bandwidth.shape[1]) / bandwidth
    fullest_s = scale * per_byte_s.max(axis=1)
    if flows.hops is None:
        return _Linear(fullest_s, latency_s, np.zeros(len(bandwidth)), latency_s)
    around_s = scale * mean_hop_s_per_byte(flows, per_byte_s).max(axis=1)
    return _Linear(fullest_s, float(flows.hops.last_s[0]), around_s, latency_s)


class FlowTimes:
    """Times of candidates on true links, by simulation; steps that candidates have in common are run once.

    Args:
        problem: The problem.
        algorithm: Algorithm of the collectives.
        true: The links.
    """

    def __init__(self, problem: PlacementProblem, algorithm: str, true: TrueLinks) -> None:
        """Set up; nothing is simulated before it is asked for."""
        self.true = true
        self._problem, self._algorithm = problem, algorithm
        self._alike: dict[object, _Linear | None] = {}
        self._programs_s: dict[object, FloatArray] = {}

    def times_s(self, candidates: Sequence[Candidate]) -> FloatArray:
        """Return the time of each candidate in each state of others' traffic, float64 [K, n_states]."""
        reductions = self._problem.reductions
        times_s = np.zeros((len(candidates), len(self.true.bandwidth_bytes_per_s)))
        for row, candidate in enumerate(candidates):
            for reduction, program in zip(reductions, candidate.programs, strict=True):
                times_s[row] += self._program_s(candidate.matrix, reduction, program)
        return times_s

    def _program_s(self, matrix: Matrix, reduction: Reduction, program: Program) -> FloatArray:
        key = matrix, reduction, program
        if key not in self._programs_s:
            factors = tuple(factor for _, factor in reduction_factors(matrix, reduction.axes))
            time_s = np.zeros(len(self.true.bandwidth_bytes_per_s))
            for index, shares in enumerate(vector_shares(program, factors)):
                step_s = None
                if np.ptp(shares) == 0.0:
                    step_s = self._alike_s(matrix, reduction, program, index, float(shares[0]))
                time_s += self._simulated_s(matrix, reduction, program, index) if step_s is None else step_s
            self._programs_s[key] = time_s
        return self._programs_s[key]

    def _alike_s(
        self, matrix: Matrix, reduction: Reduction, program: Program, index: int, share: float
    ) -> FloatArray | None:
        """Return the time of a step whose groups are all alike, linear in their bytes; None if they are not.

        A ring's reduce-scatter and all-gather are half of its all-reduce each.
        """
        instruction = program[index]
        collective, part = instruction.collective, 1.0
        if self._algorithm == "ring" and collective in _HALVES:
            collective, part = Collective.ALL_REDUCE, 0.5
        key = matrix, reduction.axes, instruction.pattern, collective
        if key not in self._alike:
            flows = self._flows(matrix, reduction, program, index, collective)
            self._alike[key] = None
            if np.ptp(flows.latency_s) == 0.0:
                self._alike[key] = _linear(flows, share * reduction.size_bytes, self.true)
        found = self._alike[key]
        return None if found is None else found.times_s(share * reduction.size_bytes, part)

    def _simulated_s(self, matrix: Matrix, reduction: Reduction, program: Program, index: int) -> FloatArray:
        flows = self._flows(matrix, reduction, program, index, program[index].collective)
        return step_times_s(flows, self.true.bandwidth_bytes_per_s)

    def _flows(
        self, matrix: Matrix, reduction: Reduction, program: Program, index: int, collective: Collective
    ) -> GroupFlows:
        steps = instruction_groups(self._problem.hierarchy, matrix, reduction, program)
        step = next(itertools.islice(steps, index, None))
        return group_flows(
            self.true.graph,
            step.groups,
            collective,
            step.vector_bytes,
            algorithm=self._algorithm,
            factors=step.factors,
        )
