"""Every flow or every host an agent: congestion control for several learners, as PettingZoo's ParallelEnv.

    from sysgym.envs.congestion import parallel_env
    env = parallel_env("dumbbell-10g", agents="flows", overrides={"workload.flows_per_pair": 2})

Needs the extra ``multiagent``. All agents decide at once, in every interval; what each sees, does and is paid
for is that of a preset of ``sysgym/FlowCC-v0``, so that a sender trained here plays there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.paced import PACED, PACED_FLOW
from sysgym.envs.congestion.actions import OF_SENDERS, check_form, sender_scale
from sysgym.envs.congestion.backends import PACKETS, check_backend, law_of_agents, network_on
from sysgym.envs.congestion.base import CongestionLifecycle
from sysgym.envs.congestion.episodes import ScenarioLike, draw_episode_seed, resolve_scenario
from sysgym.envs.congestion.flow_intervals import (
    BASE_RTT_S,
    LEAST_RATE_BPS,
    LINE_RATE_BPS,
    RATE_BPS,
    SLOWEST_LINK_BPS,
    WINDOWED,
    counters,
    give_round_trips,
    of_flows,
    of_hosts,
)
from sysgym.envs.congestion.flow_metrics import interval_metrics
from sysgym.envs.congestion.flow_presets import (
    aurora_rate_bps,
    get_flow_reward,
    get_preset,
    log_rate_bps,
    orca_factor,
)
from sysgym.envs.congestion.flow_signals import MOST_TERMS, conclude_all
from sysgym.envs.congestion.flow_world import history_of, sender_transport, with_relative_buffer
from sysgym.envs.congestion.measurement import longest_base_rtt_s
from sysgym.envs.congestion.metrics import flow_metrics
from sysgym.envs.congestion.parallel_worlds import LiveAgents, PacketAgents
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
        preset: Observation, action and reward of each agent, as in ``sysgym/FlowCC-v0``; a host has no
            window, so no ``"orca"``.
        transport: Law of all flows; ``"paced"``: none but the agents. The rates of hosts are caps over it.
        reward: Name of the reward; None: the preset's.
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

    def __init__(
        self,
        scenario: ScenarioLike = "dumbbell-10g",
        agents: str = "flows",
        split: str = "train",
        preset: str = "datacenter",
        transport: str = "paced",
        reward: str | None = None,
        sharing: str = "own",
        history: int | None = None,
        action_scale: str = "linear",
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        backend: str = PACKETS,
    ) -> None:
        """Build the environment; the class documentation describes the arguments."""
        check_backend(backend)
        check_form(action_scale, OF_SENDERS)
        self.backend = backend
        for what, choice, known in (("kind of agents", agents, KINDS), ("sharing", sharing, SHARING)):
            if choice not in known:
                raise UnknownName(what, choice, known)
        self.scenario = resolve_scenario(scenario, overrides)
        self.split, self.kind, self.sharing, self.render_mode = split, agents, sharing, render_mode
        self._seeds = self.scenario.splits[split].seeds
        self.preset = get_preset(preset)
        flow = self.scenario.flow or Flow()
        self.transport = sender_transport(self.preset, transport, flow)
        self.history = history_of(self.preset, history, flow)
        self._check_agents()
        self.reward = get_flow_reward(reward or preset)
        self._weights = self.reward.weight_array({})
        self._action_step = flow.action_step
        self._law = self._law_of_all()
        self.network: Any = None
        self._drawn: CongestionScenario | None = None
        self._rng, _ = np_random(None)
        self.possible_agents = self._possible_agents()
        self._places = {agent: place for place, agent in enumerate(self.possible_agents)}
        self.scale = sender_scale(self.preset, action_scale)
        limit = np.float32(self.preset.action_limit if self.scale is None else 1.0)
        self._observation_spaces: dict[str, gym.spaces.Box] = {}
        self._action_spaces: dict[str, gym.spaces.Box] = {}
        for agent in self.possible_agents:
            low, high = self.preset.bounds(self.history)
            self._observation_spaces[agent] = gym.spaces.Box(low, high, dtype=np.float32)
            self._action_spaces[agent] = gym.spaces.Box(-limit, limit, (1,), np.float32)
        self.agents: list[str] = []
        self.episode_seed: int | None = None
        self.values: FloatArray

    def observation_space(self, agent: str) -> gym.spaces.Box:
        """Return an agent's observation space, always the same object."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> gym.spaces.Box:
        """Return an agent's action space, always the same object."""
        return self._action_spaces[agent]

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
            self.network = self._new_network(drawn)
            self._drawn = drawn
        network: Any = self.network
        hosts = self.kind == "hosts"
        network.reset(self.episode_seed)
        n = network.n_hosts if hosts else len(network.flows().src)
        self.agents = self.possible_agents[:n]
        self._before, self._middle, self._after = counters(n), counters(n), counters(n)
        self._terms: FloatArray = np.zeros((n, MOST_TERMS))
        self._features: Array = np.tile(self.preset.empty(self.history), (n, 1))
        least = network.scenario.control.min_rate_fraction
        self._steered = (PacketAgents if self.backend == PACKETS else LiveAgents)(network, n, hosts=hosts)
        if hosts:
            ends = network.scenario.transport
            rtt_s = longest_base_rtt_s(network.topology, ends.mtu_bytes, ends.ack_bytes)
            self.values = of_hosts(network, rtt_s, least)
        else:
            self.values = of_flows(network, np.arange(n), least)
        self.values[:, WINDOWED] = self.preset.window
        self._rates_bps = self.values[:, LINE_RATE_BPS].copy()
        if self.transport.rate_driven:
            share = (drawn.flow or Flow()).start_rate
            self._set_rates(share * self.values[:, SLOWEST_LINK_BPS])
        control = network.scenario.control
        self._steered.pass_time(control.warmup_s, self._before)
        self._steps = 0
        self._pass_interval(max(control.decision_interval_s, 1.5 * float(self.values[:, BASE_RTT_S].max())))
        self._phase = Phase.RUNNING
        return self._observations(), self._infos()

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
        numbers = self._numbers(actions)
        if self.preset.window:
            self._steered.multiply_windows(np.array([orca_factor(one) for one in numbers]))
        else:
            self._set_rates(np.array([self._rate_after(*one) for one in enumerate(numbers)]))
        self._pass_interval(self.network.scenario.control.decision_interval_s)
        self._steps += 1
        agents = self.agents
        paid = self._terms[:, : len(self.reward.terms)].sum(axis=1)
        if self.sharing == "mean":
            paid[:] = paid.mean()
        over = self._steps >= self.scenario.control.episode_steps
        infos = self._infos()
        terms = self._terms.tolist()
        for place, agent in enumerate(agents):
            infos[agent]["reward_terms"] = dict(zip(self.reward.terms, terms[place], strict=False))
        if over:
            network = self.network
            for agent in agents:
                infos[agent]["episode_metrics"] = flow_metrics(network.flows(), network.now_s)
            self.agents = []
            self._phase = Phase.OVER
        rewards = dict(zip(agents, paid.tolist(), strict=True))
        return (
            self._observations(agents),
            rewards,
            dict.fromkeys(agents, False),
            dict.fromkeys(agents, over),
            infos,
        )

    def state(self) -> Array:
        """Return the observations of all agents that are there, one after another, for a central critic."""
        return self._features.ravel().copy()

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

    def _new_network(self, drawn: CongestionScenario) -> Any:
        return network_on(self.backend, with_relative_buffer(drawn, drawn.flow or Flow()), self._law)

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
        schedules = (PacketNetwork(one).draw_schedule(0) for one in counts)
        return [f"flow_{number}" for number in range(max(len(schedule.src) for schedule in schedules))]

    def _numbers(self, actions: Mapping[str, Array]) -> list[float]:
        if not isinstance(actions, Mapping):
            raise ActionError(f"actions: expected a dict of every agent's action, got {actions!r}")
        limit = self.preset.action_limit
        found = []
        for agent in self.agents:
            if agent not in actions:
                raise ActionError(f"actions: expected one of every agent, got none of {agent}")
            try:
                found.append(finite_numbers(actions[agent], (1,))[0])
            except ActionError as error:
                raise ActionError(f"{agent}: {error}") from None
        numbers: FloatArray = np.array(found)
        if self.scale is not None:
            numbers = self.scale.rates(numbers).astype(np.float64)
        return [min(max(number, -limit), limit) for number in numbers.tolist()]

    def _rate_after(self, place: int, action: float) -> float:
        if self.preset.name == "aurora":
            return aurora_rate_bps(float(self._rates_bps[place]), action, self._action_step)
        values = self.values[place]
        return log_rate_bps(action, float(values[LEAST_RATE_BPS]), float(values[LINE_RATE_BPS]))

    def _set_rates(self, rates_bps: FloatArray) -> None:
        self._rates_bps = np.clip(rates_bps, self.values[:, LEAST_RATE_BPS], self.values[:, LINE_RATE_BPS])
        self.values[:, RATE_BPS] = self._rates_bps
        told_bps = self._rates_bps
        if self.kind == "hosts":
            # At its line rate a host with a law of its own has no cap.
            free = (told_bps >= self.values[:, LINE_RATE_BPS]) & (not self.transport.rate_driven)
            told_bps = np.where(free, np.inf, told_bps)
        self._steered.set_rates(told_bps)

    def _pass_interval(self, interval_s: float) -> None:
        interval_s = self._steered.pass_interval(interval_s, self._middle, self._after)
        if self.kind == "hosts":
            give_round_trips(self._before, self._after)
        conclude_all(
            self._before,
            self._middle,
            self._after,
            interval_s,
            self.values,
            self.preset.code,
            self._features,
            len(self.preset.features),
            self.reward.code,
            self._weights,
            self._terms,
        )

    def _observations(self, agents: list[str] | None = None) -> dict[str, Array]:
        there = self.agents if agents is None else agents
        return dict(zip(there, self._features.copy(), strict=True))

    def _infos(self) -> dict[str, dict[str, Any]]:
        rows, now_s = self.values.tolist(), self.network.now_s
        return {
            agent: {
                "metrics": interval_metrics(row),
                "episode_seed": self.episode_seed,
                "time_s": now_s,
            }
            for agent, row in zip(self.agents, rows, strict=True)
        }
