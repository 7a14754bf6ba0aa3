"""Lower bounds of the time of a collective: what links can carry, and what latency allows.

No schedule of a task is faster than :func:`lower_bound_s`. Links carry data only until their latency before
the end, so if D bytes must cross a set of links with the bandwidths B and latencies l, the time T is at least
that with ``sum of B * max(T - l, 0) = D``.

- All-gather and reduce-scatter: ForestColl's bound (arXiv 2402.06787), the worst cut of the graph; its vertex
  sets include switches. It is found by max-flow and Newton's method for fractions, as a search of the binding
  cut that ends after a few cuts.
- Broadcast: the least cut between the root and a member.
- All-reduce: the least cut between two members, and the number of messages: if the system falls into k parts,
  every element crosses from part to part at least 2 (k - 1) times, as in gossip among k parties.
  The parts are the devices, or what is joined by links faster than a limit.
- All-to-all: the cuts around such parts, and total work over total bandwidth: bytes times the length of their
  shortest way, for any lengths of links (weak duality of concurrent flow).
- All: a chunk takes at least the shortest way from its owner to a device that wants it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import (
    breadth_first_order,
    connected_components,
    maximum_flow,
    shortest_path,
)

from sysgym.emulator.collectives.collective import BoolArray, Collective, Kind
from sysgym.emulator.collectives.network import FloatArray, IntArray, Network
from sysgym.emulator.collectives.task import SynthesisTask

_WHOLE = 2**28
"""Capacities are rounded to one part in this number: SciPy's flows are 32-bit integers."""

_MOST = 4.0
"""Capacity that never binds; of the others, those that bind add up to 1 at most."""

_SLACK = 1e-7
"""Relative difference below which a flow counts as complete."""


def lower_bound_s(task: SynthesisTask) -> float:
    """Return a time below which no schedule of the task's chunks can be."""
    collective, network = task.collective, task.network
    found = [_latency_bound_s(task)]
    match collective.kind:
        case Kind.ALL_GATHER:
            found.append(gather_bound_s(network, collective))
        case Kind.REDUCE_SCATTER:
            found.append(gather_bound_s(reversed_network(network), collective))
        case Kind.BROADCAST:
            found += _separating_cuts_s(network, collective)
        case Kind.ALL_REDUCE:
            found += _separating_cuts_s(network, collective)
            found += _separating_cuts_s(reversed_network(network), collective)
            found += _message_bounds_s(network, collective)
        case Kind.ALL_TO_ALL:
            found += _part_cuts_s(network, collective)
            found += _work_bounds_s(network, collective)
    return max(found)


def reversed_network(network: Network) -> Network:
    """Return the network with every link in the other direction."""
    links = tuple(link._replace(source=link.target, target=link.source) for link in network.links)
    return Network(network.name, network.vertices, network.n_devices, links)


def gather_bound_s(network: Network, collective: Collective) -> float:
    """Return ForestColl's bound of an all-gather, with the latency of the binding cut.

    The bound is the largest ``size of the parts of the members in S / bandwidth that leaves S``, over the
    sets of vertices S that lack a member.
    """
    part_bytes = collective.size_bytes / collective.n_members
    members = np.array(collective.members)
    bandwidths = network.bandwidths_bytes_per_s
    best_s, bound_s = 0.0, 0.0
    # The sets that lack one device alone come first: on many systems one of them binds.
    sets = [np.arange(len(network.vertices)) != member for member in members]
    for inside in sets:
        cut = _leaving(network, inside)
        data_bytes = part_bytes * inside[members].sum()
        best_s = max(best_s, data_bytes / bandwidths[cut].sum())
        bound_s = max(bound_s, _crossing_s(network, cut, data_bytes))
    for member in members:
        while True:
            inside = _violated_set(network, members, part_bytes, best_s, int(member))
            if inside is None:
                break
            cut = _leaving(network, inside)
            data_bytes = part_bytes * inside[members].sum()
            ratio_s = data_bytes / bandwidths[cut].sum()
            if ratio_s <= best_s * (1.0 + _SLACK):
                break
            best_s = ratio_s
            bound_s = max(bound_s, _crossing_s(network, cut, data_bytes))
    return bound_s


def _violated_set(
    network: Network, members: IntArray, part_bytes: float, time_s: float, sink: int
) -> BoolArray | None:
    """Return vertices without ``sink`` whose members' data cannot leave them in a time; None: no such."""
    n, total_bytes = len(network.vertices), part_bytes * len(members)
    source = n
    capacities = np.minimum(network.bandwidths_bytes_per_s * time_s, total_bytes)
    ends = (
        np.append(network.sources, np.full(len(members), source)),
        np.append(network.targets, members),
    )
    bytes_ = np.append(capacities, np.full(len(members), part_bytes))
    inside = _source_side(ends, bytes_ / total_bytes, n + 1, source, sink, 1.0)
    return None if inside is None else inside[:n]


def _source_side(
    ends: tuple[IntArray, IntArray], capacities: FloatArray, n: int, source: int, sink: int, wanted: float
) -> BoolArray | None:
    """Return the source's side of a least cut if the flow is below ``wanted``; None if it is not.

    Args:
        ends: Sources and targets of the edges.
        capacities: Capacities of the edges, of the order of 1.
        n: Number of vertices.
        source: Vertex where the flow begins.
        sink: Vertex where it ends.
        wanted: Flow that is enough.
    """
    whole = np.rint(np.minimum(capacities, _MOST) * _WHOLE).astype(np.int64)
    graph = csr_array((whole, ends), shape=(n, n))
    graph.sum_duplicates()
    capped = np.minimum(graph.data, int(_MOST * _WHOLE)).astype(np.int32)
    graph = csr_array((capped, graph.indices, graph.indptr), shape=(n, n))
    flow = maximum_flow(graph, source, sink)
    if flow.flow_value >= wanted * _WHOLE * (1.0 - _SLACK):
        return None
    residual = graph - flow.flow
    residual.eliminate_zeros()
    inside = np.zeros(n, np.bool_)
    inside[breadth_first_order(residual, source, return_predecessors=False)] = True
    return inside


