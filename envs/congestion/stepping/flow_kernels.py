"""Compiled kernels of :mod:`sysgym.envs.congestion.stepping.flow_stepper`, and the agent record."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.packets.counters.rows import FlowCounterArray
from sysgym.emulator.packets.counters.single_flows import (
    multiply_window,
    read_flow,
    read_host,
    set_pace,
)
from sysgym.emulator.packets.memory.numba_records import record_dtype
from sysgym.emulator.packets.memory.records import world_at
from sysgym.emulator.packets.stepping import after_ns, enforce_caps, now_ns, reaches, request_cap
from sysgym.envs.congestion.flow.intervals import FlowInterval, IntervalArray, estimate_srtt, measure
from sysgym.envs.congestion.flow.presets.base import Observation, call_decide, call_observe, call_pay
from sysgym.envs.congestion.stepping.protocol import ACTS, BEGINS, DONE, FIRST_HALF, PASSES, REFUSED, Rows

FloatArray = NDArray[np.float64]

WINDOW, HOST_CAP, FLOW_PACE, NOTHING = range(4)
"""Quantity that an action sets: the flow's window, its host's cap, its own pacing rate, or nothing."""

NO_FLOW = -1
"""Flow id of an agent that controls a host."""

SHORTEST_INTERVAL_S = 1e-6


class Agent:
    """Control settings and decision state of an agent: the fields of :data:`AGENT`.

    Agents of one network have adjacent rows. The fields after ``action`` describe the network and are valid
    for its first agent only.
    """

    world: int
    """Address of the network's record; 0 before the first episode and on the kernel."""
    flow: int
    """Flow under control; NO_FLOW if the agent controls a host."""
    host: int
    sets: int
    has_law: int
    """1 if a congestion control law sets the rate too, so that the line rate means no cap."""
    decide: int
    """Address of the preset's function for actions; see ``presets``."""
    observe: int
    """Address of the preset's function for observations."""
    pay: int
    """Address of the reward's function."""
    n_features: int
    """Number of features of one interval."""
    action: float
    """Next native action of the agent."""
    stage: int
    """Stage of the current decision, or of the next one."""
    middle_ns: int
    end_ns: int
    interval_s: float
    """Length of the current interval, or of the next one."""
    longest_s: float
    """Upper bound of the length of an interval."""
    decision_rtts: float
    """Length of an interval in round-trip times of the previous one; 0: always the longest length."""
    now_s: float
    """Time at the end of the newest interval."""
    episode_seed: int
    steps: int
    """Number of decisions so far."""
    episode_steps: int


AGENT = record_dtype(Agent)


@njit(forceinline=True)
def take_rate(agent: Agent, rate_bps: float, interval: FlowInterval) -> float:
    """Store a rate, clipped between the lowest and the line rate; return the limit for the network.

    At the line rate there is no limit if a congestion control law sets the rate too.
    """
    rate_bps = min(max(rate_bps, interval.least_rate_bps), interval.line_rate_bps)
    interval.asked_bps = rate_bps
    if interval.windowed == 0.0:
        interval.rate_bps = rate_bps
    if agent.has_law and rate_bps == interval.line_rate_bps:
        return math.inf
    return rate_bps


@njit(forceinline=True)
def _tell(agent: Agent, told: float) -> bool:
    """Apply a rate or a window factor to the network; return whether that was possible."""
    if agent.sets == WINDOW:
        multiply_window(world_at(agent.world, 0), agent.flow, told)
    elif agent.sets == HOST_CAP:
        request_cap(agent.world, agent.host, told)
    elif agent.sets == FLOW_PACE:
        set_pace(world_at(agent.world, 0), agent.flow, told)
    else:
        return told == math.inf
    return True


@njit(forceinline=True)
def wanted(agent: Agent, interval: FlowInterval) -> float:
    """Return the rate or the window factor that an action requests."""
    value = call_decide(agent.decide, interval, agent.action)
    return value if agent.sets == WINDOW else take_rate(agent, value, interval)


@njit(forceinline=True)
def _longest_rtt_s(intervals: IntervalArray, first: int, behind_last: int) -> float:
    """Return the longest mean round-trip time of a network's agents, so that each of them receives ACKs."""
    longest_s = 0.0
    for row in range(first, behind_last):
        longest_s = max(longest_s, intervals[row].rtt_s)
    return longest_s


@njit(forceinline=True)
def plan_next_interval(agent: Agent, rtt_s: float) -> None:
    """Set the length of the next interval: constant, or a multiple of the previous round-trip time."""
    if agent.decision_rtts == 0.0:
        agent.interval_s = agent.longest_s
    elif rtt_s > 0.0:
        agent.interval_s = min(max(agent.decision_rtts * rtt_s, SHORTEST_INTERVAL_S), agent.longest_s)


@njit(forceinline=True)
def _begin_interval(agent: Agent) -> None:
    half_s = 0.5 * agent.interval_s
    agent.middle_ns = after_ns(now_ns(agent.world), half_s)
    agent.end_ns = after_ns(agent.middle_ns, agent.interval_s - half_s)


