"""Episodes in which laws of all flows are compared."""

from __future__ import annotations

from dataclasses import dataclass, field

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
        env = DatacenterCC(scenario=self.scenario, split=self.split, transport=transport)
        _, info = play_episode(env, MaxAgent(), options={"episode_seed": self.seed})
        metrics: dict[str, float] = info["episode_metrics"]
        return metrics


@dataclass
class Baseline:
    """A law's metrics in episodes, each played once.

    Attributes:
        law: Name of the law.
    """

    law: str
    _known: dict[tuple[str, str, int], dict[str, float]] = field(default_factory=dict)

    def metrics(self, episode: Episode) -> dict[str, float]:
        """Return the metrics of an episode."""
        key = (episode.scenario.sha256(), episode.split, episode.seed)
        if key not in self._known:
            self._known[key] = episode.play(self.law)
        return self._known[key]
