"""Application of all parts of a change to a running network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sysgym.emulator.packets.build import Assembly
from sysgym.emulator.packets.changes.flows import grafted, new_schedule
from sysgym.emulator.packets.changes.laws import check_law, give_law
from sysgym.emulator.packets.changes.links import set_delays, set_thresholds
from sysgym.emulator.packets.changes.running import ECN_THRESHOLD, LINK_DELAY, Running, check_keys
from sysgym.emulator.packets.growth import extended
from sysgym.emulator.packets.sizing.estimate import check_size
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.transports.base import Transport, callback_addresses


def changed(running: Running, settings: Mapping[str, Any], law: Transport | None) -> Running:
    """Return the network after a change at its present time; everything is checked before anything changes.

    Args:
        running: The network; its arrays may be changed in place.
        settings: New values by dotted key of the scenario.
        law: Congestion control law of all flows from now on; None: the present one.

    Raises:
        UnknownName: If a key cannot change while the network runs.
        ScenarioError: If a value is invalid.
        SysgymError: If the flows cannot change, or cannot use the law.
    """
    check_keys(running, settings)
    if law is not None:
        check_law(running, law)
        law.callbacks()  # compiles them, which may fail
    if settings:
        running = _with_settings(running, settings)
    return running if law is None or law is running.laws[-1] else _with_law(running, law)


def _with_settings(running: Running, settings: Mapping[str, Any]) -> Running:
    scenario = running.scenario.with_overrides(dict(settings))
    check_size(scenario)
    topology = build_topology(scenario.topology)
    new_flows = any(key.startswith("workload.") for key in settings)
    schedule = new_schedule(running, scenario, topology) if new_flows else running.schedule
    assembly = Assembly(scenario, topology, running.laws[0], schedule, extended=running.extended)
    if ECN_THRESHOLD in settings:
        set_thresholds(running, assembly)
    state = running.state
    if new_flows:
        state = grafted(running, assembly)
        to_come = state.flows[running.n_begun :]
        law = running.laws[-1]
        to_come["transport"] = len(running.laws) - 1
        to_come["ecn_capable"] = law.ecn_capable
        to_come["reduces_by_prr"] = law.reduces_by_prr
    running = running._replace(scenario=scenario, topology=topology, schedule=schedule, state=state)
    if LINK_DELAY in settings:
        set_delays(running, assembly)
    ideal_fct_s = np.concatenate(
        (running.ideal_fct_s[: running.n_begun], assembly.ideal_fct_s[running.n_begun :])
    )
    return running._replace(ideal_fct_s=ideal_fct_s)


def _with_law(running: Running, law: Transport) -> Running:
    state, laws = running.state, (*running.laws, law)
    if law.needs_extras and not running.extended:
        state = extended(state, running.topology)
    state = state._replace(callbacks=callback_addresses(laws))
    state.bind()
    running = running._replace(state=state, laws=laws, extended=running.extended or law.needs_extras)
    give_law(running, len(laws) - 1)
    return running
