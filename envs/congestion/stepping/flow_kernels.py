"""Compiled kernels of :mod:`sysgym.envs.congestion.stepping.flow_stepper`, and the record of an agent."""

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
"""What an action sets: the flow's window, its host's cap, the flow's own pace, or nothing that it could."""

NO_FLOW = -1
"""Instead of a flow: the agent steers a host."""

SHORTEST_INTERVAL_S = 1e-6


class Agent:
    """How an agent steers, and how far its decision is: the fields of :data:`AGENT`.

    Agents of one world are neighbours. What follows ``action`` is that of the world, and holds for its first
    agent only.
    """

    world: int
    """Address of its record; 0 before the first episode and on the kernel."""
    flow: int
    """NO_FLOW: a host is steered."""
    host: int
    sets: int
    has_law: int
    """1: a law sets the rate too, and the line rate is no cap."""
    decide: int
    """Address of the preset's function, as the next two; see ``presets``."""
    observe: int
    pay: int
    """Address of the reward's."""
    n_features: int
    """Of one interval."""
    action: float
    """What the agent decides next, a native number."""
    stage: int
    middle_ns: int
    end_ns: int
    interval_s: float
    """Of the decision that is under way, or comes next."""
    longest_s: float
    decision_rtts: float
    """An interval lasts so many round trips of the one before; 0: every interval is the longest."""
    now_s: float
    """At the end of the newest interval."""
    episode_seed: int
    steps: int
    """Decisions so far."""
    episode_steps: int


AGENT = record_dtype(Agent)


@njit(forceinline=True)
def take_rate(agent: Agent, rate_bps: float, interval: FlowInterval) -> float:
    """Note a rate, kept between the least and the line rate; return what the network is told.

    That is no limit at all where a law sets the rate too and nothing holds it back.
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
    """Tell the network a rate, or the factor of a window; return whether that was possible."""
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
    """Return what the network is told for an agent's action: a rate, or the factor of a window."""
    value = call_decide(agent.decide, interval, agent.action)
    return value if agent.sets == WINDOW else take_rate(agent, value, interval)


@njit(forceinline=True)
def plan_next_interval(agent: Agent, rtt_s: float) -> None:
    """Let the next interval last as long as always, or so many round trips of the one that has ended."""
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
    """Measure an interval, put its features before the older ones, and work out the terms, row by row."""
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
    """Read the counters of agents now, shape (n,)."""
    _read_all(rows, 0, len(rows), out)


@cached_kernel("sysgym.emulator.packets")
def set_rates(rows: Rows, rates_bps: FloatArray, intervals: IntervalArray) -> None:
    """Set rates of all agents of a world, shape (n,)."""
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
    """Take each world from its stage as far as it gets; return how many of them Python has to look at."""
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
            plan_next_interval(world, intervals[begin].rtt_s)
            world.now_s = now_ns(world.world) * 1e-9
            world.steps += 1
            world.stage = DONE
        if world.stage != DONE:
            n_left += 1
        begin = end
    return n_left


@cached_kernel("sysgym.emulator.packets")
def want_rates(rows: Rows, rates_bps: FloatArray, intervals: IntervalArray, told: FloatArray) -> None:
    """Note rates and write what the network is to be told, shape (n,), without telling it."""
    for row in range(len(rows)):
        told[row] = take_rate(rows[row], rates_bps[row], intervals[row])


@cached_kernel("sysgym.emulator.packets")
def want_actions(rows: Rows, intervals: IntervalArray, told: FloatArray) -> None:
    """Do the same for actions: rates, or factors of windows."""
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
    """End the interval of a world whose counters have been read."""
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
    plan_next_interval(rows[0], intervals[0].rtt_s)
