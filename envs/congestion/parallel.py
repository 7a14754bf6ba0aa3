"""Multi-agent congestion control: every flow or host is an agent of a PettingZoo ParallelEnv.

    from sysgym.envs.congestion import parallel_env
    env = parallel_env("dumbbell-10g", agents="flows", overrides={"workload.flows_per_pair": 2})

Requires the extra ``multiagent``. All agents decide at once, in every interval. A preset of
``sysgym/FlowCC-v0`` defines the observation, action and reward of each agent, so a sender trained here can be
used in ``sysgym/FlowCC-v0``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.action_spaces import SenderActions
from sysgym.envs.congestion.agent_kinds import KINDS
from sysgym.envs.congestion.backends import PACKETS
from sysgym.envs.congestion.base import CongestionLifecycle
from sysgym.envs.congestion.datacenter.metrics import flow_metrics
from sysgym.envs.congestion.episodes import ScenarioLike, draw_episode_seed
from sysgym.envs.congestion.flow.metrics import interval_metrics
from sysgym.envs.congestion.flow.presets import FlowReward, Preset, flow_reward_and_weights, get_preset
from sysgym.envs.congestion.flow.world import history_of
from sysgym.envs.congestion.stepping.flow_stepper import FlowStepper
from sysgym.envs.congestion.stepping.of_backend import flow_stepper_on
from sysgym.envs.congestion.stepping.protocol import is_over
from sysgym.envs.lifecycle import Phase
from sysgym.scenarios.errors import MissingExtra, UnknownName
from sysgym.scenarios.schema.congestion.flow import Flow
from sysgym.scenarios.schema.congestion.traffic import drains

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise MissingExtra("multiagent", "parallel_env") from error

Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]

SHARING = ("own", "mean")


class ParallelCC(CongestionLifecycle, ParallelEnv[str, Array, Array]):  # type: ignore[misc]
    """Multi-agent environment in which every flow or every host of a congestion scenario is an agent.

    Scenario keys mean the same as in ``sysgym/FlowCC-v0``, with two differences. If ``flow.decision_rtts`` is
    set, the interval depends on the longest mean round trip among the agents, which all decide at once.
    ``flow.sender``, ``flow.receiver`` and ``flow.background`` have no effect, because all flows of the
    workload, or all hosts, are agents.

    Args:
        scenario: Name, file, resolved form or scenario of the congestion family.
        agents: ``"flows"``: ``flow_0``, ``flow_1``, ..., the flows of a long-lived workload by start time;
            ``"hosts"``: one agent for each host, named after it.
        split: ``"train"``, ``"validation"`` or ``"test"``.
        preset: Observation, action and reward of each agent, by name or as a ``Preset``, as in
            ``sysgym/FlowCC-v0``; None: the preset of the scenario. A host has no window, so ``"orca"`` is not
            available for hosts.
        transport: Congestion control law of all flows; ``"paced"``: only the agents. Rates of hosts are caps
            on the rates of the law.
        reward: The reward, or its name; None: the reward of the scenario, which is that of the preset unless
            the scenario sets another. The weights of the scenario's reward are used with it.
        sharing: ``"own"``: each agent receives the reward of its own flow or host; ``"mean"``: all receive
            the mean.
        history: Intervals in the observation; None: the default of the preset.
        action_scale: ``"linear"``: actions in [-1, 1]; ``"native"``: native actions of the preset.
        overrides: Dotted keys of the scenario to replace.
        render_mode: Must be None; rendering is not supported.
        backend: ``"packets"``: the simulator; ``"linux"``: TCP and queues of the kernel, in wall time.

    Raises:
        ScenarioError: If the scenario cannot be used.
        UnknownName: If a kind of agents, split, preset, transport, reward or backend does not exist.
        SysgymError: If the flows of the scenario end, so that they cannot be agents, or if preset and
            transport leave the agents nothing to control.
        BackendUnavailable: From ``reset``: if the kernel is not available.
    """

    metadata: dict[str, Any] = {"name": "congestion_v0", "render_modes": []}  # noqa: RUF012, declared so

    actions: SenderActions

    def __init__(
        self,
        scenario: ScenarioLike = "dumbbell-10g",
        agents: str = "flows",
        split: str = "train",
        preset: str | Preset | None = None,
        transport: str | Transport = "paced",
        reward: str | FlowReward | None = None,
        sharing: str = "own",
        history: int | None = None,
        action_scale: str = "linear",
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        backend: str = PACKETS,
    ) -> None:
        """Create the environment; the class documentation describes the arguments."""
        for what, choice, known in (("kind of agents", agents, KINDS), ("sharing", sharing, SHARING)):
            if choice not in known:
                raise UnknownName(what, choice, known)
        self._configure(scenario, split, backend, overrides, render_mode)
        flow = self.scenario.flow or Flow()
        self.preset, self.sharing = get_preset(preset or flow.preset), sharing
        self.actions = SenderActions(self.preset, action_scale)
        self._kind = KINDS[agents](self.scenario, self.preset, transport, backend)
        self.transport = self._kind.transport
        self.history = history_of(self.preset, history, flow)
        self.reward, self._weights = flow_reward_and_weights(self.preset, self.scenario.reward, reward)
        self._rng, _ = np_random(None)
        self.possible_agents = self._kind.names(split)
        low, high = self.preset.bounds(self.history)
        # PettingZoo expects each agent to have spaces of its own, which can be seeded.
        self._spaces = {
            agent: (Box(low, high, dtype=np.float32), deepcopy(self.actions.space))
            for agent in self.possible_agents
        }
        self.agents: list[str] = []
        self._stepper: FlowStepper

    def observation_space(self, agent: str) -> Box:
        """Return the observation space of an agent, always the same object."""
        return self._spaces[agent][0]

    def action_space(self, agent: str) -> Box:
        """Return the action space of an agent, always the same object."""
        return self._spaces[agent][1]

    @property
    def observation_index(self) -> list[str]:
        """Name and unit of every value of an agent's observation."""
        return self.preset.index(self.history)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, dict[str, Any]]]:
        """Begin an episode.

        Args:
            seed: Seeds the generator that draws episode seeds.
            options: ``{"episode_seed": int}`` sets the episode seed, which may lie outside the split. An
                option named "options", with which PettingZoo tests environments, is ignored.

        Raises:
            ClosedEnvironment: If the environment is closed.
            UnknownName: If there is any other option.
        """
        self._check_may_reset()
        if seed is not None:
            self._rng, _ = np_random(seed)
        # PettingZoo's own tests pass an option "options".
        known = {name: value for name, value in (options or {}).items() if name != "options"}
        self.episode_seed = draw_episode_seed(self._rng, self._seeds, known)
        drawn = self.scenario.draw(self.split, self.episode_seed)
        self._network, settings, intervals = self._kind.begin(drawn, self.episode_seed)
        self.agents = self.possible_agents[: len(intervals)]
        self._stepper = self._new_stepper(len(intervals))
        self._stepper.begin(0, self._network, settings, intervals)
        if self.transport.rate_driven:
            share = (drawn.flow or Flow()).start_rate
            self._stepper.set_rates(0, share * intervals["slowest_link_bps"])
        if self.before_warmup is not None:
            self.before_warmup(self._network)
        self._network.advance(self._network.scenario.control.warmup_s)
        self._stepper.pass_first_interval(0, len(intervals))
        self._phase = Phase.RUNNING
        nothing = [self.reward.no_terms() for _ in self.agents]
        return self._observations(self.agents), self._infos(nothing)

    def step(
        self, actions: dict[str, Array]
    ) -> tuple[
        dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
    ]:
        """Set the rate or window of every agent, simulate one interval and measure it.

        Raises:
            NoEpisode: If no episode is in progress.
            ClosedEnvironment: If the environment is closed.
            ActionError: If an agent's action is missing or not one finite number in an array of shape (1,).
        """
        self._check_may_step()
        agents, stepper = self.agents, self._stepper
        stepper.decide(0, len(agents), self.actions.native_numbers_of(agents, actions))
        paid = stepper.terms.sum(axis=1)
        if self.sharing == "mean":
            paid[:] = paid.mean()
        over = is_over(stepper.rows, 0)
        infos = self._infos([stepper.reward_terms(place) for place in range(len(agents))])
        if over:
            network = self.network
            drained = drains(network.scenario.workload)
            metrics = flow_metrics(network.flows(), network.now_s, drained=drained)
            for agent in agents:
                infos[agent]["episode_metrics"] = metrics
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
        """Return the concatenated observations of all current agents, for a central critic."""
        return self._stepper.features.ravel().copy()

    def render(self) -> None:
        """Do nothing: rendering is not supported."""

    def _new_stepper(self, n: int) -> FlowStepper:
        """Return a stepper of ``n`` agents of one network."""
        kind, law = flow_stepper_on(self.backend), self.transport.name
        return kind(n, self.preset, self.history, self.reward, self._weights, law)

    def _observations(self, agents: list[str]) -> dict[str, Array]:
        return dict(zip(agents, self._stepper.features.copy(), strict=True))

    def _infos(self, terms: Sequence[dict[str, float]]) -> dict[str, dict[str, Any]]:
        now_s = self.network.now_s
        return {
            agent: {
                "reward_terms": paid,
                "metrics": interval_metrics(interval),
                "episode_seed": self.episode_seed,
                "time_s": now_s,
            }
            for agent, interval, paid in zip(self.agents, self._stepper.intervals, terms, strict=True)
        }