def _cut_between(network: Network, sources: Sequence[int], sinks: Sequence[int]) -> BoolArray:
    """Return the links of a least cut from some devices to others."""
    n = len(network.vertices)
    links = np.append(network.sources, [*[n] * len(sources), *sinks])
    targets = np.append(network.targets, [*sources, *[n + 1] * len(sinks)])
    most = network.bandwidths_bytes_per_s.sum()
    endless = np.full(len(sources) + len(sinks), _MOST)
    capacities = np.append(network.bandwidths_bytes_per_s / most, endless)
    inside = _source_side((links, targets), capacities, n + 2, n, n + 1, _MOST)
    assert inside is not None, "all links together have a capacity of 1"
    return _leaving(network, inside[:n])


def _separating_cuts_s(network: Network, collective: Collective) -> Iterator[float]:
    """Yield the time that the vector needs from the first member to each other one."""
    first, *others = collective.members
    for member in others:
        yield _crossing_s(network, _cut_between(network, [first], [member]), collective.size_bytes)


def _parts(network: Network) -> Iterator[list[list[int]]]:
    """Yield divisions of the devices into parts: each alone, and those joined by links above a bandwidth."""
    yield [[device] for device in range(network.n_devices)]
    bandwidths, n = network.bandwidths_bytes_per_s, len(network.vertices)
    for limit in np.unique(bandwidths):
        kept = bandwidths > limit
        graph = csr_array((np.ones(kept.sum()), (network.sources[kept], network.targets[kept])), shape=(n, n))
        part = connected_components(graph, directed=False)[1][: network.n_devices]
        numbers = np.unique(part)
        if 1 < len(numbers) < network.n_devices:
            yield [np.flatnonzero(part == number).tolist() for number in numbers]


def _cuts_around(network: Network, part: Sequence[int]) -> tuple[BoolArray, BoolArray]:
    """Return links of least cuts from a part to the other devices, and from these to the part."""
    others = sorted(set(range(network.n_devices)) - set(part))
    if len(part) == 1:
        inside = np.arange(len(network.vertices)) == part[0]
        return _leaving(network, inside), _leaving(network, ~inside)
    return _cut_between(network, part, others), _cut_between(network, others, part)


def _message_bounds_s(network: Network, collective: Collective) -> Iterator[float]:
    if collective.n_members < network.n_devices:
        return  # other devices may combine and spread what the members send
    for parts in _parts(network):
        # A message is counted where it leaves the part that sends it.
        cuts = [_cuts_around(network, part)[0] for part in parts]
        counts = np.sum(cuts, axis=0)
        size_bytes = 2.0 * (len(parts) - 1) * collective.size_bytes
        yield crossing_time_s(counts * network.bandwidths_bytes_per_s, network.latencies_s, size_bytes)


def _part_cuts_s(network: Network, collective: Collective) -> Iterator[float]:
    pair_bytes = collective.size_bytes / collective.n_members
    for parts in _parts(network):
        for part in parts:
            inside = len(set(part) & set(collective.members))
            data_bytes = pair_bytes * inside * (collective.n_members - inside)
            for cut in _cuts_around(network, part):
                yield _crossing_s(network, cut, data_bytes)


def _work_bounds_s(network: Network, collective: Collective) -> Iterator[float]:
    members = list(collective.members)
    pair_bytes = collective.size_bytes / collective.n_members
    bandwidths = network.bandwidths_bytes_per_s
    n = len(network.vertices)
    for lengths in (np.ones(network.n_links), bandwidths.max() / bandwidths):
        graph = csr_array((lengths, (network.sources, network.targets)), shape=(n, n))
        ways = shortest_path(graph, indices=members)[:, members]
        work = float(ways.sum()) * pair_bytes
        yield crossing_time_s(lengths * bandwidths, network.latencies_s, work)


def _latency_bound_s(task: SynthesisTask) -> float:
    collective = task.collective
    return max(
        float(task.plan_distances_s(phase)[collective.owners][collective.others].max())
        for phase in collective.phases
    )


def _leaving(network: Network, inside: NDArray[np.bool_]) -> BoolArray:
    """Return which links leave a set of vertices."""
    leaving: BoolArray = inside[network.sources] & ~inside[network.targets]
    return leaving


def _crossing_s(network: Network, links: BoolArray, size_bytes: float) -> float:
    """Return the least time in which links of a network carry data."""
    return crossing_time_s(network.bandwidths_bytes_per_s[links], network.latencies_s[links], size_bytes)


def crossing_time_s(bandwidths_bytes_per_s: FloatArray, latencies_s: FloatArray, size_bytes: float) -> float:
    """Return the least time in which links carry data, each until its latency before the end.

    Args:
        bandwidths_bytes_per_s: Bandwidths; links with 0 carry nothing, float64 [n_links].
        latencies_s: Latencies, float64 [n_links].
        size_bytes: Data over all links together.
    """
    if size_bytes <= 0.0:
        return 0.0
    order = np.argsort(latencies_s)
    bandwidths = bandwidths_bytes_per_s[order]
    used = bandwidths > 0.0
    bandwidths, latencies = bandwidths[used], latencies_s[order][used]
    # A link whose latency exceeds the time would count as less than nothing, so the least time is without it.
    times_s = (size_bytes + np.cumsum(bandwidths * latencies)) / np.cumsum(bandwidths)
    return float(times_s.min())
