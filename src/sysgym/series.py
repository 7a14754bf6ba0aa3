"""Time series of an episode: windows, rates and round trips of its flows, queues of its ports.

>>> import sysgym
>>> series = sysgym.record("dumbbell-10g", contender="dctcp", interval_s=100e-6)
>>> first = series.flow(0)
>>> first["time_s"], first["cwnd_packets"], first["srtt_s"]
>>> series.port("west->east")["queue_bytes"].max()
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.errors import SysgymError, UnknownName
from sysgym.series_files import MOST_ROWS, Columns, read_tables, write_tables

if TYPE_CHECKING:
    from sysgym.bench.contenders import Contender
    from sysgym.emulator.packets.counters.recording import Recording
    from sysgym.emulator.packets.network import PacketNetwork
    from sysgym.scenarios import Scenario

SAMPLES_PER_DECISION = 8
"""Default number of samples per decision interval."""


@dataclass(frozen=True)
class TimeSeries:
    """Time series of an episode's flows and ports, sampled at regular times and at its end.

    Attributes:
        flows: A record for each flow and sample, ordered by time and then by flow: ``time_s``, ``flow``,
            ``cwnd_packets``, ``pacing_rate_bps``, ``host_cap_bps``, ``srtt_s``, ``in_flight_bytes``,
            ``delivery_rate_bps``, ``goodput_bps``, ``delivered_bytes``, ``acked_packets``,
            ``marked_packets``, ``lost_packets``, ``retransmitted_packets``, ``timeouts``.
            A flow has records from its start to its end.
        ports: A record for each port and sample: ``time_s``, ``port`` (its index in ``port_names``),
            ``rate_bps``, ``queue_bytes``, ``queue_mean_bytes``, ``sent_bytes``, ``marked_packets``,
            ``dropped_packets``, ``dropped_bytes``, ``paused_s``.
        flow_sources: Name of the host that sends each flow, shape (n_flows,).
        flow_targets: Name of the host that receives each flow, shape (n_flows,).
        port_names: Names of the ports, such as ``west->east``.
        about: Origin: scenario, contender, split, seed, interval, metrics, versions; see
            docs/time-series.md.
    """

    flows: NDArray[np.void]
    ports: NDArray[np.void]
    flow_sources: NDArray[np.str_]
    flow_targets: NDArray[np.str_]
    port_names: tuple[str, ...]
    about: Mapping[str, Any]

    def flow(self, number: int) -> NDArray[np.void]:
        """Return the records of one flow, by time; empty if it never started."""
        found: NDArray[np.void] = self.flows[self.flows["flow"] == number]
        return found

    def port(self, name: str) -> NDArray[np.void]:
        """Return the records of one port, by time.

        Raises:
            UnknownName: No port of that name was recorded.
        """
        if name not in self.port_names:
            raise UnknownName("port", name, self.port_names)
        found: NDArray[np.void] = self.ports[self.ports["port"] == self.port_names.index(name)]
        return found

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the episode, identical to those without recording; nan if a metric has no value."""
        found = self.about["metrics"]
        return {name: float("nan") if value is None else value for name, value in found.items()}

    def write(self, path: str | PathLike[str]) -> tuple[Path, Path, Path]:
        """Write flows, ports and origin to files; see docs/time-series.md for the columns.

        Args:
            path: Path of the table of flows; ``.csv``, or ``.parquet`` with the extra ``parquet``. For
                ``flows.csv``, the ports are in ``flows.ports.csv`` and the origin is in ``flows.json``.

        Returns:
            Paths of the three files.

        Raises:
            MissingExtra: The library for Parquet is not installed.
            SysgymError: The suffix is unknown, or a file cannot be written.
        """
        about = {**self.about, "metrics": {name: _or_null(value) for name, value in self.metrics.items()}}
        return write_tables(Path(path), _flow_columns(self), _port_columns(self), about)


def read_series(path: str | PathLike[str]) -> TimeSeries:
    """Read a time series from files of :meth:`TimeSeries.write`.

    Args:
        path: Path of the table of flows. If there is no JSON file, the contender is named after this file.

    Raises:
        MissingExtra: The library for Parquet is not installed.
        SysgymError: A table cannot be read, or is not one of a time series.
    """
    return TimeSeries(*read_tables(Path(path)))


