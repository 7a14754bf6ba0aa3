"""Episodes in which congestion control laws are compared, each used by all flows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sysgym.agents.congestion.max import MaxAgent
from sysgym.agents.protocol import play_episode
from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.scenarios import CongestionScenario


@dataclass(frozen=True)
class Episode:
    """Episode to play: scenario, split and seed."""

    scenario: CongestionScenario
    split: str
    seed: int

    def play(self, transport: str | Transport) -> dict[str, float]:
        """Return the metrics of the episode with all flows on a transport."""
        with closing(self._environment(transport)) as env:
            return self._metrics(env)

    def play_by_parts(self, transport: str | Transport) -> tuple[dict[str, float], dict[str, float]]:
        """Return the metrics of the episode, and p99 queue and goodput up to the last arrival of a flow.

        After the last arrival the network only drains. Over the whole episode, a law that takes longer to
        drain it would have a shorter p99 queue.

        Returns:
            Metrics of the whole episode, and p99 queue and goodput up to the last arrival. If flows arrive
            until the end, the latter are those of the whole episode.
        """
        last_s = getattr(self.scenario.workload, "last_arrival_s", None)
        goodputs_bps: list[float] = []
        of_arrivals: dict[str, float] = {}
        env = self._environment(transport)

        def note(info: dict[str, Any]) -> None:
            if last_s is None or of_arrivals:
                return
            goodputs_bps.append(info["metrics"]["goodput_bps"])
            if env.network.now_s > last_s - 0.5 * self.scenario.control.decision_interval_s:
                queues_bytes = env.network.queue_quantile_bytes(0.99)[env.fabric.port_links]
                of_arrivals["queue_p99_bytes"] = float(queues_bytes.max())
                of_arrivals["goodput_bps"] = float(np.mean(goodputs_bps))

        with closing(env):
            metrics = self._metrics(env, note)
        return metrics, of_arrivals or {name: metrics[name] for name in ("queue_p99_bytes", "goodput_bps")}

    def play_arrivals(self, transport: str | Transport) -> dict[str, float]:
        """Return the metrics of the episode, with p99 queue and goodput taken up to the last arrival."""
        whole, of_arrivals = self.play_by_parts(transport)
        return {**whole, **of_arrivals}

    def _environment(self, transport: str | Transport) -> DatacenterCC:
        return DatacenterCC(scenario=self.scenario, split=self.split, transport=transport)

    def _metrics(
        self, env: DatacenterCC, each_step: Callable[[dict[str, Any]], None] | None = None
    ) -> dict[str, float]:
        options = {"episode_seed": self.seed}
        _, info = play_episode(env, MaxAgent(), options=options, each_step=each_step)
        metrics: dict[str, float] = info["episode_metrics"]
        return metrics


@dataclass
class Baseline:
    """Metrics of a law in episodes, each of which is played once and cached.

    Attributes:
        law: Name of the law.
        arrivals: Whether p99 queue and goodput are taken up to the last arrival.
    """

    law: str
    arrivals: bool = False
    _known: dict[tuple[str, str, int], dict[str, float]] = field(default_factory=dict)

    def metrics(self, episode: Episode) -> dict[str, float]:
        """Return the metrics of an episode."""
        key = (episode.scenario.sha256(), episode.split, episode.seed)
        if key not in self._known:
            play = episode.play_arrivals if self.arrivals else episode.play
            self._known[key] = play(self.law)
        return self._known[key]
