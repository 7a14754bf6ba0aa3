"""Every flow or every host an agent: congestion control for several learners, as PettingZoo's ParallelEnv.

    from sysgym.envs.congestion import parallel_env
    env = parallel_env("dumbbell-10g", agents="flows", overrides={"workload.flows_per_pair": 2})

Needs the extra ``multiagent``. All agents decide at once, in every interval; what each sees, does and is paid
for is that of a preset of ``sysgym/FlowCC-v0``, so that a sender trained here plays there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.topology.round_trips import longest_round_trip_s
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.paced import PACED, PACED_FLOW
from sysgym.emulator.packets.workloads import scenario_flows
from sysgym.envs.congestion.action_spaces import SenderActions
from sysgym.envs.congestion.backends import PACKETS, check_backend, law_of_agents, network_on
from sysgym.envs.congestion.base import CongestionLifecycle
from sysgym.envs.congestion.datacenter.metrics import flow_metrics
from sysgym.envs.congestion.episodes import ScenarioLike, draw_episode_seed, resolve_scenario
from sysgym.envs.congestion.flow.intervals import IntervalArray, flow_intervals, host_intervals
from sysgym.envs.congestion.flow.metrics import interval_metrics
from sysgym.envs.congestion.flow.presets import FlowReward, Preset, get_flow_reward, get_preset
from sysgym.envs.congestion.flow.world import (
    FIRST_INTERVAL_RTTS,
    history_of,
    sender_transport,
    with_relative_buffer,
)
from sysgym.envs.congestion.stepping.flow_kernels import FLOW_PACE, HOST_CAP, NO_FLOW, WINDOW
from sysgym.envs.congestion.stepping.flow_stepper import FlowStepper
from sysgym.envs.congestion.stepping.protocol import is_over
from sysgym.envs.lifecycle import ActionError, Phase, finite_numbers
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import MissingExtra, SysgymError, UnknownName
from sysgym.scenarios.schema.flow import Flow

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise MissingExtra("multiagent", "parallel_env") from error

Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]

KINDS = ("flows", "hosts")
SHARING = ("own", "mean")


class ParallelCC(CongestionLifecycle, ParallelEnv[str, Array, Array]):  # type: ignore[misc]
    """Every flow, or every host, of a congestion scenario is an agent.

    Args:
        scenario: Name, file, resolved form or scenario of the congestion family.
        agents: ``"flows"``: ``flow_0``, ``flow_1``, ..., the flows of a long-lived workload by start time;
            ``"hosts"``: one agent for each host, whatever its flows, by the hosts' names.
        split: ``"train"``, ``"validation"`` or ``"test"``.
        preset: Observation, action and reward of each agent, by name or as a ``Preset``, as in
            ``sysgym/FlowCC-v0``; a host has no window, so no ``"orca"``.
        transport: Law of all flows; ``"paced"``: none but the agents. The rates of hosts are caps over it.
        reward: The reward, or its name; None: the preset's.
        sharing: ``"own"``: each agent has the reward of its own flow or host; ``"mean"``: all have the mean.
        history: Intervals in the observation; None: the preset's own.
        action_scale: ``"linear"``: actions within [-1, 1]; ``"native"``: the preset's own numbers.
        overrides: Dotted keys of the scenario to replace.
        render_mode: None: there are no pictures.
        backend: ``"packets"``: the simulator; ``"linux"``: real TCP and queues of the kernel, in wall time.

    Raises:
        ScenarioError: If the scenario cannot be used.
        UnknownName: If a kind of agents, split, preset, transport, reward or backend does not exist.
        SysgymError: If the flows of the scenario end, so that they cannot be agents, or if preset and
            transport leave the agents nothing to do.
        BackendUnavailable: From ``reset``: if the kernel cannot be had here.
    """

    metadata: dict[str, Any] = {"name": "congestion_v0", "render_modes": []}  # noqa: RUF012, declared so

    actions: SenderActions

    def __init__(
        self,
        scenario: ScenarioLike = "dumbbell-10g",
        agents: str = "flows",
        split: str = "train",
        preset: str | Preset = "datacenter",
        transport: str | Transport = "paced",
        reward: str | FlowReward | None = None,
        sharing: str = "own",
        history: int | None = None,
        action_scale: str = "linear",
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        backend: str = PACKETS,
    ) -> None:
        """Build the environment; the class documentation describes the arguments."""
        check_backend(backend)
        for what, choice, known in (("kind of agents", agents, KINDS), ("sharing", sharing, SHARING)):
            if choice not in known:
                raise UnknownName(what, choice, known)
        self.scenario = resolve_scenario(scenario, overrides)
        self.split, self.backend, self.render_mode = split, backend, render_mode
        self.kind, self.sharing = agents, sharing
        self._seeds = self.scenario.splits[split].seeds
        self.preset = get_preset(preset)
        self.actions = SenderActions(self.preset, action_scale)
        flow = self.scenario.flow or Flow()
        self.transport = sender_transport(self.preset, transport, flow)
        self.history = history_of(self.preset, history, flow)
        self._check_agents()
        self.reward = get_flow_reward(reward or self.preset.reward)
        self._weights = self.reward.weight_array({})
        self._law = self._law_of_all()
        self._drawn: CongestionScenario | None = None
        self._rng, _ = np_random(None)
        self.possible_agents = self._possible_agents()
        low, high = self.preset.bounds(self.history)
        self._spaces = {
            agent: (
                Box(low, high, dtype=np.float32),
                Box(self.actions.space.low, self.actions.space.high, dtype=np.float32),
            )
            for agent in self.possible_agents
        }
        self.agents: list[str] = []
        self.episode_seed: int | None = None
        self._stepper: FlowStepper

    def observation_space(self, agent: str) -> Box:
        """Return an agent's observation space, always the same object."""
        return self._spaces[agent][0]

    def action_space(self, agent: str) -> Box:
        """Return an agent's action space, always the same object."""
        return self._spaces[agent][1]

    @property
    def observation_index(self) -> list[str]:
        """What stands at every index of an agent's observation, with its unit."""
        return self.preset.index(self.history)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, dict[str, Any]]]:
        """Begin an episode.

        Args:
            seed: Seeds the generator that draws episode seeds.
            options: ``{"episode_seed": int}`` pins the episode seed; others are for other environments.

        Raises:
            ClosedEnvironment: If the environment is closed.
        """
        self._check_may_reset()
        if seed is not None:
            self._rng, _ = np_random(seed)
        known = {name: value for name, value in (options or {}).items() if name == "episode_seed"}
        self.episode_seed = draw_episode_seed(self._rng, self._seeds, known)
        drawn = self.scenario.draw(self.split, self.episode_seed)
        if drawn != self._drawn:
            self._release()
            relative = with_relative_buffer(drawn, drawn.flow or Flow())
            self._network, self._drawn = network_on(self.backend, relative, self._law), drawn
        network = self.network
        network.reset(self.episode_seed)
        intervals = self._intervals_of(network)
        self.agents = self.possible_agents[: len(intervals)]
        self._stepper = self._new_stepper(len(intervals))
        self._stepper.begin(0, network, self._settings_of(network, intervals), intervals)
        if self.transport.rate_driven:
            share = (drawn.flow or Flow()).start_rate
            self._stepper.set_rates(0, share * intervals["slowest_link_bps"])
        network.advance(network.scenario.control.warmup_s)
        self._stepper.pass_first_interval(0, len(intervals))
        self._phase = Phase.RUNNING
        return self._observations(self.agents), self._infos()

    def step(
        self, actions: dict[str, Array]
    ) -> tuple[
        dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        """Set every agent's rate or window, let one interval pass and measure it.

        Raises:
            NoEpisode: If no episode is under way.
            ClosedEnvironment: If the environment is closed.
            ActionError: If an agent's action is missing or not one finite number in an array of shape (1,).
        """
        self._check_may_step()
        agents, stepper = self.agents, self._stepper
        stepper.decide(0, len(agents), self._numbers(actions))
        paid = stepper.terms.sum(axis=1)
        if self.sharing == "mean":
            paid[:] = paid.mean()
        over = is_over(stepper.rows, 0)
        infos = self._infos()
        for place, agent in enumerate(agents):
            infos[agent]["reward_terms"] = stepper.reward_terms(place)
        if over:
            for agent in agents:
                infos[agent]["episode_metrics"] = flow_metrics(self.network.flows(), self.network.now_s)
            self.agents = []
            self._phase = Phase.OVER
        return (
            self._observations(agents),
            dict(zip(agents, paid.tolist(), strict=True)),
            dict.fromkeys(agents, False),
            dict.fromkeys(agents, over),
            infos,
        )

    def state(self) -> Array:
        """Return the observations of all agents that are there, one after another, for a central critic."""
        return self._stepper.features.ravel().copy()

    def render(self) -> None:
        """There are no pictures."""

    def _check_agents(self) -> None:
        if self.kind == "flows" and self.scenario.workload.kind != "long_lived":
            raise SysgymError(
                f'{self.scenario.name}: its flows end, and an agent cannot; use agents="hosts", or a scenario'
                " of long-lived flows"
            )
        if self.kind == "hosts" and self.preset.window:
            raise SysgymError(f'the preset "{self.preset.name}" multiplies a window, and a host has none')
        if self.kind == "flows" and not self.preset.window and not self.transport.rate_driven:
            raise SysgymError(
                f'the transport "{self.transport.name}" sets its flows\' rates itself: use "paced", "orca"'
                ' as the preset, or agents="hosts", whose rates are caps'
            )

    def _law_of_all(self) -> str | Transport:
        if self.kind == "hosts":
            return self.transport if self.backend == PACKETS else self.transport.name
        pacing = PACED_FLOW if self.transport == PACED else self.transport
        return law_of_agents(self.backend, pacing, multiplied=self.preset.window)

    def _new_stepper(self, n: int) -> FlowStepper:
        """Return what moves this many agents of one world."""
        law = self.transport.name
        if self.backend == PACKETS:
            return FlowStepper(n, self.preset, self.history, self.reward, self._weights, law)
        from sysgym.envs.congestion.stepping.linux_stepper import LinuxFlowStepper

        return LinuxFlowStepper(n, self.preset, self.history, self.reward, self._weights, law)

    def _intervals_of(self, network: Network) -> IntervalArray:
        """Return an interval for each agent, with the constants of the episode."""
        least = network.scenario.control.min_rate_fraction
        if self.kind == "hosts":
            ends = network.scenario.transport
            rtt_s = longest_round_trip_s(network.topology, ends.mtu_bytes, ends.ack_bytes)
            intervals = host_intervals(network, rtt_s, least)
        else:
            intervals = flow_intervals(network, np.arange(len(network.schedule.src)), least)
        intervals["windowed"] = self.preset.window
        intervals["action_step"] = (self.scenario.flow or Flow()).action_step
        return intervals

    def _settings_of(self, network: Network, intervals: IntervalArray) -> dict[str, Any]:
        """Return fields of the agents' rows, of the type ``AGENT``."""
        hosts, control = self.kind == "hosts", network.scenario.control
        first_s = FIRST_INTERVAL_RTTS * float(intervals["base_rtt_s"].max())
        return {
            "flow": NO_FLOW if hosts else np.arange(len(intervals)),
            "host": np.arange(len(intervals)) if hosts else network.schedule.src,
            "sets": HOST_CAP if hosts else WINDOW if self.preset.window else FLOW_PACE,
            "has_law": hosts and not self.transport.rate_driven,
            "interval_s": max(control.decision_interval_s, first_s),
            "longest_s": control.decision_interval_s,
            "episode_steps": control.episode_steps,
        }

    def _possible_agents(self) -> list[str]:
        if self.kind == "hosts":
            topology = build_topology(self.scenario.topology)
            return list(topology.node_names[: topology.n_hosts])
        # What varies from episode to episode may change how many flows there are; the largest number counts.
        counts = [self.scenario]
        varied = self.scenario.splits[self.split].varied
        for key, values in varied.items():
            if key.startswith("workload."):
                counts = [one.with_overrides({key: value}) for one in counts for value in values]
        schedules = (
            scenario_flows(one, build_topology(one.topology), np.random.default_rng(0)) for one in counts
        )
        return [f"flow_{number}" for number in range(max(len(schedule.src) for schedule in schedules))]

    def _numbers(self, actions: Mapping[str, Array]) -> FloatArray:
        """Return the native numbers of all agents' actions."""
        if not isinstance(actions, Mapping):
            raise ActionError(f"actions: expected a dict of every agent's action, got {actions!r}")
        found = []
        for agent in self.agents:
            if agent not in actions:
                raise ActionError(f"actions: expected one of every agent, got none of {agent}")
            try:
                found.append(finite_numbers(actions[agent], (1,))[0])
            except ActionError as error:
                raise ActionError(f"{agent}: {error}") from None
        return self.actions.native_numbers(np.array(found))

    def _observations(self, agents: list[str]) -> dict[str, Array]:
        return dict(zip(agents, self._stepper.features.copy(), strict=True))

    def _infos(self) -> dict[str, dict[str, Any]]:
        now_s = self.network.now_s
        return {
            agent: {
                "metrics": interval_metrics(interval),
                "episode_seed": self.episode_seed,
                "time_s": now_s,
            }
            for agent, interval in zip(self.agents, self._stepper.intervals, strict=True)
        }