def _flow_columns(series: TimeSeries) -> Columns:
    """Return the columns of the table of flows, including the names of hosts."""
    flows = series.flows
    ids = flows["flow"]
    columns: Columns = {
        "time_s": flows["time_s"],
        "flow": ids,
        "src": series.flow_sources[ids],
        "dst": series.flow_targets[ids],
    }
    return columns | {name: flows[name] for name in flows.dtype.names or () if name not in columns}


def _port_columns(series: TimeSeries) -> Columns:
    """Return the columns of the table of ports, with the names of ports instead of their indices."""
    ports = series.ports
    names = np.array(series.port_names or ("",))
    columns: Columns = {"time_s": ports["time_s"], "port": names[ports["port"]]}
    return columns | {name: ports[name] for name in ports.dtype.names or () if name not in columns}


def _or_null(value: float) -> float | None:
    """Return a value for JSON: None instead of nan and infinity."""
    return value if math.isfinite(value) else None


class Watch:
    """Recorder of an environment's episodes, each from the beginning of its warm-up.

    Args:
        env: An environment with a simulated packet network.
        interval_s: Simulated time between samples, s; None: an eighth of a decision interval.
        links: Names of links whose queues are sampled, with the wildcards ``*`` and ``?``; None: all ports of
            switches.
        flows: Ids of flows to sample; None: the first ``most_flows`` flows.
        most_flows: Maximum number of flows if ``flows`` is None; None: no limit.
        packets_of: Names of links whose packets are also recorded.
        max_rows: Maximum number of samples.

    Attributes:
        network: Network of the current episode.
        recording: Recording of the current episode.

    Raises:
        SysgymError: The environment has no simulated packet network.
    """

    network: PacketNetwork
    recording: Recording

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        interval_s: float | None = None,
        links: Sequence[str] | None = None,
        flows: Sequence[int] | None = None,
        most_flows: int | None = None,
        packets_of: Sequence[str] = (),
        max_rows: int = MOST_ROWS,
    ) -> None:
        world: Any = env.unwrapped
        if not hasattr(world, "before_warmup"):
            raise SysgymError("time series need a scenario with a packet network")
        if world.backend != "packets":
            raise SysgymError("time series are recorded in the simulator only; on the kernel, use ss and tc")
        if interval_s is not None and not 1e-9 <= interval_s < np.inf:
            raise SysgymError(f"interval between samples: got {interval_s} s, expected at least 1e-9")
        self._interval_s, self._links, self._flows = interval_s, links, flows
        self._most_flows, self._packets_of, self._max_rows = most_flows, packets_of, max_rows
        world.before_warmup = self._begin

    def _begin(self, network: PacketNetwork) -> None:
        topology = network.topology
        switch_ports = [topology.link_names[link] for link in topology.switch_ports]
        links = [*(switch_ports if self._links is None else self._links), *self._packets_of]
        everyone = range(len(network.schedule.src))[: self._most_flows]
        flows: Sequence[int] = everyone if self._flows is None else self._flows
        interval_s = self._interval_s
        if interval_s is None:
            interval_s = network.scenario.control.decision_interval_s / SAMPLES_PER_DECISION
        self.network, self._ended_ns = network, 0
        self.recording = network.record(
            links,
            flows,
            packets_of=self._packets_of,
            sample_interval_s=interval_s,
            max_rows=self._max_rows,
        )
        least = rows_at_least(network, self.recording)
        if least > self._max_rows:
            raise SysgymError(
                f"{network.scenario.name}: samples every {interval_s:.3g} s of {len(self.recording.links)}"
                f" ports and {len(self.recording.flows)} flows give at least {least:,} rows, more than the"
                f" maximum of {self._max_rows:,}; use an interval of at least"
                f" {1.1 * interval_s * least / self._max_rows:.2g} s"
            )

    def series(self, about: Mapping[str, Any]) -> TimeSeries:
        """Return the time series, with a final sample at the current time.

        Args:
            about: Origin of the episode, to which facts about the recording are added.
        """
        network, recording = self.network, self.recording
        if network.now_ns % recording.sample_ns and network.now_ns != self._ended_ns:
            recording.take(network.now_ns, network.link_rate_bps)
            self._ended_ns = network.now_ns
        queue, topology = network.scenario.queue, network.topology
        names = topology.link_names
        ports = {
            names[link]: {
                "buffer_bytes": _own_or(topology.link_buffer_bytes[link], queue.buffer_bytes),
                "ecn_threshold_bytes": _own_or(
                    topology.link_ecn_threshold_bytes[link], queue.ecn_threshold_bytes
                ),
            }
            for link in recording.links
        }
        facts = {
            "interval_s": recording.sample_ns / 1e9,
            "warmup_s": network.scenario.control.warmup_s,
            "missed_samples": recording.missed_samples,
            "ports": ports,
        }
        hosts, schedule = np.array(topology.node_names), network.schedule
        return TimeSeries(
            recording.flow_samples(),
            recording.port_samples(),
            hosts[schedule.src],
            hosts[schedule.dst],
            names,
            {**about, **facts},
        )


