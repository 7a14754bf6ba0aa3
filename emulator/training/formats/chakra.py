"""Jobs from Chakra's execution traces (mlcommons/chakra), a file a rank: ``NAME.RANK.et``.

Nodes run when those that they depend on have ended; nothing else keeps them apart. As in Chakra's own
feeder, these are the data dependencies; control dependencies count in a file that has no others. Collectives
of a process group (``pg_name``; all ranks without one) meet in the order of the nodes in the files. A send
belongs to a receive by ranks and tag; it does not wait for it, and what it sends has arrived when it ends, so
that the receive takes no time of its own. A communication without a duration takes the time that the cost
model of accelerators computes for its ``comm_size``: what a rank gives, so that an all-gather returns that
from every rank, as in ASTRA-sim.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.collective_costs import DEFAULT_SYSTEM, CollectiveCosts, group_shape
from sysgym.emulator.training.formats.chakra_schema import (
    COLLECTIVE_TYPES,
    NODE_TYPES,
    REMEDY,
    attributes,
    nodes_of,
)
from sysgym.emulator.training.formats.files import content
from sysgym.emulator.training.graph import Edge, Graph
from sysgym.emulator.training.job import Job
from sysgym.emulator.training.operations import THREAD, FloatArray, LeftOut, Operations
from sysgym.scenarios.errors import SysgymError

_RANK = re.compile(r"\.(\d{1,9})\.et(\.gz)?$")
_SEND, _RECEIVE, _COLLECTIVE = (NODE_TYPES.index(f"COMM_{kind}") for kind in ("SEND", "RECV", "COLL"))
_MEMORY = tuple(NODE_TYPES.index(f"MEM_{kind}") for kind in ("LOAD", "STORE"))
_LONGEST_NAME = 60
_GATHERS = "all_gather"
_SAME = {"reduce_scatter_block": "reduce_scatter"}
_US = 1e-6

_Key = tuple[object, ...]


class _Node(NamedTuple):
    """A node of one rank."""

    rank: int
    name: str
    type: int
    duration_s: float
    about: dict[str, Any]

    @property
    def communicates(self) -> bool:
        return self.type in (_SEND, _RECEIVE, _COLLECTIVE)

    @property
    def collective(self) -> str:
        """Name of the type of collective."""
        number = _whole(self.about.get("comm_type"), 0)
        name = COLLECTIVE_TYPES[number] if number < len(COLLECTIVE_TYPES) else f"collective {number}"
        return _SAME.get(name, name)

    @property
    def kind(self) -> str:
        if self.type == _COLLECTIVE:
            return self.collective
        return {_SEND: "send", _RECEIVE: "recv"}.get(self.type, self.name[:_LONGEST_NAME] or "node")

    @property
    def stream(self) -> str:
        if self.communicates:
            return "communication"
        if "stream" in self.about:
            return f"stream {self.about['stream']}"
        return f"{THREAD} {self.about.get('tid', 0)}" if self.about.get("is_cpu_op") else "computation"


def read_chakra(paths: Sequence[Path], name: str, system: str = DEFAULT_SYSTEM) -> Job:
    """Read execution traces of Chakra.

    Args:
        paths: Files of the ranks.
        name: Name of the job.
        system: Preset on which communications without a duration take place.

    Raises:
        TraceError: If a file cannot be read, or the files do not fit together.
        MissingExtra: If protobuf is not installed.
    """
    by_rank: dict[int, Path] = {}
    for order, path in enumerate(paths):
        named = _RANK.search(path.name)
        rank = int(named.group(1)) if named else order
        if rank in by_rank:
            raise TraceError(path, f"a second file of rank {rank}", "one file a rank, NAME.RANK.et", REMEDY)
        by_rank[rank] = path
    nodes: list[_Node] = []
    edges: list[Edge] = []
    malformed = 0
    for rank in sorted(by_rank):
        own, own_edges, wrong = _read_rank(by_rank[rank], rank, len(nodes))
        nodes += own
        edges += own_edges
        malformed += wrong
    if not nodes:
        raise TraceError(paths[0], "no node", "an execution trace of Chakra", REMEDY)
    groups, transfers, unmatched = _partners(nodes)
    try:
        graph = Graph.of(len(nodes), [*edges, *transfers], groups)
        durations, modelled = _durations_s(nodes, groups, transfers, max(by_rank) + 1, system)
    except SysgymError as error:
        raise TraceError(paths[0].parent, str(error), "execution traces of one job", REMEDY) from error
    return Job.of_durations(
        name,
        _operations(nodes),
        graph,
        durations,
        LeftOut(malformed, (), unmatched),
        _notes(nodes, modelled, system),
    )


def _read_rank(path: Path, rank: int, first: int) -> tuple[list[_Node], list[Edge], int]:
    """Return the nodes of a file, their edges, and how much of it is malformed."""
    number_of: dict[int, int] = {}
    nodes: list[_Node] = []
    before: list[set[int]] = []
    malformed = 0
    messages = nodes_of(content(path, REMEDY), path)
    # Where both are given, control dependencies are those of callers and callees, which overlap.
    by_data = any(node.data_deps for node in messages)
    for node in messages:
        if node.id in number_of or not 0 < node.type < len(NODE_TYPES):
            malformed += 1
            continue
        number_of[node.id] = first + len(nodes)
        nodes.append(_Node(rank, node.name, node.type, node.duration_micros * _US, attributes(node)))
        before.append(set(node.data_deps if by_data else node.ctrl_deps))
    edges = []
    for number, needed in enumerate(before, first):
        for identity in sorted(needed):
            if identity in number_of:
                edges.append((number_of[identity], number))
            else:
                malformed += 1
    return nodes, edges, malformed


def _partners(nodes: Sequence[_Node]) -> tuple[list[list[int]], list[Edge], int]:
    """Return collectives that meet, sends with their receives, and how many have no partner."""
    found: dict[_Key, dict[int, int]] = defaultdict(dict)
    counts: dict[_Key, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for number, node in enumerate(nodes):
        if not node.communicates:
            continue
        key: _Key = (node.collective, str(node.about.get("pg_name", "")))
        part = node.rank
        if node.type != _COLLECTIVE:
            sender = node.rank if node.type == _SEND else _whole(node.about.get("comm_src"), -1)
            receiver = node.rank if node.type == _RECEIVE else _whole(node.about.get("comm_dst"), -1)
            key = ("transfer", sender, receiver, _whole(node.about.get("comm_tag"), 0))
            part = node.type
        found[(*key, counts[key][part])][part] = number
        counts[key][part] += 1
    uneven = {key for key, of_part in counts.items() if len(set(of_part.values())) > 1}
    several = len({node.rank for node in nodes}) > 1
    groups: list[list[int]] = []
    transfers: list[Edge] = []
    unmatched = 0
    for key, members in found.items():
        if len(members) < 2 or key[:-1] in uneven:
            unmatched += len(members) if several else 0
        elif _SEND in members and key[0] == "transfer":
            transfers.append((members[_SEND], members[_RECEIVE]))
        else:
            groups.append(list(members.values()))
    return groups, transfers, unmatched


def _durations_s(
    nodes: Sequence[_Node],
    groups: Sequence[Sequence[int]],
    transfers: Sequence[Edge],
    n_ranks: int,
    system: str,
) -> tuple[FloatArray, int]:
    """Return the duration of every node, and of how many communications it is modelled."""
    durations = np.array([node.duration_s for node in nodes])
    durations[[receive for _, receive in transfers]] = 0.0
    missing = [group for group in groups if not any(nodes[one].duration_s for one in group)]
    unsent = [transfer for transfer in transfers if not nodes[transfer[0]].duration_s]
    if not missing and not unsent:
        return durations, 0
    costs = CollectiveCosts(system, n_ranks)
    for send, receive in unsent:
        durations[send] = costs.transfer_time_s(
            nodes[send].rank, nodes[receive].rank, _size_bytes(nodes[send])
        )
    for group in missing:
        ranks = sorted(nodes[one].rank for one in group)
        collective, size_bytes = nodes[group[0]].collective, max(_size_bytes(nodes[one]) for one in group)
        if collective == _GATHERS:
            size_bytes *= len(ranks)
        durations[list(group)] = costs.collective_time_s(collective, *group_shape(ranks, n_ranks), size_bytes)
    return durations, len(missing) + len(unsent)


def _size_bytes(node: _Node) -> float:
    return float(_whole(node.about.get("comm_size"), 0))


def _operations(nodes: Sequence[_Node]) -> Operations:
    seen: dict[tuple[int, str], int] = defaultdict(int)
    index, work = [], []
    numbers: dict[tuple[str, int], int] = {}
    for node in nodes:
        order = seen[node.rank, node.kind]
        seen[node.rank, node.kind] += 1
        index.append(order)
        work.append(numbers.setdefault((node.kind, order), len(numbers)))
    rank = np.array([node.rank for node in nodes], np.int64)
    return Operations(
        rank,
        np.zeros(len(nodes), np.int64),
        rank,
        np.array([node.kind for node in nodes]),
        np.array(index, np.int64),
        np.array([not node.communicates for node in nodes]),
        np.array([node.stream for node in nodes]),
        np.array(work, np.int64),
    )


def _notes(nodes: Sequence[_Node], modelled: int, system: str) -> tuple[str, ...]:
    traced = sum(node.communicates and node.duration_s > 0.0 for node in nodes)
    memory = sum(node.type in _MEMORY and not node.duration_s for node in nodes)
    notes = []
    if modelled:
        notes.append(f"{modelled} communications without a duration take what the links of {system} allow")
    if traced:
        notes.append(f"{traced} communications take their traced durations, with all waiting in them")
    if memory:
        notes.append(f"{memory} loads and stores without a duration take no time")
    return tuple(notes)


def _whole(value: object, default: int) -> int:
    """Return a whole number that is not negative, or the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