@njit(forceinline=True)
def _read_all(rows: Rows, first: int, behind_last: int, out: FlowCounterArray) -> None:
    for row in range(first, behind_last):
        agent = rows[row]
        if agent.flow == NO_FLOW:
            read_host(world_at(agent.world, 0), agent.host, out[row])
        else:
            read_flow(world_at(agent.world, 0), agent.flow, out[row])


@njit(forceinline=True)
def _conclude_all(
    rows: Rows,
    first: int,
    behind_last: int,
    duration_s: float,
    counters: FlowCounterArray,
    intervals: IntervalArray,
    features: Observation,
    weights: FloatArray,
    terms: FloatArray,
) -> None:
    """Measure an interval, insert its features before the older ones, and compute the reward terms."""
    for row in range(first, behind_last):
        if rows[row].flow == NO_FLOW:
            estimate_srtt(counters[0, row], counters[2, row])
        interval, observation = intervals[row], features[row]
        measure(counters[0, row], counters[1, row], counters[2, row], duration_s, interval)
        agent, n_features = rows[row], rows[row].n_features
        for place in range(len(observation) - 1, n_features - 1, -1):
            observation[place] = observation[place - n_features]
        call_observe(agent.observe, interval, observation[:n_features])
        call_pay(agent.pay, interval, weights, terms[row])
        counters[0, row] = counters[2, row]


@cached_kernel("sysgym.emulator.packets")
def read_agents(rows: Rows, out: FlowCounterArray) -> None:
    """Read the current counters of agents, shape (n,)."""
    _read_all(rows, 0, len(rows), out)


@cached_kernel("sysgym.emulator.packets")
def set_rates(rows: Rows, rates_bps: FloatArray, intervals: IntervalArray) -> None:
    """Set the rates of all agents of a network, shape (n,)."""
    for row in range(len(rows)):
        _tell(rows[row], take_rate(rows[row], rates_bps[row], intervals[row]))
    if rows[0].sets == HOST_CAP:
        enforce_caps(rows[0].world)


@cached_kernel("sysgym.emulator.packets")
def pass_intervals(
    rows: Rows,
    first: int,
    behind_last: int,
    counters: FlowCounterArray,
    intervals: IntervalArray,
    features: Observation,
    weights: FloatArray,
    terms: FloatArray,
) -> int:
    """Advance each network from its stage as far as possible; return the number that Python must handle."""
    n_left = 0
    begin = first
    while begin < behind_last:
        world = rows[begin]
        end = begin + 1
        while end < behind_last and rows[end].world == world.world:
            end += 1
        if world.stage == ACTS:
            world.stage = BEGINS
            for row in range(begin, end):
                if not _tell(rows[row], wanted(rows[row], intervals[row])):
                    world.stage = REFUSED
            if world.sets == HOST_CAP:
                enforce_caps(world.world)
        if world.stage == BEGINS:
            _begin_interval(world)
            world.stage = FIRST_HALF
        if world.stage == FIRST_HALF and reaches(world.world, world.middle_ns):
            _read_all(rows, begin, end, counters[1])
            world.stage = PASSES
        if world.stage == PASSES and reaches(world.world, world.end_ns):
            _read_all(rows, begin, end, counters[2])
            _conclude_all(
                rows,
                begin,
                end,
                world.interval_s,
                counters,
                intervals,
                features,
                weights,
                terms,
            )
            plan_next_interval(world, _longest_rtt_s(intervals, begin, end))
            world.now_s = now_ns(world.world) * 1e-9
            world.steps += 1
            world.stage = DONE
        if world.stage != DONE:
            n_left += 1
        begin = end
    return n_left


@cached_kernel("sysgym.emulator.packets")
def want_rates(rows: Rows, rates_bps: FloatArray, intervals: IntervalArray, told: FloatArray) -> None:
    """Store rates and write the network's limits to ``told``, shape (n,), without applying them."""
    for row in range(len(rows)):
        told[row] = take_rate(rows[row], rates_bps[row], intervals[row])


@cached_kernel("sysgym.emulator.packets")
def want_actions(rows: Rows, intervals: IntervalArray, told: FloatArray) -> None:
    """Store actions and write the rates or window factors to ``told``, shape (n,), without applying them."""
    for row in range(len(rows)):
        told[row] = wanted(rows[row], intervals[row])


@cached_kernel("sysgym.emulator.packets")
def conclude(
    rows: Rows,
    duration_s: float,
    counters: FlowCounterArray,
    intervals: IntervalArray,
    features: Observation,
    weights: FloatArray,
    terms: FloatArray,
) -> None:
    """Conclude the interval of a network whose counters have been read."""
    _conclude_all(
        rows,
        0,
        len(rows),
        duration_s,
        counters,
        intervals,
        features,
        weights,
        terms,
    )
    plan_next_interval(rows[0], _longest_rtt_s(intervals, 0, len(rows)))
