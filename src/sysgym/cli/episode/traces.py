"""Traces of an episode's network: ``sysgym run --csv``, ``--trace`` and ``--pcap``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym


@dataclass(frozen=True)
class TraceFiles:
    """Files of traces.

    Attributes:
        csv: Time series of flows and ports, CSV or Parquet.
        interval_s: Time between samples; None: an eighth of a decision interval.
        trace: Chrome/Perfetto JSON of all switch queues and the first flows.
        pcap: Packets of one link.
        pcap_link: Name of that link.
    """

    csv: Path | None
    interval_s: float | None
    trace: Path | None
    pcap: Path | None
    pcap_link: str | None

    @property
    def wanted(self) -> bool:
        """Whether any file is requested."""
        return self.csv is not None or self.trace is not None or self.pcap is not None

    def check(self, backend: str | None) -> None:
        """Check before the episode whether the files can be written.

        Args:
            backend: Backend of the network; None: the simulator.

        Raises:
            SysgymError: The options do not fit together, or a table cannot be written.
        """
        from sysgym.errors import SysgymError
        from sysgym.series_files import check_writable

        if (self.pcap is None) != (self.pcap_link is None):
            raise SysgymError("--pcap FILE and --pcap-link LINK must be given together")
        if self.interval_s is not None and self.csv is None and self.trace is None:
            raise SysgymError(
                "--interval is the time between samples of --csv or --trace; give one of them a file"
            )
        if self.wanted and backend not in (None, "packets"):
            raise SysgymError(
                "--csv, --trace and --pcap record the simulator only; on the kernel, use ss, tc or tcpdump"
            )
        if self.csv is not None:
            check_writable(self.csv)

    def watch(self, env: gym.Env[Any, Any]) -> Callable[[Mapping[str, Any]], list[str]]:
        """Record the environment's next episode.

        Args:
            env: The environment.

        Returns:
            A function that writes the files after the episode, given its origin, and returns a line on each.

        Raises:
            SysgymError: The environment has no packet network.
        """
        from sysgym.emulator.packets.traces import MOST_TRACED_FLOWS, write_chrome_trace, write_pcap
        from sysgym.series import Watch

        packets_only = self.csv is None and self.trace is None
        watch = Watch(
            env,
            interval_s=self.interval_s,
            links=[] if packets_only else None,
            most_flows=0 if packets_only else MOST_TRACED_FLOWS if self.csv is None else None,
            packets_of=[] if self.pcap_link is None else [self.pcap_link],
        )

        def write(about: Mapping[str, Any]) -> list[str]:
            said, network, recording = [], watch.network, watch.recording
            if self.csv is not None:
                series = watch.series(about)
                flows, ports, origin = series.write(self.csv)
                said.append(f"flows: {flows} ({len(series.flows)} rows)")
                said.append(f"ports: {ports} ({len(series.ports)} rows), origin: {origin}")
            if self.trace is not None:
                write_chrome_trace(self.trace, network, recording)
                said.append(f"trace: {self.trace}, for https://ui.perfetto.dev")
            if recording.missed_samples:
                said.append(
                    f"{recording.missed_samples} later samples were not kept; use a longer --interval"
                )
            if self.pcap is not None and self.pcap_link is not None:
                n_packets = write_pcap(self.pcap, network, recording, self.pcap_link)
                said.append(f"packets of {self.pcap_link}: {self.pcap} ({n_packets} packets)")
                if recording.missed_packets:
                    said.append(f"{recording.missed_packets} later packets were not kept")
            return said

        return write
