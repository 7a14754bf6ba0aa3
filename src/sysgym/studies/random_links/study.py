"""Episodes of laws on random links: settings, jobs, and rows of finished episodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from sysgym.bench.contenders import Contender
from sysgym.bench.results.row_format import ContenderFields, Digest, Name
from sysgym.bench.results.versions import must_match, versions
from sysgym.bench.run.pool import PLAYING
from sysgym.emulator.packets.requirements import check_requirements
from sysgym.envs.congestion.random_links import NETWORK, Link, draw_crowd, draw_shared_link
from sysgym.envs.congestion.sharing import flow_count, measure_sharing
from sysgym.errors import SysgymError
from sysgym.scenarios import CongestionScenario, load_scenario, scenario_from_resolved
from sysgym.studies.kept_rows import KeptRow
from sysgym.studies.laws import can_share, transport_of

ROWS = "links.jsonl"
BESIDE = ("dctcp", "cubic", "bbr", "swift", "reno")
"""Laws with which others share links by default."""


class _RowFields(KeptRow):
    """Line of the file of rows."""

    law: Name
    beside: Name | None
    contenders: list[ContenderFields]
    link: Annotated[int, Field(ge=0)]
    rate_bps: Annotated[float, Field(gt=0.0)]
    buffer_bytes: Annotated[int, Field(gt=0)]
    packets_an_ack: Annotated[int, Field(gt=0)]
    scenario_sha256: Digest
    duration_s: Annotated[float, Field(gt=0.0)]
    share: Annotated[float, Field(ge=0.0, le=2.0)]
    jain_index: Annotated[float, Field(ge=0.0, le=1.0 + 1e-9)]
    queue_mean_bytes: Annotated[float, Field(ge=0.0)]
    goodput_bps: Annotated[float, Field(ge=0.0)]


@dataclass(frozen=True)
class LinkJob:
    """Job of one law on one link.

    Attributes:
        scenario: Resolved scenario.
        scenario_sha256: Digest of the scenario.
        duration_s: Simulated time.
        number: Number of the link among those of its kind, and seed of the flows' start times. The law has
            the flows with even numbers if it is even, otherwise those with odd numbers.
        law: The law.
        other: Law of the other half of the flows; None: all flows use ``law``.
    """

    scenario: Mapping[str, Any]
    scenario_sha256: str
    duration_s: float
    number: int
    law: Contender
    other: Contender | None

    @property
    def label(self) -> str:
        """Name of the episode in messages."""
        beside = "among its own flows" if self.other is None else f"beside {self.other.name}"
        return f"{self.law.name} {beside} on link {self.number}"

    @property
    def key(self) -> str:
        """Key that identifies the row of this episode."""
        laws = [self.law.identity, self.other and self.other.identity]
        parts = (self.scenario_sha256, laws, self.duration_s, self.number)
        return json.dumps([*parts, *must_match(versions())], sort_keys=True)

    def run(self, report: Callable[[Any], None]) -> dict[str, Any]:
        """Run the episode and return its row; only the beginning is reported."""
        report(PLAYING)
        scenario = scenario_from_resolved(self.scenario, expect=CongestionScenario)
        law = transport_of(self.law)
        other = law if self.other is None else transport_of(self.other)
        measured = measure_sharing(scenario, law, other, self.duration_s, self.number)
        return {
            "law": self.law.name,
            "beside": self.other and self.other.name,
            "contenders": [one.to_json() for one in (self.law, self.other) if one is not None],
            "link": self.number,
            "rate_bps": scenario.topology.link_rate_bps,
            "buffer_bytes": scenario.queue.buffer_bytes,
            "packets_an_ack": scenario.transport.delayed_ack_packets,
            "scenario_sha256": self.scenario_sha256,
            "duration_s": self.duration_s,
            "share": measured.share,
            "jain_index": measured.jain_index,
            "queue_mean_bytes": measured.queue_mean_bytes,
            "goodput_bps": measured.goodput_bps,
            "versions": versions(),
        }


@dataclass(frozen=True)
class RandomLinks:
    """Settings of the study.

    Attributes:
        laws: The laws.
        beside: Laws with which ``laws`` share links.
        n_links: Number of links shared by two laws.
        n_crowds: Number of links with flows of one law.
        seed: Seed of the draw.
        overrides: Scenario keys that are the same on all links, instead of drawn values.
    """

    rows_file: ClassVar[str] = ROWS
    row_fields: ClassVar[type[KeptRow]] = _RowFields
    one_at_a_time: ClassVar[bool] = False

    laws: Sequence[Contender]
    beside: Sequence[Contender]
    n_links: int
    n_crowds: int
    seed: int = 0
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise SysgymError unless all episodes can be run."""
        for names in ([law.name for law in self.laws], [law.name for law in self.beside]):
            if twice := [name for name in names if names.count(name) > 1]:
                raise SysgymError(f"{twice[0]} appears twice; -c NAME=WHO gives a law another name")
        known = {law.name: law for law in self.laws}
        for other in self.beside:
            if (law := known.get(other.name, other)).identity != other.identity:
                raise SysgymError(f"two laws are named {law.name}; -c NAME=WHO gives a law another name")
        if not self.n_links + self.n_crowds:
            raise SysgymError("no links; expected --links or --crowds of 1 or more")
        scenario = self._example()
        if self.n_crowds:
            for law in self.laws:
                check_requirements(scenario, transport_of(law), ())
        elif not self.pairs():
            laws, others = (", ".join(law.name for law in some) for some in (self.laws, self.beside))
            raise SysgymError(f"no two of the laws can share a link: {laws} beside {others}")
        if self.overrides:
            self._check_flows()

    def _example(self) -> CongestionScenario:
        return load_scenario(NETWORK, overrides=dict(self.overrides), expect=CongestionScenario)

    def _check_flows(self) -> None:
        for resolved in {job.scenario_sha256: job.scenario for job in self.jobs()}.values():
            scenario = scenario_from_resolved(resolved, expect=CongestionScenario)
            if scenario.workload.kind != "long_lived":
                raise SysgymError(f"--set workload.kind={scenario.workload.kind}: expected long-lived flows")
            if (n_flows := flow_count(scenario)) % 2:
                raise SysgymError(f"{n_flows} flows with these keys; expected an even number, half for each")

    def pairs(self) -> list[tuple[Contender, Contender]]:
        """Return the pairs of a law and a neighbour that can share a link.

        Raises:
            SysgymError: A contender is not a law of single flows.
        """
        scenario = self._example()
        transports = {law: transport_of(law) for law in (*self.laws, *self.beside)}
        return [
            (law, other)
            for law, other in self._wanted()
            if can_share(scenario, transports[law], transports[other])
        ]

    def left_out(self) -> list[tuple[Contender, Contender]]:
        """Return the pairs that cannot share a link: each law lacks something that the other requires."""
        pairs = self.pairs()
        return [pair for pair in self._wanted() if pair not in pairs]

    def _wanted(self) -> list[tuple[Contender, Contender]]:
        return [(law, other) for law in self.laws for other in self.beside if law.identity != other.identity]

    def jobs(self) -> list[LinkJob]:
        """Return the jobs of all episodes, link by link; those of crowds come first."""
        alone = [(law, None) for law in self.laws]
        return [
            *self._jobs(draw_crowd, self.n_crowds, alone),
            *self._jobs(draw_shared_link, self.n_links, self.pairs()),
        ]

    def _jobs(
        self,
        draw: Callable[[np.random.Generator], Link],
        n_links: int,
        players: Sequence[tuple[Contender, Contender | None]],
    ) -> Iterator[LinkJob]:
        for number in range(n_links):
            # Each link has its own generator, so that the number of links does not change the first ones.
            drawn = draw(np.random.default_rng([self.seed, number]))
            try:
                link = drawn._replace(scenario=drawn.scenario.with_overrides(self.overrides))
            except SysgymError as error:
                raise SysgymError(f"link {number}, whose other keys are drawn: {error}") from error
            resolved, digest = link.scenario.resolved(), link.scenario.sha256()
            for law, other in players:
                yield LinkJob(resolved, digest, link.duration_s, number, law, other)
