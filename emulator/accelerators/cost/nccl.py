"""What NCCL and its tools say about speed: its tuner's constants and times, bus bandwidth, efficiency.

Constants of the tuner: NVIDIA/nccl, ``src/graph/tuning.cc`` and ``topo.h``, 2026. Bus bandwidth: nccl-tests,
``doc/PERFORMANCE.md``. Efficiency by message size: SimAI (aliyun/SimAI), ``nic_ratio.csv``. A GB is 1e9
bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost.algorithms import ALL_TO_ALL, check_ranks
from sysgym.emulator.accelerators.programs.patterns import Collective
from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName

Protocol = Literal["LL", "LL128", "Simple"]
TunerAlgorithm = Literal["ring", "tree"]
Hop = Literal["nvlink", "pci", "net"]

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
TUNER_ALGORITHMS: tuple[TunerAlgorithm, ...] = get_args(TunerAlgorithm)

BASE_LATENCY_S: Mapping[TunerAlgorithm, Mapping[Protocol, float]] = {
    "tree": {"LL": 6.8e-6, "LL128": 14.0e-6, "Simple": 8.4e-6},
    "ring": {"LL": 6.6e-6, "LL128": 14.0e-6, "Simple": 8.4e-6},
}
HOP_LATENCY_S: Mapping[TunerAlgorithm, Mapping[Hop, Mapping[Protocol, float]]] = {
    "tree": {
        "nvlink": {"LL": 0.6e-6, "LL128": 1.25e-6, "Simple": 4.0e-6},
        "pci": {"LL": 1.0e-6, "LL128": 1.9e-6, "Simple": 4.0e-6},
        "net": {"LL": 5.0e-6, "LL128": 8.5e-6, "Simple": 14.0e-6},
    },
    "ring": {
        "nvlink": {"LL": 0.6e-6, "LL128": 1.9e-6, "Simple": 3.4e-6},
        "pci": {"LL": 1.0e-6, "LL128": 2.5e-6, "Simple": 5.7e-6},
        "net": {"LL": 2.7e-6, "LL128": 4.0e-6, "Simple": 14.0e-6},
    },
}
NVLINK_BYTES_PER_S: Mapping[str, float] = {
    "SM60": 18e9,
    "SM70": 20e9,
    "SM80": 20e9,
    "SM90": 20.6e9,
    "SM100": 40.1e9,
}
"""Of one NVLink, by the GPU's compute capability, as the tuner assumes."""

PCI_GEN3_X16_BYTES_PER_S = 12e9
NET_BYTES_PER_S = 12e9
"""Of a 100 Gb/s NIC, as the tuner assumes."""

LL_RING_BYTES_PER_S: Mapping[str, float] = {"volta": 39e9, "ampere": 87.7e9, "hopper": 141e9}
"""Most that the LL protocol moves inside one node."""

NVLS_EFFICIENCY: Mapping[str, float] = {"hopper": 0.85, "blackwell": 0.74}

_TREE_SHARE_OF_BUS = 0.5
_PLATEAU = 1.4
"""The latency of a ring all-reduce between nodes grows by this factor (Simple, from Ampere on)."""

_PLATEAU_FROM_BYTES = 64.0
"""Per channel and rank."""

_BUS_FACTORS: dict[str, Callable[[int], float]] = {
    Collective.ALL_REDUCE: lambda n: 2 * (n - 1) / n,
    Collective.REDUCE_SCATTER: lambda n: (n - 1) / n,
    Collective.ALL_GATHER: lambda n: (n - 1) / n,
    Collective.REDUCE: lambda n: 1.0,
    Collective.BROADCAST: lambda n: 1.0,
    ALL_TO_ALL: lambda n: (n - 1) / n,
}


def bus_factor(collective: str, n: int) -> float:
    """Return bus bandwidth over algorithm bandwidth.

    Args:
        collective: ``AR``, ``RS``, ``AG``, ``R``, ``B`` or ``A2A``.
        n: Ranks, at least 1.

    Raises:
        UnknownName: There is no such collective.
        SysgymError: There are no ranks.
    """
    if collective not in _BUS_FACTORS:
        raise UnknownName("collective", collective, _BUS_FACTORS)
    check_ranks(n)
    return _BUS_FACTORS[collective](n)


def bus_bandwidth_bytes_per_s(collective: str, n: int, size_bytes: float, time_s: float) -> float:
    """Return the bus bandwidth of a measured time: the rate on the wire, if the algorithm is flat.

    Args:
        collective: ``AR``, ``RS``, ``AG``, ``R``, ``B`` or ``A2A``.
        n: Ranks, at least 1.
        size_bytes: Of the full vector; of reduce-scatter and all-gather too, which is n times a rank's part.
        time_s: More than 0.

    Raises:
        UnknownName: There is no such collective.
        SysgymError: There are no ranks.
    """
    return bus_factor(collective, n) * size_bytes / time_s


def nic_bytes_per_s(bus_bandwidth: float, n: int, nodes: int) -> float:
    """Return the rate on each rank's NIC of a hierarchical collective with this bus bandwidth.

    Only of flat algorithms is bus bandwidth the rate on the wire (stas00/ml-engineering).

    Args:
        bus_bandwidth: Bytes per second.
        n: Ranks, at least 2.
        nodes: On which they are, evenly.
    """
    return bus_bandwidth * (nodes - 1) / (n - 1)