def _own_or(own: float, common: float | None) -> float | None:
    """Return a link's own value, or the common value of all links if the own value is nan."""
    return common if np.isnan(own) else float(own)


def rows_at_least(network: PacketNetwork, recording: Recording) -> int:
    """Return a lower bound of the number of samples in an episode, assuming the shortest possible flows."""
    horizon_ns = round(network.scenario.horizon_s * 1e9)
    table = network.flows()
    start_s, ideal_s = table.start_s[recording.flows], table.ideal_fct_s[recording.flows]
    left_s = np.clip(horizon_ns / 1e9 - start_s, 0.0, None)
    lasts_s = np.fmin(np.where(np.isnan(ideal_s), left_s, ideal_s), left_s)
    of_flows = np.nan_to_num(lasts_s).sum() * 1e9 / recording.sample_ns
    return int(horizon_ns // recording.sample_ns * len(recording.links) + of_flows)


def record(
    scenario: str | PathLike[str],
    *,
    contender: str | Contender = "dctcp",
    seed: int | None = None,
    split: str | None = None,
    interval_s: float | None = None,
    links: Iterable[str] | None = None,
    flows: Iterable[int] | None = None,
    overrides: Mapping[str, Any] | None = None,
    max_rows: int = MOST_ROWS,
) -> TimeSeries:
    """Run an episode and return the time series of its flows and ports.

    Recording does not affect the episode.

    Args:
        scenario: Name or path of a congestion scenario.
        contender: Contender: a transport, an agent, ``TRANSPORT:AGENT``, ``...@CHECKPOINT``.
        seed: Episode seed; None: the first of the split.
        split: ``"train"``, ``"validation"`` or ``"test"``; None: the split that contains the seed.
        interval_s: Simulated time between samples, s; None: an eighth of a decision interval.
        links: Names of links whose queues are sampled, with the wildcards ``*`` and ``?``; None: all ports of
            switches.
        flows: Ids of flows to sample; None: all.
        overrides: Dotted keys of the scenario to replace.
        max_rows: Maximum number of samples; an episode that must exceed it is refused before it begins.
            Later sampling times are counted as ``missed_samples`` in the origin.

    Raises:
        UnknownName: There is no such scenario, contender, split or link.
        ScenarioError: The scenario is invalid.
        SysgymError: The seed is not in the split, or in none; there would be too many samples; or the
            scenario has no network.
    """
    from sysgym.bench.contenders import parse_contender
    from sysgym.bench.run.episodes import make_contender, play
    from sysgym.scenarios import load_scenario

    loaded = load_scenario(scenario, overrides=overrides)
    if isinstance(contender, str):
        contender = parse_contender(contender, family=loaded.family)
    contender = contender.with_shipped(loaded.name)
    split, seed = loaded.splits.choose(split, seed)
    env, agent = make_contender(loaded.resolved(), split, contender)
    try:
        watch = Watch(
            env,
            interval_s=interval_s,
            links=None if links is None else list(links),
            flows=None if flows is None else list(flows),
            max_rows=max_rows,
        )
        played = play(env, agent, seed)
    finally:
        env.close()
    return watch.series(about_episode(loaded, contender, split, seed, played.info["episode_metrics"]))


def about_episode(
    scenario: Scenario, contender: Contender, split: str, seed: int, metrics: Mapping[str, float]
) -> dict[str, Any]:
    """Return the origin of a time series, as stored in its JSON file."""
    from sysgym.bench.results.versions import versions

    return {
        "format": 1,
        "scenario": scenario.name,
        "scenario_sha256": scenario.sha256(),
        "contender": contender.name,
        "transport": contender.transport,
        "agent": contender.agent,
        "checkpoint_sha256": contender.checkpoint_sha256,
        "split": split,
        "seed": seed,
        "metrics": {name: float(value) for name, value in metrics.items()},
        "versions": versions(learned=contender.learned),
    }
