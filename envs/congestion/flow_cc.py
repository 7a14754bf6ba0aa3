"""``sysgym/FlowCC-v0``: the agent is the sender of one flow, as Aurora's and Orca's agents are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.envs.congestion.actions import OF_SENDERS, check_form, sender_scale
from sysgym.envs.congestion.backends import PACKETS, check_backend, law_of_agents, network_on
from sysgym.envs.congestion.base import CongestionLifecycle
from sysgym.envs.congestion.episodes import ScenarioLike, draw_episode_seed, resolve_scenario
from sysgym.envs.congestion.flow_intervals import (
    BASE_RTT_S,
    CWND_PACKETS_NOW,
    LEAST_RATE_BPS,
    LINE_RATE_BPS,
    PACKET_BITS,
    RATE_BPS,
    SLOWEST_LINK_BPS,
    WINDOWED,
    of_flows,
)
from sysgym.envs.congestion.flow_metrics import EpisodeMeter, interval_metrics
from sysgym.envs.congestion.flow_presets import (
    aurora_action,
    get_flow_reward,
    get_preset,
    log_rate_action,
    orca_action,
)
from sysgym.envs.congestion.flow_render import FlowRecorder
from sysgym.envs.congestion.flow_world import (
    fair_flow_rates_bps,
    flow_of,
    history_of,
    is_alone,
    pacing_transport,
    schedule_of,
    sender_transport,
    slowest_link,
    with_relative_buffer,
)
from sysgym.envs.congestion.senders import FLOW_ID, Senders, sender_settings, what_it_sets
from sysgym.envs.lifecycle import Phase, finite_numbers
from sysgym.scenarios import CongestionScenario

Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]

_OWN = np.array([FLOW_ID])


class FlowCC(CongestionLifecycle, gym.Env[Array, Array]):
    """The agent is the sender of one flow among others: it sets how fast that flow sends.

    ## Description

    A sender knows what its ACKs tell: round trips, marks, what arrived and what was lost. From that it has to
    find how fast the path can take its packets, without seeing a single queue. This is the problem of Aurora
    (PCC-RL), Genet, Orca and of congestion control in network cards; `sysgym/DatacenterCC-v0` is the same
    network seen by one controller of all hosts.

    The network is simulated packet by packet. All other flows of the scenario run a congestion control law of
    their own, `flow.background`. The agent's flow never ends. One `step` lets an interval pass: the scenario's
    decision interval, or so many round trips of the interval before (`flow.decision_rtts`). What is observed
    and paid for is measured in that interval, after the action took effect.

    A preset is a way of being a sender: observation, action and reward together.

    ## Action Space

    `Box(-1, 1, (1,), float32)`: one number a, clipped to the space; one that is not finite is an error. A preset
    has an action of its own, the native one: a times a limit.

    | Preset | Native action n | Meaning of n |
    | --- | --- | --- |
    | `aurora` | 10 a | rate times (1 + d n) for n >= 0, over (1 - d n) else; d is the scenario's action_step |
    | `datacenter` | a | the rate: -1 the least, 1 the line rate, logarithmic between them |
    | `orca` | a | the window of the law underneath times 4 to the power of n |

    With `action_scale="native"` the space is that of n: `Box(-10, 10, (1,), float32)` for `aurora`, whose own has
    no bounds and a d of 0.025. The rate counts headers and stays within `min_rate_fraction` and 1 of the line's.

    ## Observation Space

    `Box(low, high, (n,), float32)`: the preset's features, of the last `history` intervals, the newest first.
    `env.unwrapped.observation_index` names every value.

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

    Without `history` the presets have 10, 2 and 10 intervals. Aurora's paper puts the oldest interval first.

    ## Rewards

    The sum of named terms, which `info["reward_terms"]` lists. `reward` names the function, the preset's own if
    it is left out; the scenario may set its weights.

    | Name | Terms |
    | --- | --- |
    | `aurora` | `throughput`: 0.001 * 10 * packets of 1500 bytes acknowledged a second; `latency`: -0.001 * 1000 * mean RTT in s; `loss`: -0.001 * 2000 * share of packets lost |
    | `datacenter` | `goodput`: payload delivered over what the path's slowest link can carry; `queueing`: -0.5 d / (d + base RTT), d the mean RTT less the base RTT; `loss`: -1.0 * share of packets lost |
    | `orca` | `throughput`: rate acknowledged over the best so far, times D; `loss`: -5 * rate lost over the best so far, times D; D is the feature `delay_metric` |

    A packet is lost when the sender takes it for lost. All of them pay for the agent's own flow: fairness is
    for the scenario's other flows to insist on.

    ## Starting State

    An empty network with the workload of one episode seed, run for the scenario's `warmup_s` and one interval
    more, at least 1.5 base RTTs, at the rate `flow.start_rate`; a window starts as the transport does.
    `reset(seed=...)` seeds the generator that draws the episode seed from the split's range;
    `reset(options={"episode_seed": 20001})` pins it. The episode seed also decides what the split varies.

    ## Episode End

    Termination: never.

    Truncation: after the scenario's `episode_steps` decisions.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `CongestionScenario` | `"flow-datacenter"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | `"train"`, `"validation"` or `"test"`: where episode seeds come from |
    | `preset` | str or None | None | `"aurora"`, `"datacenter"` or `"orca"`; None: the scenario's |
    | `transport` | str or `Transport` | `"paced"` | law of the agent's flow. `"paced"`: none but the agent, in Orca `flow.base_transport`; of another law the rate is a cap, the line rate none |
    | `reward` | str or None | None | name of the reward; None: the scenario's, which is the preset's unless it says otherwise |
    | `history` | int or None | None | intervals in the observation; None: the scenario's, or the preset's |
    | `action_scale` | str | `"linear"` | `"linear"`: actions within [-1, 1]; `"native"`: the preset's own numbers |
    | `backend` | str | `"packets"` | `"packets"`: the simulator; `"linux"`: real TCP and queues of the kernel, in wall time |
    | `overrides` | dict or None | None | dotted keys of the scenario to replace, such as `{"flow.background": "cubic"}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms (`step` only).
    - `metrics`: dict of the interval's metrics in absolute units, see
      `sysgym.envs.congestion.flow_metrics.INTERVAL_METRICS`.
    - `episode_metrics`: on the last step, dict of the whole episode's, see `EPISODE_METRICS` there.
    - `episode_seed`, `time_s`: the seed of this episode, and simulated time.

    ## Registered Configurations

    One id, `sysgym/FlowCC-v0`; `scenario` chooses the world: `aurora-links`, `genet-links`, `flow-1g-1ms`,
    `flow-datacenter`, `flow-incast`, `linux-flow-100m` (also on the kernel), or any congestion scenario whose
    flows never end, where the first flow is the agent's.

    ## Baselines

    Agents `flow_fixed`, `flow_aimd`, `flow_oracle` (privileged), `random`, and anything trained with `sysgym
    train`; classical transports under the agent `max`.

    ## References

    - Jay, Rotman, Godfrey, Schapira, Tamar: A Deep Reinforcement Learning Perspective on Internet Congestion
      Control. ICML 2019, and its simulator PCC-RL. The preset `aurora` and the scenario `aurora-links`.
    - Xia et al.: Genet: Automatic Curriculum Generation for Learning Adaptation in Networking. SIGCOMM 2022.
      The ranges of `genet-links`.
    - Abbasloo, Yen, Chao: Classic Meets Modern: a Pragmatic Learning-Based Congestion Control for the Internet
      (Orca). SIGCOMM 2020. The preset `orca`.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 10,
    }

    def __init__(
        self,
        scenario: ScenarioLike = "flow-datacenter",
        split: str = "train",
        preset: str | None = None,
        transport: str | Transport = "paced",
        reward: str | None = None,
        history: int | None = None,
        action_scale: str = "linear",
        backend: str = "packets",
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Build the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split, preset, transport, reward, action scale or backend does not exist.
            SysgymError: If ``history`` is not positive, or Orca's preset meets a law without a window, or one
                that cannot be multiplied on the kernel.
            BackendUnavailable: If the backend cannot be had here, such as ``"linux"`` without its service.
        """
        check_backend(backend)
        check_form(action_scale, OF_SENDERS)
        self.backend = backend
        self.scenario = resolve_scenario(scenario, overrides)
        self.split = split
        self.render_mode = render_mode
        self._seeds = self.scenario.splits[split].seeds
        self._flow = flow_of(self.scenario)
        self.preset = get_preset(preset or self._flow.preset)
        self.transport = sender_transport(self.preset, transport, self._flow)
        self._law = law_of_agents(backend, self.transport, multiplied=self.preset.window)
        get_transport(self._flow.background)  # an unknown name is told of now, and not in the first episode
        chosen = self.scenario.reward
        of_scenario = self.preset.name if chosen.name == "default" else chosen.name
        self.reward = get_flow_reward(reward or of_scenario)
        weights = chosen.weights if reward in (None, of_scenario) else {}
        self._weights = self.reward.weight_array(weights)
        self.history = history_of(self.preset, history, self._flow)

        self.scale = sender_scale(self.preset, action_scale)
        limit = np.float32(self.preset.action_limit if self.scale is None else 1.0)
        self.action_space = gym.spaces.Box(-limit, limit, (1,), np.float32)
        self.observation_space = gym.spaces.Box(*self.preset.bounds(self.history), dtype=np.float32)
        self.network: Any = None
        self.episode_seed: int | None = None
        self._drawn: CongestionScenario | None = None
        self._meter: EpisodeMeter | None = None
        self.before_warmup: Callable[[Any], object] | None = None
        """Called with the network of every episode at time 0; to record it, see ``PacketNetwork.record``."""
        self.recorder: FlowRecorder | None = None
        if render_mode is not None:
            self.recorder = FlowRecorder(self.scenario.name, self.preset.name, self.transport.name)
        self.share(self.senders_for(1), 0)

    def senders_for(self, n: int) -> Any:
        """Return what this many worlds of this kind keep together; on the kernel there is only one."""
        if self.backend == PACKETS:
            return Senders(n, self.preset, self.history, self.reward, self._weights)
        from sysgym.envs.congestion.live import LiveSender

        return LiveSender(self.preset, self.history, self.reward, self._weights)

    def share(self, senders: Any, row: int) -> None:
        """Keep what a decision needs in a row of some senders, which other worlds may share."""
        self._senders, self._row = senders, row

    @property
    def observation_index(self) -> list[str]:
        """What stands at every index of the observation, with its unit."""
        return self.preset.index(self.history)

    @property
    def values(self) -> FloatArray:
        """The newest interval, shape (1, N_VALUES); see :mod:`sysgym.envs.congestion.flow_intervals`."""
        values: FloatArray = self._senders.values[self._row : self._row + 1]
        return values

    @property
    def rate_bps(self) -> float:
        """Send rate in force; that of a window is the window a smoothed round trip."""
        return float(self._senders.values[self._row, RATE_BPS])

    @property
    def least_rate_bps(self) -> float:
        """Lowest rate that the agent can choose."""
        return self._setting("least_bps")

    @property
    def line_rate_bps(self) -> float:
        """Highest rate that the agent can choose: that of its host's link."""
        return self._setting("line_rate_bps")

    @property
    def interval_s(self) -> float:
        """How long the next interval lasts."""
        return self._setting("interval_s")

    def _setting(self, name: str) -> float:
        return float(self._senders.rows[name][self._row])

    @property
    def uncapped_action(self) -> Array:
        """The action that leaves a transport to itself."""
        return self.action_for(np.array([0.0 if self.preset.window else self.preset.action_limit]))

    @property
    def native_bounds(self) -> tuple[float, float]:
        """Least and largest native number of an action."""
        return -self.preset.action_limit, self.preset.action_limit

    def action_for(self, native: NDArray[Any]) -> Array:
        """Return the action that stands for a native one, shape (1,), which is clipped."""
        limit = self.preset.action_limit
        within: Array = np.clip(native, -limit, limit).astype(np.float32)
        return within if self.scale is None else self.scale.outputs(within)

    def preset_numbers(self, numbers: FloatArray) -> FloatArray:
        """Return the native numbers that actions stand for, clipped, shape as given."""
        native = numbers if self.scale is None else self.scale.rates(numbers).astype(np.float64)
        return np.clip(native, -self.preset.action_limit, self.preset.action_limit)

    def action_toward(self, rate_bps: float) -> Array:
        """Return the action nearest to a send rate; of a window, to that rate's on the empty path."""
        values = self.values[0]
        if self.preset.window:
            packets = max(rate_bps * values[BASE_RTT_S] / values[PACKET_BITS], 1.0)
            action = orca_action(packets / max(values[CWND_PACKETS_NOW], 1.0))
        elif self.preset.name == "aurora":
            action = aurora_action(rate_bps / self._setting("rate_bps"), self._setting("action_step"))
        else:
            rate_bps = min(max(rate_bps, values[LEAST_RATE_BPS]), values[LINE_RATE_BPS])
            action = log_rate_action(rate_bps, values[LEAST_RATE_BPS], values[LINE_RATE_BPS])
        return self.action_for(np.array([action]))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seeds the generator that draws episode seeds.
            options: ``{"episode_seed": int}`` pins the episode seed; it may lie outside the split.

        Raises:
            ClosedEnvironment: If the environment is closed.
        """
        self._check_may_reset()
        super().reset(seed=seed)
        self.episode_seed = draw_episode_seed(self.np_random, self._seeds, options)
        self._begin_world(self.scenario.draw(self.split, self.episode_seed), self.episode_seed)
        warmup_s = self.network.scenario.control.warmup_s
        if warmup_s > 0.0:
            self.network.advance(warmup_s)
        if self.recorder is not None:
            control = self.network.scenario.control
            later_s = self.interval_s + control.episode_steps * control.decision_interval_s
            # Where intervals follow the round trip nobody knows when the episode ends.
            end_s = self.network.now_s + later_s if self._flow.decision_rtts is None else None
            self.recorder.clear(self.network, FLOW_ID, end_s)
        self._senders.pass_first_interval(self._row)
        self.remember_interval()
        senders, row = self._senders, self._row
        self._meter = EpisodeMeter(self.network, senders.before[row], senders.values[row], self._slowest_link)
        self._phase = Phase.RUNNING
        self._show()
        return senders.features[row].copy(), self._info(senders.values[row].tolist())

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Set the flow's rate or window, let one interval pass and measure it.

        Raises:
            NoEpisode: If no episode is under way.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the action is not one finite number in an array of shape (1,).
        """
        self._check_may_step()
        number = self.decision(action)
        senders, row = self._senders, self._row
        senders.decide(row, number)
        self.remember_interval()
        terms = dict(zip(self.reward.terms, senders.terms[row].tolist(), strict=False))
        info = self._info(senders.values[row].tolist())
        info["reward_terms"] = terms
        truncated = bool(senders.rows["steps"][row] >= senders.rows["episode_steps"][row])
        if truncated:
            info["episode_metrics"] = self.episode_metrics()
            self._phase = Phase.OVER
        self._show()
        return senders.features[row].copy(), sum(terms.values()), False, truncated, info

    def remember_interval(self) -> None:
        """Take the newest interval into the pictures, where there are any."""
        if self.recorder is not None:
            self.recorder.record(self._senders.values[self._row])

    def decision(self, action: Array) -> float:
        """Return an action's native number, clipped to what the preset takes; changes nothing.

        Raises:
            ActionError: If it is not one finite number in an array of shape (1,).
        """
        if self.scale is None and type(action) is np.ndarray and action.shape == (1,):
            number = float(action[0]) if action.dtype.kind == "f" else math.nan
            if math.isfinite(number):  # the short way: a decision takes some 20 us in all
                return min(max(number, -self.preset.action_limit), self.preset.action_limit)
        return float(self.preset_numbers(finite_numbers(action, (1,)))[0])

    def episode_metrics(self) -> dict[str, float]:
        """Return the metrics of the episode so far."""
        assert self._meter is not None
        scenario = self.network.scenario
        # A share of all time is known only where neither flows nor links change.
        steady = scenario.workload.kind == "long_lived" and not scenario.faults.rate_changes
        fair_bps = self.fair_rate_bps() if steady else None
        return self._meter.metrics(self._senders.before[self._row], fair_bps)

    def fair_rate_bps(self) -> float:
        """Return the flow's max-min fair share of the links now, room for ACKs left, headers included."""
        return float(fair_flow_rates_bps(self.network, _OWN)[0])

    def _begin_world(self, drawn: CongestionScenario, seed: int) -> None:
        flow = drawn.flow or self._flow
        if drawn != self._drawn:
            self._release()
            self._drawn = drawn
            self.network = network_on(
                self.backend, with_relative_buffer(drawn, flow), flow.background, {FLOW_ID: self._law}
            )
        schedule = schedule_of(self.network, flow, seed)
        alone = is_alone(schedule) and self.backend == PACKETS
        if self.backend == PACKETS:
            self.network.flow_transports[FLOW_ID] = pacing_transport(self.transport, alone=alone)
        self.network.reset(seed, schedule)
        control = self.network.scenario.control
        values = of_flows(self.network, _OWN, control.min_rate_fraction)[0]
        values[WINDOWED] = not self.transport.rate_driven
        self._slowest_link = slowest_link(self.network, FLOW_ID)
        settings = sender_settings(flow, control, values, int(schedule.src[0]), seed)
        settings["sets"] = what_it_sets(self.preset, self.transport, alone=alone)
        settings["has_law"] = not self.transport.rate_driven
        self._senders.begin(self._row, self.network, settings, values)
        if self.transport.rate_driven:
            self._senders.set_rate(self._row, flow.start_rate * float(values[SLOWEST_LINK_BPS]))
        if self.before_warmup is not None:
            self.before_warmup(self.network)

    def _info(self, values: list[float]) -> dict[str, Any]:
        return {
            "metrics": interval_metrics(values),
            "episode_seed": self.episode_seed,
            "time_s": self._setting("now_s"),
        }
