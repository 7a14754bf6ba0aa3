"""``sysgym/DatacenterCC-v0``: central control of the send rates of all hosts of a datacenter network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.envs.congestion.action_spaces import RateActions
from sysgym.envs.congestion.backends import network_on
from sysgym.envs.congestion.base import CongestionLifecycle
from sysgym.envs.congestion.datacenter.measurement import Fabric, Interval, Reading
from sysgym.envs.congestion.datacenter.metrics import INTERVAL_METRICS, episode_metrics, interval_metrics
from sysgym.envs.congestion.datacenter.observation import (
    DEFAULT_FEATURES,
    FeatureGroup,
    ObservationBuilder,
)
from sysgym.envs.congestion.datacenter.rewards import Reward, chosen_reward
from sysgym.envs.congestion.episodes import ScenarioLike, draw_episode_seed
from sysgym.envs.congestion.render.recorder import Recorder
from sysgym.envs.congestion.stepping.network_stepper import NetworkStepper
from sysgym.envs.congestion.stepping.of_backend import network_stepper_on
from sysgym.envs.congestion.stepping.protocol import is_over
from sysgym.envs.lifecycle import Kinds, Phase
from sysgym.envs.rewards import total

Array = NDArray[np.float32]


class DatacenterCC(CongestionLifecycle, gym.Env[Array, Array]):
    """Set the send rate of every host of a datacenter network with one central controller.

    ## Description

    Hosts send to each other over a network of switches with shallow buffers. Low send rates waste capacity;
    high send rates build up queues, which delay and drop packets. This is the problem of Iroko: a central
    controller reads the statistics of switches and hosts and assigns every host a send rate. The network is
    simulated packet by packet (`backend="packets"`): every data packet and ACK passes every hop, and loss,
    recovery and timeouts are those of the transport protocol.

    The network runs in simulated time with a resolution of nanoseconds. One `step` advances it by the
    scenario's decision interval. Rates take effect at the beginning of the interval; observation and reward
    are measured during the interval, after the rates took effect.

    `transport` is the congestion control law of the hosts. With `"paced"` (the default) a host sends at
    exactly the rate that the agent set. With any other law (`"dctcp"`, `"cubic"`, ...) the rate is a cap on
    the law's own rate; 1 means no cap. A classical transport is therefore evaluated in the same environment,
    with an agent that always sets 1.

    ## Action Space

    `Box(-1, 1, (n_hosts,), float32)`: the send rate of every host, headers included, enforced per host and
    not per flow. -1 is the scenario's `min_rate_fraction` of the line rate and 1 is the line rate. Values
    outside the space are clipped; values that are not finite raise an error.

    | `action_scale` | Space | Rate of an action a, as a fraction of the line rate, with the floor f |
    | --- | --- | --- |
    | `linear` | `Box(-1, 1)` | f + (1 - f) (a + 1) / 2 |
    | `log` | `Box(-1, 1)` | f to the power of (1 - a) / 2: equal steps are equal factors, for many small shares |
    | `native` | `Box(f, 1)` | a itself; agents of `sysgym.agents`, benchmarks and checkpoints use it |

    `env.unwrapped.action_for(rates)` returns the action for given fractions of the line rate.

    ## Observation Space

    `Box(0, 1, (n,), float32)`: the feature groups selected by `features`, concatenated, each with one value
    per switch port or per host; with `history` H, those of the last H intervals, the newest first. All values
    are scale-free and clipped to [0, 1]. The layout depends on the scenario:
    `env.unwrapped.observation_index` gives the name and unit of every value. Switch ports are in the order
    of `env.unwrapped.fabric.port_names`, hosts in that of `host_names`.

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
    | `path_queue_delay` | host | on the host's paths, largest: mean queueing delay d, squashed: 0.5 doubles the base RTT | d / (d + base RTT) | 0 | 1 |
    | `path_mark_fraction` | host | on the host's paths, largest: packets marked of those accepted | fraction of packets | 0 | 1 |
    | `path_utilization` | host | on the host's paths, largest: bytes sent, headers included | fraction of the link rate | 0 | 1 |
    | `fair_rate` | host | max-min fair send rate with all flows of the episode active, room for ACKs included | fraction of the line rate | 0 | 1 |
    | `ideal` | host | payload at the max-min fair rates of the flows active when the interval began, like goodput | fraction of the line rate | 0 | 1 |

    `*`: in the default set, in this order. The base RTT is the round-trip time of one full-size packet over
    the longest path of the empty network. The paths of a host are the switch ports that the data of its flows
    passes, including flows that have not begun: the columns reveal which hosts communicate, but not when.

    ## Rewards

    The reward is the sum of named terms, which `info["reward_terms"]` lists. `reward` selects the function;
    the scenario may set its weights.

    | Name | Terms |
    | --- | --- |
    | `default` | `goodput`: share of the max-min fair ideal that was delivered, each host up to its own ideal; `queueing`: -0.5 d / (d + base RTT), d the mean time that a byte which left the network waited in switch queues; `loss`: -1.0 times the share of bytes that were dropped |
    | `action`, `queue`, `std_dev`, `joint_queue`, `fairness`, `fair_queue`, `gini`, `step` | Iroko's, as in its repository |
    | `iroko_paper` | Iroko's of 2018: bandwidth received, less squared queues, less the rates' standard deviation |

    The ideal of an interval is given by the max-min fair rates of the flows that were active when it began,
    excluding headers, and is limited to the data that those flows had left to send. Without demand the
    goodput term is 1, so finishing early is never worth less than finishing late. The default reward is at
    most 1 per step. Iroko's rewards, except `queue` and `iroko_paper`, reward the rate that hosts are
    allowed, whether or not they use it; they are included for comparison.

    ## Starting State

    An initially empty network with the workload of one episode seed, run for the scenario's `warmup_s`
    without caps. `reset(seed=...)` seeds the generator that draws the episode seed from the split's range;
    `reset(options={"episode_seed": 20001})` sets it. The episode seed also determines the scenario parameters
    that the split varies. The first observation is measured on that network.

    ## Episode End

    Termination: never.

    Truncation: after the scenario's `episode_steps` decisions.

    ## Arguments

    | Parameter | Type | Default | Description |
    | --- | --- | --- | --- |
    | `scenario` | str, path, dict or `CongestionScenario` | `"dumbbell-10g"` | name from `sysgym list scenarios`, TOML file, or resolved scenario |
    | `split` | str | `"train"` | split from which episode seeds are drawn: `"train"`, `"validation"` or `"test"` |
    | `transport` | str or `Transport` | `"paced"` | congestion control law of the hosts |
    | `reward` | str, `Reward` or None | None | reward or its name; None: the reward of the scenario, `"default"` unless the scenario sets another |
    | `features` | sequence of str or `FeatureGroup` | the groups marked * | feature groups of the observation, or their names |
    | `history` | int | 1 | intervals in the observation |
    | `action_scale` | str | `"linear"` | `"linear"`, `"log"` or `"native"`: meaning of the numbers of an action |
    | `backend` | str | `"packets"` | `"packets"`: the simulator; `"linux"`: real hosts, TCP and queues of the kernel, in wall time |
    | `overrides` | dict or None | None | scenario keys to override, in dotted form, such as `{"topology.link_rate_bps": 25e9}` |
    | `render_mode` | str or None | None | `"ansi"`, `"rgb_array"` or `"human"` (a window; requires the extra `human`) |

    ## Info

    - `reward_terms`: dict of the reward's named terms, all 0 in the info of `reset`.
    - `metrics`: dict of the interval's metrics in absolute units, see
      `sysgym.envs.congestion.datacenter.metrics.INTERVAL_METRICS`.
    - `episode_metrics`: on the last step, dict of the metrics of the whole episode, see `EPISODE_METRICS`
      there.
    - `episode_seed`, `time_s`: the seed of this episode's workload, and simulated time.

    ## Registered Configurations

    One id, `sysgym/DatacenterCC-v0`; `scenario` selects the configuration: `allreduce-ring-16`,
    `allreduce-tree-hadoop-mix`, `allreduce-two-jobs-leafspine`, `alltoall-fattree-k4`,
    `alltoall-leafspine-2to1`, `dumbbell-100g-early-marks`, `dumbbell-100m-hadoop`, `dumbbell-10g`,
    `dumbbell-1g-10ms-websearch`, `dumbbell-20m-hadoop`, `dumbbell-40g-websearch`,
    `fattree-k4-hadoop-unmarked`, `fattree-k4-rpc`, `fattree-k4-websearch`, `fattree-k4-websearch-drained`,
    `fattree-k4-websearch-lossless`, `fattree-k4-websearch-shared`, `fattree-k4-websearch-trimming`,
    `fattree-k6-storage-shallow`, `fattree-k8-permutation`, `fattree-k8-permutation-drained`,
    `incast-24-storage-mix`, `incast-256`, `incast-32`, `incast-32-lossless`, `incast-32-shared`,
    `incast-32-trimming`, `incast-64`, `incast-websearch-mix`, `incast-websearch-mix-drained`,
    `iroko-dumbbell-10m`, `iroko-dumbbell-1g`, `iroko-fattree-10m`, `iroko-fattree-10m-step`,
    `iroko-fattree-1g`, `jellyfish-20`, `leafspine-2to1-websearch`, `leafspine-2to1-websearch-drained`,
    `leafspine-3to1-hadoop`, `leafspine-400g-websearch`, `leafspine-hadoop`, `leafspine-link-failure`,
    `leafspine-slow-spine`, `leafspine-storage`, `leafspine-storage-lossy`,
    `leafspine-websearch-two-failures`, `linux-dumbbell-100m`, `linux-dumbbell-1g`, `linux-fattree-incast`,
    `linux-fattree-incast-shallow`, `linux-fattree-stride`, `onoff-dumbbell`, `parking-lot-3-websearch`,
    `parking-lot-4`, `three-tier-32`, `torus-16-websearch`, `wan-abilene`, or a file of your own.

    ## Baselines

    The agents `max`, `random`, `fixed_fair`, `aimd`, `oracle` (privileged) and agents trained with `sysgym
    train`; classical transports with the agent `max`. `sysgym bench quick` evaluates them on held-out seeds
    and `sysgym report` prints scores with confidence intervals.

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
    STEP_METRICS: ClassVar[Mapping[str, str]] = INTERVAL_METRICS
    ARGUMENTS: ClassVar[Kinds] = {
        **CongestionLifecycle.ARGUMENTS,
        "reward": (
            (str, Reward, type(None)),
            "the name of a reward, a Reward, or None for the scenario's own",
        ),
    }
    actions: RateActions

    def __init__(
        self,
        scenario: ScenarioLike = "dumbbell-10g",
        split: str = "train",
        transport: str | Transport = "paced",
        reward: str | Reward | None = None,
        features: Sequence[str | FeatureGroup] = DEFAULT_FEATURES,
        history: int = 1,
        action_scale: str = "linear",
        backend: str = "packets",
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Create the environment; the class documentation describes the arguments.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split, transport, reward, feature group, action scale or backend does not exist.
            BackendUnavailable: If the backend is not available, such as ``"linux"`` without its service.
        """
        self._configure(scenario, split, backend, overrides, render_mode)
        self.fabric = Fabric.of(self.scenario)
        least = self.scenario.control.min_rate_fraction
        self.actions = RateActions(self.fabric.n_hosts, least, action_scale)
        self.action_space = self.actions.space
        self.transport = get_transport(transport) if isinstance(transport, str) else transport
        self._network = network_on(backend, self.scenario, self.transport)
        self.reward = chosen_reward(reward, self.scenario)
        self.observations = ObservationBuilder(self.fabric, features, history)
        self.observation_space = gym.spaces.Box(0.0, 1.0, (self.observations.size,), np.float32)
        self.recorder: Recorder | None = None
        if render_mode is not None:
            self.recorder = Recorder(self.fabric, self.scenario.name, self.transport.name)
        self._began: Reading | None = None
        self._stepper, self._row = self._new_stepper(1), 0

    @property
    def observation_index(self) -> list[str]:
        """Name and unit of every value of the observation."""
        return self.observations.index

    def observation_part(self, feature: str, age: int = 0) -> slice:
        """Return the slice of a feature group; arguments and errors as for ``observations.part``."""
        return self.observations.part(feature, age)

    @property
    def resting_action(self) -> Array:
        """The action that gives every host its line rate."""
        return np.ones(self.fabric.n_hosts, np.float32)

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
        network = self._network
        assert network is not None
        if drawn != network.scenario:
            self._release()
            network, self.fabric = network_on(self.backend, drawn, self.transport), Fabric.of(drawn)
            self._network = network
        network.reset(self.episode_seed)
        if self.before_warmup is not None:
            self.before_warmup(network)
        interval = self._stepper.begin(self._row, network, self.fabric, self.episode_seed)
        self._began = interval.after
        self.observations.reset(interval)
        if self.recorder is not None:
            self.recorder.clear(self.fabric, drawn.horizon_s)
            self.recorder.record(interval)
        self._phase = Phase.RUNNING
        self._show()
        return self.observations.newest(), {"reward_terms": self.reward.no_terms(), **self._info(interval)}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Set the rates of the hosts, simulate one decision interval and measure it.

        Raises:
            NoEpisode: If no episode is in progress.
            ClosedEnvironment: If the environment is closed.
            ActionError: If the action has the wrong shape or a value that is not finite.
        """
        self._check_may_step()
        interval = self._stepper.decide(self._row, self.actions.rates(action))
        terms = self._conclude(interval)
        info = {"reward_terms": terms, **self._info(interval)}
        truncated = is_over(self._stepper.rows, self._row)
        if truncated:
            info["episode_metrics"] = self._episode_metrics()
            self._phase = Phase.OVER
        self._show()
        return self.observations.newest(), total(terms), False, truncated, info

    def _conclude(self, interval: Interval) -> dict[str, float]:
        """Add an interval to the observation and the recorder; return the terms of its reward."""
        if self.recorder is not None:
            self.recorder.record(interval)
        self.observations.push(interval)
        return self.reward.terms(interval)

    def _new_stepper(self, n: int) -> NetworkStepper:
        """Return a stepper of this many networks; on the kernel there is only one."""
        make = network_stepper_on(self.backend)
        has_law, with_routing = not self.transport.rate_driven, self.observations.on_paths
        return make(n, self.fabric, has_law=has_law, with_routing=with_routing)

    def _join(self, stepper: NetworkStepper, row: int, frames: Array) -> None:
        """Use a row of a shared stepper, and store observations in the shared array."""
        self._stepper, self._row = stepper, row
        self.observations.share(frames)

    def _episode_metrics(self) -> dict[str, float]:
        """Return the metrics of the episode so far."""
        assert self._began is not None
        return episode_metrics(self._stepper.since(self._began, self._row), self.network)

    def _info(self, interval: Interval) -> dict[str, Any]:
        return {
            "metrics": interval_metrics(interval),
            "episode_seed": self.episode_seed,
            "time_s": interval.after.now_s,
        }
