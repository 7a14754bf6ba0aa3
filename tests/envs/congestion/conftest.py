"""Short episodes and hand-made intervals for the environment's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.emulator.packets.counters.statistics import HostCounters, PortCounters
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.measurement import Fabric, Interval, Reading
from sysgym.scenarios import CongestionScenario, load_scenario

REGISTERED = sysgym.__version__
ENV_ID = "sysgym/DatacenterCC-v0"
SHORT = {"control.episode_steps": 12}

MakeEnv = Callable[..., Any]
MakeInterval = Callable[..., Interval]


def short_env(scenario: str = "dumbbell-10g", **arguments: Any) -> DatacenterCC:
    """Make a short environment of native actions, without wrappers."""
    overrides = SHORT | arguments.pop("overrides", {})
    arguments = {"action_scale": "native"} | arguments
    env = gym.make(ENV_ID, scenario=scenario, overrides=overrides, **arguments).unwrapped
    assert isinstance(env, DatacenterCC)
    return env


@pytest.fixture(scope="session")
def make_env() -> MakeEnv:
    return short_env


@pytest.fixture
def make_interval() -> MakeInterval:
    """Makes an interval of 1 ms on iroko-dumbbell-1g (4 hosts, 6 switch ports) in which nothing happened.

    Keywords set counters at its end (of ports, where hosts have one of that name too).
    """
    scenario = load_scenario("iroko-dumbbell-1g", expect=CongestionScenario)
    fabric = Fabric.of(scenario)
    n_links, n_hosts = fabric.topology.n_links, fabric.n_hosts

    def counters(kind: Any, n: int, values: dict[str, Any]) -> Any:
        return kind(**{name: np.zeros(n) + values.get(name, 0) for name in kind._fields})

    def make(
        *, duration_s: float = 1e-3, action: Any = 1.0, ideal_bytes: Any = 0.0, **values: Any
    ) -> Interval:
        unknown = set(values) - set(PortCounters._fields) - set(HostCounters._fields)
        assert not unknown, unknown
        of_hosts = {name: value for name, value in values.items() if name not in PortCounters._fields}
        start = Reading(0.0, counters(PortCounters, n_links, {}), counters(HostCounters, n_hosts, {}))
        end = Reading(
            duration_s, counters(PortCounters, n_links, values), counters(HostCounters, n_hosts, of_hosts)
        )
        rates = np.zeros(n_hosts) + action
        return Interval(fabric, start, end, rates, np.zeros(n_hosts) + ideal_bytes)

    return make
