"""``sysgym/FlowCC-v0``: congestion control of one flow by its sender, as in Aurora and Orca."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.action_spaces import SenderActions
from sysgym.envs.congestion.base import CongestionLifecycle
from sysgym.envs.congestion.episodes import ScenarioLike, draw_episode_seed
from sysgym.envs.congestion.flow.metrics import EpisodeMeter, interval_metrics
from sysgym.envs.congestion.flow.presets import FlowReward, Preset, flow_reward_and_weights, get_preset
from sysgym.envs.congestion.flow.sender import Sender
from sysgym.envs.congestion.flow.world import FLOW_ID, FlowWorld, flow_of, history_of
from sysgym.envs.congestion.render.flow import FlowRecorder
from sysgym.envs.congestion.stepping.flow_stepper import FlowStepper
from sysgym.envs.congestion.stepping.of_backend import flow_stepper_on
from sysgym.envs.lifecycle import Phase
from sysgym.envs.rewards import total

Array = NDArray[np.float32]


class FlowCC(CongestionLifecycle, gym.Env[Array, Array]):
    """Set the send rate of one flow among others, from its sender's observations.

    ## Description

    A sender observes only its ACKs: round-trip times, marks, deliveries and losses. From these it has to
    infer how fast the path can carry its packets, without seeing any queue. This is the problem of Aurora
    (PCC-RL), Genet and Orca, and of congestion control in network cards. `sysgym/DatacenterCC-v0` is the same
    network with one controller of all hosts.

    The network is simulated packet by packet. All other flows of the scenario run the congestion control law
    `flow.background`. The agent's flow never ends. One `step` simulates one interval: the scenario's decision
    interval, or `flow.decision_rtts` round trips as measured in the interval before. Observation and reward
    are measured in that interval, after the action took effect.

    A preset defines the observation, action and reward of a sender.

    ## Action Space

    `Box(-1, 1, (1,), float32)`: one number a, clipped to the space; a number that is not finite raises an
    error. Each preset has a native action: a times a limit.

    | Preset | Native action n | Meaning of n |
    | --- | --- | --- |
    | `aurora` | 10 a | rate times (1 + d n) if n >= 0, otherwise divided by (1 - d n); d is the scenario's action_step |
    | `datacenter` | a | the rate: -1 is the least rate, 1 the line rate, logarithmic in between |
    | `orca` | a | the window of the underlying law times 4 to the power of n |

    With `action_scale="native"` the space is that of n, such as `Box(-10, 10, (1,), float32)` for `aurora`;
    the original of Aurora has no bounds, and d = 0.025. The rate includes headers and stays between
    `min_rate_fraction` and 1 of the line rate.

    ## Observation Space

    `Box(low, high, (n,), float32)`: the features of the preset over the last `history` intervals, the newest
    first. `env.unwrapped.observation_index` gives the name and unit of every value.

    | Preset | Feature | Meaning | Unit | Min | Max |
    | --- | --- | --- | --- | --- | --- |
    | `aurora` | `latency_gradient` | mean RTT of the interval's second half less that of the first, over its length | s/s | -1 | 10 |
    | `aurora` | `latency_ratio` | mean RTT over the least of the episode | ratio | 1 | 10000 |
    | `aurora` | `send_ratio` | rate sent over rate acknowledged | ratio | 0 | 1000 |
    | `datacenter` | `mark_fraction` | ACKs that echo an ECN mark | fraction of ACKs | 0 | 1 |
    | `datacenter` | `queueing` | RTT over base RTT, squashed: 1 - base RTT / RTT | fraction of RTT | 0 | 1 |
    | `datacenter` | `rtt_trend` | mean RTT of the interval's second half less that of the first | base RTTs | -1 | 1 |
    | `datacenter` | `rate` | rate in force between least rate and line rate, both ends included | share of the way, logarithmic | 0 | 1 |
    | `datacenter` | `throughput` | rate acknowledged | fraction of the line rate | 0 | 1 |
    | `datacenter` | `in_flight` | packets under way over line rate times base RTT, x, squashed | x / (1 + x) | 0 | 1 |
    | `datacenter` | `loss_fraction` | packets taken for lost, of lost or acknowledged | fraction | 0 | 1 |
    | `orca` | `throughput` | rate acknowledged over the best so far | ratio | 0 | 1 |
    | `orca` | `pacing` | window a smoothed RTT over the best rate so far | ratio | 0 | 10 |
    | `orca` | `loss` | 5 times rate lost over the best rate so far | ratio | 0 | 10 |
    | `orca` | `samples` | ACKs over the window | ratio | 0 | 10 |
    | `orca` | `interval` | length of the interval | smoothed RTTs | 0 | 10 |
    | `orca` | `latency` | least RTT over the smoothed one | ratio | 0 | 1 |
    | `orca` | `delay_metric` | 1 up to 1.25 times the least RTT, beyond it that over the smoothed RTT | ratio | 0 | 1 |

    By default the presets have 10, 2 and 10 intervals. Aurora's paper puts the oldest interval first.

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists. `reward` selects the function,
    by default that of the preset; the scenario may set its weights.

    | Name | Terms |
    | --- | --- |
    | `aurora` | `throughput`: 0.001 * 10 * packets of 1500 bytes acknowledged a second; `latency`: -0.001 * 1000 * mean RTT in s; `loss`: -0.001 * 2000 * share of packets lost |
    | `datacenter` | `goodput`: payload delivered over what the path's slowest link can carry; `queueing`: -0.5 d / (d + base RTT), d the mean RTT less the base RTT; `loss`: -1.0 * share of packets lost |
    | `orca` | `throughput`: rate acknowledged over the best so far, times D; `loss`: -5 * rate lost over the best so far, times D; D is the feature `delay_metric` |

    A packet counts as lost when the sender declares it lost. `goodput` counts payload that arrived in order:
    bytes that wait behind a lost packet are paid when the gap closes, so one interval can have more than 1.
    All rewards consider the agent's own flow only; none includes fairness towards other flows.

    ## Starting State

    An initially empty network with the workload of one episode seed, run for the scenario's `warmup_s` and
    one further interval of at least 1.5 base RTTs, at the rate `flow.start_rate`; a window starts as the
    transport defines. `reset(seed=...)` seeds the generator that draws the episode seed from the split's
    range; `reset(options={"episode_seed": 20001})` sets it. The episode seed also determines the scenario
    parameters that the split varies.

    ## Episode End

    Termination: never.

    Truncation: after the scenario's `episode_steps` decisions.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `CongestionScenario` | `"flow-datacenter"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `preset` | str, `Preset` or None | None | `"aurora"`, `"datacenter"`, `"orca"` or a custom preset; None: the preset of the scenario |
    | `transport` | str or `Transport` | `"paced"` | congestion control law of the agent's flow. `"paced"`: only the agent, or with the preset `orca` the law `flow.base_transport`. With another law the rate is a cap, and the line rate means no cap |
    | `reward` | str, `FlowReward` or None | None | reward or its name; None: the reward of the scenario, which is that of the preset unless the scenario sets another |
    | `history` | int or None | None | intervals in the observation; None: the scenario's, or the preset's |
    | `action_scale` | str | `"linear"` | `"linear"`: actions within [-1, 1]; `"native"`: the preset's own numbers |
    | `backend` | str | `"packets"` | `"packets"`: the simulator; `"linux"`: real TCP and queues of the kernel, in wall time |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"flow.background": "cubic"}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the interval's metrics in absolute units, see
      `sysgym.envs.congestion.flow.metrics.INTERVAL_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`, `time_s`: the seed of this episode, and simulated time.

    ## Registered Configurations

    One id, `sysgym/FlowCC-v0`; `scenario` selects the configuration: `aurora-links`, `genet-links`,
    `flow-1g-1ms`, `flow-datacenter`, `flow-incast`, `linux-flow-100m` (also on the kernel), or any congestion
    scenario whose flows never end, where the first flow is the agent's.

    ## Baselines

    The agents `flow_fixed`, `flow_aimd`, `flow_oracle` (privileged), `random`, and agents trained with
    `sysgym train`; classical transports with the agent `max`.

    ## References

    - Jay, Rotman, Godfrey, Schapira, Tamar: A Deep Reinforcement Learning Perspective on Internet Congestion
      Control. ICML 2019, and its simulator PCC-RL. The preset `aurora` and the scenario `aurora-links`.
    - Xia et al.: Genet: Automatic Curriculum Generation for Learning Adaptation in Networking. SIGCOMM 2022.
      The ranges of `genet-links`.
    - Abbasloo, Yen, Chao: Classic Meets Modern: a Pragmatic Learning-Based Congestion Control for the
      Internet (Orca). SIGCOMM 2020. The preset `orca`.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 10,
    }
    actions: SenderActions

    def __init__(
        self,
        scenario: ScenarioLike = "flow-datacenter",
        split: str = "train",
        preset: str | Preset | None = None,
        transport: str | Transport = "paced",
        reward: str | FlowReward | None = None,
        history: int | None = None,
        action_scale: str = "linear",
        backend: str = "packets",
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Create the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split, preset, transport, reward, action scale or backend does not exist.
            SysgymError: If ``history`` is not positive, or Orca's preset is used with a law that has no
                window, or whose window cannot be multiplied on the kernel.
            BackendUnavailable: If the backend is not available, such as ``"linux"`` without its service.
        """
        self._configure(scenario, split, backend, overrides, render_mode)
        self.preset = get_preset(preset or flow_of(self.scenario).preset)
        self.actions = SenderActions(self.preset, action_scale)
        self.action_space = self.actions.space
        self.world = FlowWorld(self.scenario, backend, self.preset, transport)
        self.transport = self.world.transport
        self.reward, self._weights = flow_reward_and_weights(self.preset, self.scenario.reward, reward)
        self.history = history_of(self.preset, history, self.world.flow)
        self.observation_space = gym.spaces.Box(*self.preset.bounds(self.history), dtype=np.float32)
        self.sender = Sender(self.preset, self.actions, self._new_stepper(1))
        self._meter: EpisodeMeter | None = None
        self.recorder: FlowRecorder | None = None
        if render_mode is not None:
            self.recorder = FlowRecorder(self.scenario.name, self.preset.name, self.transport.name)

    @property
    def observation_index(self) -> list[str]:
        """Name and unit of every value of the observation."""
        return self.preset.index(self.history)

    @property
    def uncapped_action(self) -> Array:
        """The action that does not restrict the transport."""
        return self.actions.uncapped

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seeds the generator that draws episode seeds.
            options: ``{"episode_seed": int}`` sets the episode seed, which may lie outside the split.

        Raises:
            ClosedEnvironment: If the environment is closed.
        """
        self._check_may_reset()
        super().reset(seed=seed)
        self.episode_seed = draw_episode_seed(self.np_random, self._seeds, options)
        drawn = self.scenario.draw(self.split, self.episode_seed)
        self._network, settings, intervals = self.world.begin(drawn, self.episode_seed)
        self.sender.begin(self._network, settings, intervals)
        if self.transport.rate_driven:
            self.sender.set_rate((drawn.flow or self.world.flow).start_rate * self.sender.slowest_link_bps)
        self._warm_up(self._network)
        interval = self.sender.pass_first_interval()
        if self.recorder is not None:
            self.recorder.record(interval)
        self._meter = EpisodeMeter(self._network, self.sender.counters, interval, self.world.slowest_link)
        self._phase = Phase.RUNNING
        self._show()
        return self.sender.observation, {"reward_terms": self.reward.no_terms(), **self._info(interval)}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Set the rate or window of the flow, simulate one interval and measure it.

        Raises:
            NoEpisode: If no episode is in progress.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the action is not one finite number in an array of shape (1,).
        """
        self._check_may_step()
        interval = self.sender.decide(self.actions.native_number(action))
        if self.recorder is not None:
            self.recorder.record(interval)
        terms = self.sender.reward_terms
        info = {"reward_terms": terms, **self._info(interval)}
        truncated = self.sender.is_over
        if truncated:
            info["episode_metrics"] = self._episode_metrics()
            self._phase = Phase.OVER
        self._show()
        return self.sender.observation, total(terms), False, truncated, info

    def _warm_up(self, network: Network) -> None:
        if self.before_warmup is not None:
            self.before_warmup(network)
        control = network.scenario.control
        if control.warmup_s > 0.0:
            network.advance(control.warmup_s)
        if self.recorder is not None:
            later_s = self.sender.interval_s + control.episode_steps * control.decision_interval_s
            # If intervals follow the round-trip time, the end of the episode is unknown.
            end_s = network.now_s + later_s if self.world.flow.decision_rtts is None else None
            self.recorder.clear(network, FLOW_ID, end_s)

    def _new_stepper(self, n: int) -> FlowStepper:
        """Return a stepper of this many flows; on the kernel there is only one."""
        kind, law = flow_stepper_on(self.backend), self.transport.name
        return kind(n, self.preset, self.history, self.reward, self._weights, law)

    def _episode_metrics(self) -> dict[str, float]:
        """Return the metrics of the episode so far."""
        assert self._meter is not None
        return self._meter.metrics(self.sender.counters, self.world.steady_fair_rate_bps())

    def _info(self, interval: np.void) -> dict[str, Any]:
        return {
            "metrics": interval_metrics(interval),
            "episode_seed": self.episode_seed,
            "time_s": self.sender.now_s,
        }
