"""``sysgym run --trace`` and ``--pcap``: what happened in an episode's network, as files for other tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

if TYPE_CHECKING:
    from sysgym.emulator.packets.network import PacketNetwork
    from sysgym.emulator.packets.recording import Recording

MOST_TRACED_FLOWS = 256
"""Flows that a trace shows, the first ones: more than can be read, and a file that opens at once."""

SAMPLES_PER_DECISION = 8


@dataclass(frozen=True)
class TraceFiles:
    """Where to write what.

    Attributes:
        trace: Chrome/Perfetto JSON of all switch queues and the first flows.
        pcap: Packets of one link.
        pcap_link: The link's name.
    """

    trace: Path | None
    pcap: Path | None
    pcap_link: str | None

    @property
    def wanted(self) -> bool:
        """Whether there is anything to write."""
        return self.trace is not None or self.pcap is not None


class Traced(gym.Wrapper[Any, Any, Any, Any]):
    """Records the network of every episode from its first decision on.

    Args:
        env: An environment whose world is a packet network.
        files: What is to be written.

    Raises:
        SysgymError: If the environment has no packet network, or the names do not fit together.
    """

    def __init__(self, env: gym.Env[Any, Any], files: TraceFiles) -> None:
        super().__init__(env)
        from sysgym.errors import SysgymError

        if (files.pcap is None) != (files.pcap_link is None):
            raise SysgymError("--pcap FILE and --pcap-link LINK belong together")
        if not hasattr(env.unwrapped, "network"):
            raise SysgymError("--trace and --pcap need a scenario of the congestion family")
        self._files = files
        self._recording: Recording

    @property
    def network(self) -> PacketNetwork:
        """The network of this episode."""
        network: PacketNetwork = getattr(self.env.unwrapped, "network")  # noqa: B009
        return network

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begins an episode and its recording."""
        begun = self.env.reset(**options)
        network = self.network
        links = [] if self._files.pcap_link is None else [self._files.pcap_link]
        if self._files.trace is not None:
            links += [network.topology.link_names[link] for link in network.topology.switch_ports]
        interval_s = network.scenario.control.decision_interval_s
        self._recording = network.record(
            links,
            range(min(len(network.schedule.src), MOST_TRACED_FLOWS) if self._files.trace else 0),
            sample_interval_s=interval_s / SAMPLES_PER_DECISION,
            packets_of=[] if self._files.pcap_link is None else [self._files.pcap_link],
        )
        return begun

    def write(self) -> list[str]:
        """Writes the files; returns what to say about each."""
        from sysgym.emulator.packets.traces import write_chrome_trace, write_pcap

        said = []
        if self._files.trace is not None:
            write_chrome_trace(self._files.trace, self.network, self._recording)
            said.append(f"trace: {self._files.trace}, opens in https://ui.perfetto.dev")
        if self._files.pcap is not None and self._files.pcap_link is not None:
            n_packets = write_pcap(self._files.pcap, self.network, self._recording, self._files.pcap_link)
            said.append(f"packets of {self._files.pcap_link}: {self._files.pcap} ({n_packets} packets)")
            if self._recording.missed_packets:
                said.append(f"{self._recording.missed_packets} later packets were not kept")
        return said