def tuner_time_s(
    collective: Collective,
    algorithm: TunerAlgorithm,
    protocol: Protocol,
    *,
    n: int,
    nodes: int,
    size_bytes: float,
    bus_bytes_per_s: float,
    hop: Hop = "nvlink",
    channels: int = 1,
) -> float:
    """Return the time by which NCCL's tuner compares algorithms, for GPUs from Ampere on.

    Left out are the tuner's corrections of the tree's bandwidth by message size, the caps of LL, and the
    overhead of posting to the network.

    Args:
        collective: The tree serves AllReduce only.
        algorithm: ``ring`` or ``tree``.
        protocol: ``LL``, ``LL128`` or ``Simple``.
        n: Ranks, at least 1.
        nodes: On which they are, evenly.
        size_bytes: Of the full vector.
        bus_bytes_per_s: Bandwidth of the ring, what nccl-tests would show.
        hop: Link inside a node.
        channels: Of the ring; they decide from which size its latency grows.

    Raises:
        UnknownName: There is no such algorithm or protocol.
        SysgymError: A tree for another collective, or ranks that do not spread evenly over the nodes.
    """
    if algorithm not in TUNER_ALGORITHMS:
        raise UnknownName("algorithm of NCCL's tuner", algorithm, TUNER_ALGORITHMS)
    if protocol not in PROTOCOLS:
        raise UnknownName("protocol of NCCL", protocol, PROTOCOLS)
    check_ranks(n)
    if nodes < 1 or n % nodes:
        raise SysgymError(f"{n} ranks do not spread evenly over {nodes} nodes")
    inner_s = HOP_LATENCY_S[algorithm][hop][protocol]
    outer_s = HOP_LATENCY_S[algorithm]["net"][protocol]
    latency_s = BASE_LATENCY_S[algorithm][protocol]
    if algorithm == "tree":
        if collective is not Collective.ALL_REDUCE:
            raise SysgymError(f"NCCL's tree does an all-reduce, not {collective.name.lower()}")
        latency_s += 2.0 * ((n // nodes - 1) * inner_s + math.log2(nodes) * outer_s)
        return latency_s + size_bytes / (bus_bytes_per_s * _TREE_SHARE_OF_BUS)
    all_reduce = collective is Collective.ALL_REDUCE
    scattered = collective in (Collective.REDUCE_SCATTER, Collective.ALL_GATHER)
    steps = 2 * (n - 1) if all_reduce else n - 1 if scattered else n
    if steps == 0:
        return 0.0
    crossing = (2 if all_reduce else 1) * (nodes - 1)
    latency_s += (steps - crossing) * inner_s + crossing * outer_s
    large = size_bytes / (channels * n) >= _PLATEAU_FROM_BYTES
    if all_reduce and nodes > 1 and protocol == "Simple" and large:
        latency_s *= _PLATEAU
    return latency_s + size_bytes * steps / (n * bus_bytes_per_s)


@dataclass(frozen=True)
class EfficiencyCurve:
    """Share of a network's bandwidth that messages of a size achieve; checks itself.

    Between points it is a power law. Smaller messages than the first point have its share, larger ones than
    the last have the last's. A share may not grow faster than the size, or larger messages would take less
    time.

    Attributes:
        size_bytes: Of messages, ascending.
        share: More than 0, at most 1.

    Raises:
        ScenarioError: Points that are not like this.
    """

    size_bytes: tuple[float, ...]
    share: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "size_bytes", tuple(map(float, self.size_bytes)))
        object.__setattr__(self, "share", tuple(map(float, self.share)))
        sizes, shares = self.size_bytes, self.share
        place = "<efficiency curve>"
        if not sizes or len(sizes) != len(shares):
            got = f"{len(sizes)} sizes, {len(shares)} shares"
            raise ScenarioError(place, "share", got, "as many shares as sizes, at least one")
        if not (_ascending(sizes) and sizes[0] > 0.0 and math.isfinite(sizes[-1])):
            raise ScenarioError(place, "size_bytes", list(sizes), "positive finite sizes, ascending")
        if not all(0.0 < share <= 1.0 for share in shares):
            raise ScenarioError(place, "share", list(shares), "shares that are more than 0 and at most 1")
        if not _ascending([size / share for size, share in zip(sizes, shares, strict=True)]):
            raise ScenarioError(place, "share", list(shares), "shares that grow no faster than the sizes")

    def at(self, size_bytes: float) -> float:
        """Return the share of the bandwidth that messages of a size achieve."""
        if size_bytes <= self.size_bytes[0]:
            return self.share[0]
        log_size, log_share = self.logarithms()
        return math.exp(float(np.interp(math.log(size_bytes), log_size, log_share)))

    def logarithms(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the natural logarithms of sizes and shares, float64 [n_points] each."""
        return np.log(self.size_bytes), np.log(self.share)


def _ascending(values: Sequence[float]) -> bool:
    return all(low < high for low, high in itertools.pairwise(values))


SIMAI_2_NODES = EfficiencyCurve((16e6, 128e6, 256e6, 1e9, 16e9), (0.32, 0.67, 0.85, 0.92, 0.96))
"""16 GPUs on two nodes (SimAI)."""

SIMAI_128_NODES = EfficiencyCurve((16e6, 1e9, 16e9), (0.0087, 0.31, 0.92))
"""128 nodes (SimAI)."""
