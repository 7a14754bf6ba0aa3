"""``sysgym/DatacenterCC-v0``: one controller sets how fast every host of a datacenter network sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.envs.congestion.actions import NATIVE, OF_CONTROLLERS, ActionScale, check_form
from sysgym.envs.congestion.backends import PACKETS, check_backend, network_on
from sysgym.envs.congestion.base import CongestionLifecycle
from sysgym.envs.congestion.controllers import Controllers
from sysgym.envs.congestion.episodes import draw_episode_seed, resolve_scenario
from sysgym.envs.congestion.measurement import Fabric, Interval, Reading
from sysgym.envs.congestion.metrics import episode_metrics, interval_metrics
from sysgym.envs.congestion.observation import DEFAULT_FEATURES, ObservationBuilder
from sysgym.envs.congestion.render import Recorder
from sysgym.envs.congestion.rewards import get_reward
from sysgym.envs.lifecycle import Phase, finite_numbers
from sysgym.scenarios import CongestionScenario

Array = NDArray[np.float32]


class DatacenterCC(CongestionLifecycle, gym.Env[Array, Array]):
    """One controller sets how fast every host of a datacenter network sends.

    ## Description

    Hosts send to each other over a network of switches with short buffers. Send too slowly and capacity is
    wasted; send too fast and queues grow, packets wait and are dropped. This is Iroko's problem: a central
    controller reads switch and host statistics and allots every host a send rate. The network is simulated
    packet by packet (`backend="packets"`): every data packet and ACK passes every hop, and loss, recovery and
    time-outs happen as they do to a real sender.

    Time has two clocks. The network's runs in nanoseconds; one `step` advances it by the scenario's decision
    interval, in simulated time. Rates take effect at the beginning of the interval, and everything observed
    and paid for is measured during that interval, after they took effect.

    The congestion control law of the hosts is `transport`. With `"paced"` (the default) a host sends at
    exactly the rate it was given. With any other (`"dctcp"`, `"cubic"`, ...) the law runs and the rate is a
    cap over it; 1 means no cap. A classical contender is therefore the same environment with that transport
    and an agent that always answers 1.

    ## Action Space

    `Box(-1, 1, (n_hosts,), float32)`: send rate of every host, headers included, enforced for the host as a
    whole and not for each of its flows. -1 is the scenario's `min_rate_fraction` of the line rate, 1 the line
    rate. Values outside are clipped; values that are not finite are an error.

    | `action_scale` | Space | Rate of an action a, as a fraction of the line rate, with the floor f |
    | --- | --- | --- |
    | `linear` | `Box(-1, 1)` | f + (1 - f) (a + 1) / 2 |
    | `log` | `Box(-1, 1)` | f to the power of (1 - a) / 2: equal steps are equal factors, for many small shares |
    | `native` | `Box(f, 1)` | a itself; agents of `sysgym.agents`, benchmarks and checkpoints use it |

    `env.unwrapped.action_for(rates)` returns the action that asks for given fractions.

    ## Observation Space

    `Box(0, 1, (n,), float32)`: the feature groups chosen with `features`, one after another, each with one
    value for every switch port or every host; with `history` H the last H intervals, the newest first. All
    are scale-free and clipped to [0, 1]. What stands where depends on the scenario:
    `env.unwrapped.observation_index` names every value with its unit. Switch ports come in the order of
    `env.unwrapped.fabric.port_names`, hosts in that of `host_names`.

    | Group | One for each | Meaning | Unit | Min | Max |
    | --- | --- | --- | --- | --- | --- |
    | `queue` | switch port | queue at the end of the interval | fraction of the buffer | 0 | 1 |
    | `queue_mean` | switch port | mean queue over the interval | fraction of the buffer | 0 | 1 |
    | `queue_max` | switch port | largest queue of the interval | fraction of the buffer | 0 | 1 |
    | `queue_delay` * | switch port | mean queueing delay d, squashed: 0.5 doubles the base RTT | d / (d + base RTT) | 0 | 1 |
    | `mark_fraction` * | switch port | packets marked of those accepted | fraction of packets | 0 | 1 |
    | `drop_fraction` | switch port | packets dropped of those offered | fraction of packets | 0 | 1 |
    | `utilization` * | switch port | bytes sent, headers included | fraction of the link rate | 0 | 1 |
    | `rate` * | host | send rate in force | fraction of the line rate | 0 | 1 |
    | `goodput` * | host | payload delivered, against line rate less headers | fraction of the line rate | 0 | 1 |
    | `rtt` * | host | mean round trip; 0 without queueing or samples | 1 - base RTT / RTT | 0 | 1 |
    | `active` * | host | whether the host has something left to send | 0 or 1 | 0 | 1 |

    `*`: in the default set, in this order. The base RTT is that of one full packet over the longest path of
    the empty network.

    ## Rewards

    The sum of named terms, which `info["reward_terms"]` lists. `reward` names the function; the scenario may
    set its weights.

    | Name | Terms |
    | --- | --- |
    | `default` | `goodput`: share of the max-min fair ideal that was delivered, each host up to its own ideal; `queueing`: -0.5 d / (d + base RTT), d the mean time that a byte which left the network waited in switch queues; `loss`: -1.0 times the share of bytes that were dropped |
    | `action`, `queue`, `std_dev`, `joint_queue`, `fairness`, `fair_queue`, `gini`, `step` | Iroko's, as in its repository |
    | `iroko_paper` | Iroko's of 2018: bandwidth received, less squared queues, less the rates' standard deviation |

    The ideal of an interval are the max-min fair rates of the flows that were active when it began, less
    headers, and no more than those flows had left to send. Without demand the goodput term is 1, so finishing
    early is never worth less than finishing late. The default reward is at most 1 a step. Iroko's rewards,
    except `queue` and `iroko_paper`, pay for the rate that hosts are allowed, used or not; they are there for
    comparison.

    ## Starting State

    An empty network with the workload of one episode seed, run for the scenario's `warmup_s` without caps.
    `reset(seed=...)` seeds the generator that draws the episode seed from the split's range;
    `reset(options={"episode_seed": 20001})` pins it. The episode seed also decides what the split varies. The
    first observation is a reading of that network.

    ## Episode End

    Termination: never.

    Truncation: after the scenario's `episode_steps` decisions.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `CongestionScenario` | `"dumbbell-10g"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | `"train"`, `"validation"` or `"test"`: where episode seeds come from |
    | `transport` | str or `Transport` | `"paced"` | congestion control law of the hosts |
    | `reward` | str or None | None | name of the reward; None: the scenario's, which is `"default"` unless it says otherwise |
    | `features` | sequence of str | the groups marked * | feature groups of the observation |
    | `history` | int | 1 | intervals in the observation |
    | `action_scale` | str | `"linear"` | `"linear"`, `"log"` or `"native"`: what the numbers of an action mean |
    | `backend` | str | `"packets"` | `"packets"`: the simulator; `"linux"`: real hosts, TCP and queues of the kernel, in wall time |
    | `overrides` | dict or None | None | dotted keys of the scenario to replace, such as `{"workload.load": 0.6}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms (`step` only).
    - `metrics`: dict of the interval's metrics in absolute units, see
      `sysgym.envs.congestion.metrics.INTERVAL_METRICS`.
    - `episode_metrics`: on the last step, dict of the whole episode's, see `EPISODE_METRICS` there.
    - `episode_seed`, `time_s`: the seed of this episode's workload, and simulated time.

    ## Registered Configurations

    One id, `sysgym/DatacenterCC-v0`; `scenario` chooses the world: `allreduce-ring-16`,
    `allreduce-tree-hadoop-mix`, `alltoall-fattree-k4`, `dumbbell-10g`, `fattree-k4-rpc`,
    `fattree-k4-websearch`, `fattree-k8-permutation`, `incast-32`, `incast-64`, `incast-websearch-mix`,
    `iroko-dumbbell-10m`, `iroko-dumbbell-1g`, `iroko-fattree-10m`, `iroko-fattree-1g`,
    `leafspine-2to1-websearch`, `leafspine-hadoop`, `leafspine-link-failure`, `leafspine-slow-spine`,
    `leafspine-storage`, `linux-dumbbell-100m`, `linux-dumbbell-1g`, `linux-fattree-incast`,
    `linux-fattree-stride`, `onoff-dumbbell`, `parking-lot-4`, or a file of your own.

    ## Baselines

    Agents `max`, `random`, `fixed_fair`, `aimd`, `oracle` (privileged) and anything trained with `sysgym
    train`; classical transports under the agent `max`. `sysgym bench quick` plays them on held-out seeds and
    `sysgym report` prints scores with confidence intervals.

    ## References

    - Ruffy, Przystupa, Beschastnikh: Iroko: A Framework to Prototype Reinforcement Learning for Data Center
      Traffic Control. ML for Systems workshop, NeurIPS 2018, arXiv 1812.09975. Problem, action, and the
      rewards named after it.
    - Bertsekas, Gallager: Data Networks, 1992, section 6.5.2. Max-min fairness, the ideal of the default
      reward.
    - Jain, Chiu, Hawe: A Quantitative Measure of Fairness and Discrimination. DEC TR-301, 1984.

    ## Version History

    - v0: first version.
    """  # noqa: E501, a table's row is one line

    metadata: dict[str, Any] = {  # noqa: RUF012, Gymnasium declares it on instances
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 10,
    }

    def __init__(
        self,
        scenario: str | PathLike[str] | Mapping[str, Any] | CongestionScenario = "dumbbell-10g",
        split: str = "train",
        transport: str | Transport = "paced",
        reward: str | None = None,
        features: Sequence[str] = DEFAULT_FEATURES,
        history: int = 1,
        action_scale: str = "linear",
        backend: str = "packets",
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Build the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split, transport, reward, feature group, action scale or backend does not exist.
            BackendUnavailable: If the backend cannot be had here, such as ``"linux"`` without its service.
        """
        check_backend(backend)
        check_form(action_scale, OF_CONTROLLERS)
        self.backend = backend
        self.scenario = resolve_scenario(scenario, overrides)
        self.split = split
        self.render_mode = render_mode
        self._seeds = self.scenario.splits[split].seeds
        self.transport = get_transport(transport) if isinstance(transport, str) else transport
        self.network: Any = network_on(backend, self.scenario, self.transport)
        self.fabric = Fabric.of(self.scenario)
        weights = self.scenario.reward.weights if reward in (None, self.scenario.reward.name) else {}
        self.reward = get_reward(reward or self.scenario.reward.name).with_weights(weights)
        self._observations = ObservationBuilder(self.fabric, features, history)
        self.recorder: Recorder | None = None
        if render_mode is not None:
            self.recorder = Recorder(self.fabric, self.scenario.name, self.transport.name)

        n_hosts, least = self.fabric.n_hosts, np.float32(self.scenario.control.min_rate_fraction)
        self.rate_space = gym.spaces.Box(least, np.float32(1.0), (n_hosts,), np.float32)
        self.scale: ActionScale | None = None
        self.action_space = self.rate_space
        if action_scale != NATIVE:
            self.scale = ActionScale(action_scale, float(least), 1.0)
            self.action_space = gym.spaces.Box(-1.0, 1.0, (n_hosts,), np.float32)
        self.observation_space = gym.spaces.Box(0.0, 1.0, (self._observations.size,), np.float32)
        self.episode_seed: int | None = None
        self._began: Reading | None = None
        self.before_warmup: Callable[[Any], object] | None = None
        """Called with the network of every episode at time 0; to record it, see ``PacketNetwork.record``."""
        self.share(self.controllers_for(1), 0, np.zeros((history, self._observations.frame_size), np.float32))

    def controllers_for(self, n: int) -> Any:
        """Return what this many worlds of this kind keep together; on the kernel there is only one."""
        if self.backend == PACKETS:
            return Controllers(n, self.fabric)
        from sysgym.envs.congestion.live import LiveController

        return LiveController(has_law=not self.transport.rate_driven)

    def share(self, controllers: Any, row: int, frames: Array) -> None:
        """Keep what a decision needs in a row of some controllers, which other worlds may share.

        Args:
            controllers: The controllers.
            row: Which of them.
            frames: Where observations are kept, shape (history, features of an interval).
        """
        self._controllers, self._row = controllers, row
        self._observations.share(frames)

    @property
    def observation_index(self) -> list[str]:
        """What stands at every index of the observation, with its unit."""
        return self._observations.index

    def observation_part(self, feature: str, age: int = 0) -> slice:
        """Return where a feature group lies; ``age`` 0 is the newest interval. Raises UnknownName."""
        return self._observations.part(feature, age)

    @property
    def resting_action(self) -> Array:
        """The action that leaves every host its line rate."""
        return np.ones(self.fabric.n_hosts, np.float32)

    @property
    def native_bounds(self) -> tuple[float, float]:
        """Least and largest native number of an action."""
        return float(self.rate_space.low.min()), float(self.rate_space.high.max())

    def action_for(self, rates: NDArray[Any]) -> Array:
        """Return the action that asks for rates.

        Args:
            rates: Fractions of the line rate, shape (n_hosts,); they are clipped to what can be asked for.
        """
        within: Array = np.clip(rates, self.rate_space.low, self.rate_space.high).astype(np.float32)
        return within if self.scale is None else self.scale.outputs(within)

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
        drawn = self.scenario.draw(self.split, self.episode_seed)
        if drawn != self.network.scenario:
            self._release()
            self.network = network_on(self.backend, drawn, self.transport)
            self.fabric = Fabric.of(drawn)
        self.network.reset(self.episode_seed)
        if self.before_warmup is not None:
            self.before_warmup(self.network)
        if self.recorder is not None:
            self.recorder.clear(self.fabric, drawn.horizon_s)
        interval = self._controllers.begin(self._row, self.network, self.fabric, self.episode_seed)
        if self.recorder is not None:
            self.recorder.record(interval)
        self._began = interval.after
        self._observations.reset(interval)
        self._phase = Phase.RUNNING
        self._show()
        return self._observations.newest(), self._info(interval)

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Set the hosts' rates, let one decision interval pass and measure it.

        Raises:
            NoEpisode: If no episode is under way.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the action has another shape, or a value is not a finite number.
        """
        self._check_may_step()
        interval = self._controllers.decide(self._row, self.rate_fractions(action))
        terms = self.conclude(interval)
        info = {"reward_terms": terms, **self._info(interval)}
        rows = self._controllers.rows
        truncated = bool(rows["steps"][self._row] >= rows["episode_steps"][self._row])
        if truncated:
            info["episode_metrics"] = self.episode_metrics()
            self._phase = Phase.OVER
        self._show()
        return self._observations.newest(), float(sum(terms.values())), False, truncated, info

    def conclude(self, interval: Interval) -> dict[str, float]:
        """Take an interval into the observation and the pictures; returns the terms of its reward."""
        if self.recorder is not None:
            self.recorder.record(interval)
        self._observations.push(interval)
        return self.reward.terms(interval)

    def observation_frame(self, interval: Interval) -> Array:
        """Return the features of an interval of this network, or of many like it."""
        return self._observations.frame(interval)

    @property
    def observation_frames(self) -> tuple[int, int]:
        """Intervals in an observation, and features of each."""
        return self._observations.history, self._observations.frame_size

    def rate_fractions(self, action: Array) -> NDArray[np.float64]:
        """Return the rates that an action stands for, as fractions of the line rate; changes nothing.

        Raises:
            ActionError: If it has another shape or a value is not a finite number.
        """
        return self.rates_of(finite_numbers(action, self.action_space.shape or ()))

    def rates_of(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rates of one or many worlds' actions, shape (..., n_hosts), finite numbers."""
        rates = numbers
        if self.scale is not None:
            scaled = self.scale.rates(numbers) if numbers.ndim == 1 else self.scale.rates_of_many(numbers)
            rates = scaled.astype(np.float64)
        return np.clip(rates, self.scenario.control.min_rate_fraction, 1.0)

    def episode_metrics(self) -> dict[str, float]:
        """Return the metrics of the episode so far."""
        assert self._began is not None
        newest = self._controllers.interval(self._row)
        none = np.zeros(self.fabric.n_hosts)
        return episode_metrics(
            Interval(self.fabric, self._began, newest.after, newest.action, none), self.network
        )

    def _info(self, interval: Interval) -> dict[str, Any]:
        return {
            "metrics": interval_metrics(interval),
            "episode_seed": self.episode_seed,
            "time_s": interval.after.now_s,
        }
