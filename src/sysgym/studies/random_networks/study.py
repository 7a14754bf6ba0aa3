"""Episodes of laws on random networks, one episode of each law on each network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.bench.contenders import Contender, parse_contender
from sysgym.bench.leaderboard.power import CLASSICS
from sysgym.bench.results.row_format import ContenderFields, Digest, Name
from sysgym.bench.results.versions import must_match, versions
from sysgym.bench.run.pool import PLAYING
from sysgym.emulator.packets.transports.swift import CONSTANTS, FLOW_SCALING_RANGE_NS, PER_HOP_NS
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.fair_sharing import fair_slowdowns
from sysgym.envs.congestion.datacenter.metrics import slowdown_quantiles
from sysgym.envs.congestion.random_networks import SPLIT, Network, draw_networks
from sysgym.errors import SysgymError
from sysgym.scenarios import CongestionScenario, scenario_from_resolved
from sysgym.studies.kept_rows import KeptRow
from sysgym.studies.laws import transport_of

ROWS = "networks.jsonl"
WITH_TELEMETRY, BY_RATE, FAIR = "hpcc", "swift_by_rate", "fair_sharing"
REFERENCES = (*CLASSICS, WITH_TELEMETRY, BY_RATE)
"""Laws that are always included."""

FULL_DELAYS_BPS = 10e9
DELAYS = PER_HOP_NS, FLOW_SCALING_RANGE_NS
"""Indices of Swift's delays among its constants."""


class _RowFields(KeptRow):
    """Line of the file of rows."""

    law: Name
    contender: ContenderFields | None
    network: Annotated[int, Field(ge=0)]
    kind: Name
    rate_bps: Annotated[float, Field(gt=0.0)]
    scenario_sha256: Digest
    seed: Annotated[int, Field(ge=0)]
    metrics: dict[Name, float]


@dataclass(frozen=True)
class NetworkJob:
    """Job of one law on one network.

    Attributes:
        scenario: Resolved scenario.
        scenario_sha256: Digest of the scenario.
        number: Number of the network.
        kind: Kind of the network.
        rate_bps: Rate of the hosts' links.
        seed: Seed of the episode.
        law: The law; None: fair sharing of all links at every moment, for which only slowdowns are computed.
    """

    scenario: Mapping[str, Any]
    scenario_sha256: str
    number: int
    kind: str
    rate_bps: float
    seed: int
    law: Contender | None

    @property
    def name(self) -> str:
        """Name of the law."""
        return FAIR if self.law is None else self.law.name

    @property
    def label(self) -> str:
        """Name of the episode in messages."""
        return f"{self.name} on network {self.number} ({self.kind}, {self.rate_bps / 1e9:.3g} Gb/s)"

    @property
    def key(self) -> str:
        """Key that identifies the row of this episode."""
        law = FAIR if self.law is None else self.law.identity
        parts = (self.scenario_sha256, self.seed, law, self.number)
        return json.dumps([*parts, *must_match(versions())], sort_keys=True)

    def run(self, report: Callable[[Any], None]) -> dict[str, Any]:
        """Run the episode and return its row; only the beginning is reported."""
        report(PLAYING)
        scenario = scenario_from_resolved(self.scenario, expect=CongestionScenario)
        if self.law is None:
            metrics = _fair(scenario, self.seed)
        else:
            metrics = Episode(scenario, SPLIT, self.seed).play_arrivals(transport_of(self.law))
        return {
            "law": self.name,
            "contender": self.law and self.law.to_json(),
            "network": self.number,
            "kind": self.kind,
            "rate_bps": self.rate_bps,
            "scenario_sha256": self.scenario_sha256,
            "seed": self.seed,
            "metrics": metrics,
            "versions": versions(),
        }


@dataclass(frozen=True)
class RandomNetworks:
    """Settings of the study.

    Attributes:
        laws: Laws in addition to the references.
        n_networks: Number of networks.
        seed: Seed of the draw.
        fair: Whether to compute slowdowns under fair sharing as well.
    """

    rows_file: ClassVar[str] = ROWS
    row_fields: ClassVar[type[KeptRow]] = _RowFields
    one_at_a_time: ClassVar[bool] = False

    laws: Sequence[Contender]
    n_networks: int
    seed: int = 0
    fair: bool = False

    def __post_init__(self) -> None:
        """Raise SysgymError unless all laws are laws of single flows with distinct names."""
        names = [law.name for law in self.laws]
        taken = {*REFERENCES, FAIR}
        if wrong := [name for name in names if name in taken or names.count(name) > 1]:
            why = "plays in any case" if wrong[0] in taken else "appears twice"
            raise SysgymError(f"{wrong[0]} {why}; -c NAME=WHO gives a law another name")
        for law in self.laws:
            transport_of(law)

    @property
    def own(self) -> list[str]:
        """Names of the laws in addition to the references."""
        return [law.name for law in self.laws]

    def jobs(self) -> list[NetworkJob]:
        """Return the jobs of all episodes, network by network."""
        references = [parse_contender(name, (), "congestion") for name in (*CLASSICS, WITH_TELEMETRY)]
        jobs = []
        for number, network in enumerate(draw_networks(self.n_networks, self.seed)):
            resolved, digest = network.scenario.resolved(), network.scenario.sha256()
            laws: list[Contender | None] = [*references, swift_by_rate(network), *self.laws]
            if self.fair and network.kind != "incast":  # rounds of answers depend on each other's end
                laws.append(None)
            jobs += [
                NetworkJob(resolved, digest, number, network.kind, network.rate_bps, network.seed, law)
                for law in laws
            ]
        return jobs


def swift_by_rate(network: Network) -> Contender:
    """Return Swift with both delays scaled by 10 Gb/s over the rate of the hosts' links, at most by 1."""
    values = with_delays([one.value for one in CONSTANTS], min(FULL_DELAYS_BPS / network.rate_bps, 1.0))
    delays = [f"{CONSTANTS[place].name}={values[place]!r}" for place in DELAYS]
    return parse_contender(",".join([f"{BY_RATE}=swift", *delays]), (), "congestion")


def with_delays(parameters: Sequence[float], factor: float) -> list[float]:
    """Return constants of Swift with both delays multiplied, but not below their minimum values."""
    changed = list(parameters)
    for place in DELAYS:
        changed[place] = max(parameters[place] * factor, CONSTANTS[place].least)
    return changed


def _fair(scenario: CongestionScenario, seed: int) -> dict[str, float]:
    with closing(DatacenterCC(scenario=scenario, split=SPLIT)) as env:
        env.reset(options={"episode_seed": seed})
        slowdowns = fair_slowdowns(env.network, env.fabric)
        return slowdown_quantiles(slowdowns, env.network.schedule.size_bytes, drained=True)
