"""Topologies as arrays: hosts, switches and directed links.

Routing, simulator and observations depend on this structure alone, whatever the kind of the network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName, closest_name
from sysgym.scenarios.schema.congestion.topology import LinkOverride

Array = TypeVar("Array", bound=NDArray[Any])

SHAPER_BURST_S = 250e-6
"""Idle time that a shaped link makes up for, s; see :func:`shaper_burst_s`."""


def shaper_burst_s(packet_s: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return the idle time that shaped links make up for at once, s: the depth of their token buckets.

    On a slow link it is a tenth of a packet's time.

    Args:
        packet_s: Time of a full packet on each link, s.
    """
    return np.where(packet_s < SHAPER_BURST_S, SHAPER_BURST_S, packet_s / 10)


class Cable(NamedTuple):
    """Full-duplex connection of two nodes: two directed links, built with the same rate and delay."""

    end: int
    other_end: int
    rate_bps: float
    delay_s: float


@dataclass(frozen=True, eq=False)
class Topology:
    """Network as read-only arrays.

    Nodes ``0 .. n_hosts - 1`` are hosts, the others switches. Links are directed. Links ``2i`` and
    ``2i + 1`` are the two directions of cable ``i``, so ``link ^ 1`` is the reverse link. Every link has its
    own output port at its source, so links and ports share an index. Every host has one cable, to a switch.

    Attributes:
        kind: Kind of the network, as in the scenario.
        n_hosts: Number of hosts.
        n_switches: Number of switches.
        node_names: Names, hosts first, length n_hosts + n_switches.
        link_source: Sending node of each link, shape (n_links,).
        link_target: Receiving node of each link, shape (n_links,).
        link_rate_bps: Rate of each link, bit/s, shape (n_links,).
        link_delay_s: One-way propagation delay of each link, s, shape (n_links,).
        host_pod: Pod of each host, shape (n_hosts,): the side of a dumbbell, the leaf of a leaf-spine
            network, the switch of a parking lot.
        link_buffer_bytes: Buffer of each link's port where an override sets one, else nan; shape (n_links,).
        link_ecn_threshold_bytes: ECN threshold of each link's port, likewise.
        shaped: Whether links are token buckets (``topology.link_model = "shaper"``): a packet travels as
            soon as its turn comes, instead of when its last bit has been sent.
    """

    kind: str
    n_hosts: int
    n_switches: int
    node_names: tuple[str, ...]
    link_source: NDArray[np.int32]
    link_target: NDArray[np.int32]
    link_rate_bps: NDArray[np.float64]
    link_delay_s: NDArray[np.float64]
    host_pod: NDArray[np.int32]
    link_buffer_bytes: NDArray[np.float64]
    link_ecn_threshold_bytes: NDArray[np.float64]
    shaped: bool = False

    def __post_init__(self) -> None:
        """Check the structure of the network, and make the arrays read-only.

        Raises:
            SysgymError: If the arrays do not describe a valid network, or a host cannot reach another one.
        """
        for array in (
            self.link_source,
            self.link_target,
            self.link_rate_bps,
            self.link_delay_s,
            self.host_pod,
            self.link_buffer_bytes,
            self.link_ecn_threshold_bytes,
        ):
            array.flags.writeable = False
        self._check_structure()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the arrays of a copy read-only too: functions would be compiled anew for writable ones."""
        self.__dict__.update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                _read_only(value)

    @classmethod
    def from_cables(
        cls,
        kind: str,
        *,
        host_names: Iterable[str],
        switch_names: Iterable[str],
        cables: Iterable[Cable],
        host_pod: Iterable[int],
    ) -> Topology:
        """Return the topology with the given cables; each becomes two links, ``end`` to ``other_end`` first.

        Args:
            kind: Kind of the network.
            host_names: Names of nodes 0, 1, ...
            switch_names: Names of the nodes after the hosts.
            cables: All cables; node ids follow the order of the names.
            host_pod: Pod of each host.
        """
        hosts, switches, cables = tuple(host_names), tuple(switch_names), tuple(cables)
        ends = np.array([(cable.end, cable.other_end) for cable in cables], dtype=np.int32).reshape(-1, 2)
        return cls(
            kind=kind,
            n_hosts=len(hosts),
            n_switches=len(switches),
            node_names=hosts + switches,
            link_source=ends.ravel(),
            link_target=ends[:, ::-1].ravel(),
            link_rate_bps=np.repeat(np.array([cable.rate_bps for cable in cables], dtype=np.float64), 2),
            link_delay_s=np.repeat(np.array([cable.delay_s for cable in cables], dtype=np.float64), 2),
            host_pod=np.array(tuple(host_pod), dtype=np.int32),
            link_buffer_bytes=np.full(2 * len(cables), np.nan),
            link_ecn_threshold_bytes=np.full(2 * len(cables), np.nan),
        )

    def with_overrides(self, overrides: Sequence[LinkOverride]) -> Topology:
        """Return the network with some links changed, one override after the other.

        Raises:
            ScenarioError: If an override names a link that does not exist.
        """
        if not overrides:
            return self
        arrays = {
            "rate_bps": self.link_rate_bps.copy(),
            "delay_s": self.link_delay_s.copy(),
            "buffer_bytes": self.link_buffer_bytes.copy(),
            "ecn_threshold_bytes": self.link_ecn_threshold_bytes.copy(),
        }
        for index, override in enumerate(overrides):
            chosen = self.links_named(override.link)
            if not len(chosen):
                close = closest_name(override.link, self.link_names)
                raise ScenarioError(
                    f"<{self.kind}>",
                    f"topology.overrides[{index}].link",
                    override.link,
                    f"a link of this network, such as {self.link_names[0]} or {self.link_names[-1]}",
                    advice=f'did you mean "{close}"?' if close else "* stands for any text",
                )
            for key, array in arrays.items():
                value = getattr(override, key)
                if value is not None:
                    array[chosen] = value
        return replace(
            self,
            link_rate_bps=arrays["rate_bps"],
            link_delay_s=arrays["delay_s"],
            link_buffer_bytes=arrays["buffer_bytes"],
            link_ecn_threshold_bytes=arrays["ecn_threshold_bytes"],
        )

    def links_of(self, names: Iterable[str]) -> NDArray[np.int64]:
        """Return the links with these names, ascending; shell wildcards ``*`` and ``?`` are allowed.

        Raises:
            UnknownName: If a name matches no link.
        """
        chosen = [np.empty(0, np.int64)]
        for name in names:
            chosen.append(self.links_named(name))
            if not len(chosen[-1]):
                raise UnknownName("link", name, self.link_names)
        return np.unique(np.concatenate(chosen))

    def links_named(self, pattern: str) -> NDArray[np.int64]:
        """Return the links whose names match a pattern, ascending; none if there is no such link.

        Args:
            pattern: ``leaf0->spine1`` or ``leaf0<->spine1`` (both directions), with shell wildcards ``*`` and
                ``?``.
        """
        # Square brackets are not wildcards here: no name has one, and an unclosed one would match nothing.
        name = pattern.replace("<->", "->").replace("[", "[[]")
        chosen = np.array([fnmatchcase(known, name) for known in self.link_names], dtype=np.bool_)
        if "<->" in pattern:
            chosen |= chosen[np.arange(self.n_links) ^ 1]
        return np.flatnonzero(chosen).astype(np.int64)

    def hop_s(self, size_bytes: float) -> NDArray[np.float64]:
        """Return the time from a packet's turn to its arrival at the far end, s, shape (n_links,)."""
        if self.shaped:
            return self.link_delay_s
        return size_bytes * 8 / self.link_rate_bps + self.link_delay_s

    @property
    def n_nodes(self) -> int:
        """Number of hosts and switches."""
        return self.n_hosts + self.n_switches

    @property
    def n_links(self) -> int:
        """Number of directed links, two per cable."""
        return len(self.link_source)

    @cached_property
    def link_names(self) -> tuple[str, ...]:
        """Names such as ``h0->edge0_1``, by link; those of a second cable between two nodes end in ``#2``."""
        names, times = self.node_names, Counter[str]()
        found = []
        for source, target in zip(self.link_source, self.link_target, strict=True):
            name = f"{names[source]}->{names[target]}"
            times[name] += 1
            found.append(name if times[name] == 1 else f"{name}#{times[name]}")
        return tuple(found)

    @cached_property
    def from_host(self) -> NDArray[np.bool_]:
        """Whether a link's source is a host, shape (n_links,)."""
        return _read_only(self.link_source < self.n_hosts)

    @cached_property
    def to_host(self) -> NDArray[np.bool_]:
        """Whether a link's target is a host, shape (n_links,)."""
        return _read_only(self.link_target < self.n_hosts)

    def buffers_bytes(self, usual_bytes: float) -> NDArray[np.float64]:
        """Return the buffer of each link's port, the usual one where no override sets another, (n_links,)."""
        return np.where(np.isnan(self.link_buffer_bytes), float(usual_bytes), self.link_buffer_bytes)

    @cached_property
    def switch_ports(self) -> NDArray[np.int64]:
        """Links whose source is a switch, ascending."""
        return _read_only(np.flatnonzero(~self.from_host).astype(np.int64))

    @cached_property
    def host_uplink(self) -> NDArray[np.int64]:
        """The link that each host sends on, shape (n_hosts,)."""
        uplinks = np.flatnonzero(self.from_host)
        return _read_only(uplinks[np.argsort(self.link_source[uplinks])].astype(np.int64))

    @cached_property
    def host_downlink(self) -> NDArray[np.int64]:
        """The link that each host receives on, shape (n_hosts,)."""
        return _read_only(self.host_uplink ^ 1)

    @cached_property
    def host_edge(self) -> NDArray[np.int32]:
        """The switch (node id) that each host is connected to, shape (n_hosts,)."""
        return _read_only(self.link_target[self.host_uplink])

    def _check_structure(self) -> None:
        source, target = self.link_source, self.link_target
        if self.n_hosts < 1 or len(self.node_names) != self.n_nodes or len(self.host_pod) != self.n_hosts:
            self._refuse(
                f"{len(self.node_names)} names and {len(self.host_pod)} pods for {self.n_hosts} hosts"
            )
        if len(set(self.node_names)) != self.n_nodes:
            self._refuse("two nodes have the same name")
        properties: tuple[NDArray[Any], ...] = (target, self.link_rate_bps, self.link_delay_s)
        properties += (self.link_buffer_bytes, self.link_ecn_threshold_bytes)
        if any(len(array) != len(source) for array in properties):
            self._refuse("the arrays of the links differ in length")
        if len(source) % 2 or not np.array_equal(source[0::2], target[1::2]):
            self._refuse("links 2i and 2i + 1 are not the two directions of a cable")
        if not np.array_equal(source[1::2], target[0::2]) or np.any(source == target):
            self._refuse("links 2i and 2i + 1 are not the two directions of a cable")
        if len(source) and not 0 <= int(source.min()) <= int(source.max()) < self.n_nodes:
            self._refuse("a link ends at a node that does not exist")
        if not np.array_equal(np.sort(source[self.from_host]), np.arange(self.n_hosts)):
            self._refuse("a host has no cable, or more than one")
        if np.any(self.from_host & self.to_host):
            self._refuse("a cable joins two hosts")
        if not (np.all(self.link_rate_bps > 0) and np.all(np.isfinite(self.link_rate_bps))):
            self._refuse("a link's rate is not positive and finite")
        if not (np.all(self.link_delay_s >= 0) and np.all(np.isfinite(self.link_delay_s))):
            self._refuse("a link's delay is negative or not finite")
        if not self._is_connected():
            self._refuse("some nodes cannot reach others")

    def _is_connected(self) -> bool:
        reached = np.zeros(self.n_nodes, dtype=np.bool_)
        reached[0] = True
        count = 0
        while count != (count := int(reached.sum())):
            reached[self.link_target[reached[self.link_source]]] = True
        return count == self.n_nodes

    def _refuse(self, reason: str) -> None:
        raise SysgymError(f"not a valid topology ({self.kind}): {reason}")


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array
