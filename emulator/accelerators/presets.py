"""Hierarchies of well-known systems; each number has a source, or is marked as assumed.

Bandwidths are bytes per second in one direction (vendors' headlines add both); a GB is 1e9 bytes. Latencies
of a hop are those of NCCL's tuner for its Simple protocol on a ring: 3.4 us on NVLink, 14 us on a network
(NVIDIA/nccl, src/graph/tuning.cc).

Bandwidths are those of the hardware, except in ``p2-a100`` and ``p2-v100``, which use achieved ones. These
two stand for the GPU systems of P2's problem (Xie et al., MLSys 2022). That a node has 16 A100 on one
NVSwitch, or 8 V100 in a ring of NVLinks, and one NIC, is assumed.
"""

from __future__ import annotations

from collections.abc import Callable

from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.scenarios.errors import ScenarioError, UnknownName

_NVLINK_LATENCY_S = 3.4e-6
_NETWORK_LATENCY_S = 14e-6
_NCCL = "hop latencies: NVIDIA/nccl, src/graph/tuning.cc, ring, Simple"
_STAS00 = "stas00/ml-engineering, network (bandwidth per direction of NVLink and of InfiniBand)"
_P2 = "Xie et al., P2, MLSys 2022, arXiv:2110.10548 (the problem; the structure of the system: assumed)"

_P2_NIC_BYTES_PER_S = 8.4e9
_A100_ACHIEVED_SHARE = 235 / 300


def get_preset(name: str, nodes: int = 1) -> Hierarchy:
    """Return a system by name.

    Args:
        name: One of :func:`list_presets`.
        nodes: Number of instances of its outermost level: nodes, racks, or rows of a torus.

    Raises:
        UnknownName: There is no such preset.
        ScenarioError: The number of nodes is not positive, or not one for ``single``.
    """
    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name](nodes)


def list_presets() -> list[str]:
    """Return the names of the presets, sorted."""
    return sorted(PRESETS)


def p2_a100(nodes: int) -> Hierarchy:
    """Return nodes of 16 A100 on one NVSwitch with one NIC: a system as in P2's problem, assumed.

    Inside: 235 GB/s, the bus bandwidth of an all-reduce measured on an A100 node (of 300). The NIC: 8.4 GB/s,
    67 % of 100 Gb/s, assumed. Latencies of 3 us and 14 us: the order of NCCL's.
    """
    return Hierarchy(
        "p2-a100",
        (
            Level("node", nodes, _P2_NIC_BYTES_PER_S, 14e-6),
            Level("gpu", 16, 235e9, 3e-6),
        ),
        (
            _P2,
            "235 GB/s: measured all-reduce bus bandwidth of an A100 node, stas00/ml-engineering",
            "8.4 GB/s: assumed, 67 % of 100 Gb/s",
            "3 us and 14 us: rounded, NVIDIA/nccl, src/graph/tuning.cc",
        ),
    )


def p2_v100(nodes: int) -> Hierarchy:
    """Return nodes of 8 V100 in a ring of NVLinks with one NIC: a system as in P2's problem, assumed.

    Inside: the six NVLink 2 of a V100, 150 GB/s, times the share that an A100 node was measured to achieve,
    assumed to hold here. The NIC as in :func:`p2_a100`, assumed.
    """
    return Hierarchy(
        "p2-v100",
        (
            Level("node", nodes, _P2_NIC_BYTES_PER_S, 14e-6),
            Level("gpu", 8, 150e9 * _A100_ACHIEVED_SHARE, 3e-6, network="ring"),
        ),
        (
            _P2,
            f"150 GB/s: {_STAS00}; times 235/300, assumed as on an A100 node",
            "8.4 GB/s: assumed, 67 % of 100 Gb/s",
            "3 us and 14 us: rounded, NVIDIA/nccl, src/graph/tuning.cc",
        ),
    )


def dgx_1_v100(nodes: int) -> Hierarchy:
    """Return DGX-1 with eight V100.

    Its hybrid cube mesh holds a ring over all eight GPUs with double and one with single NVLinks (adjacency
    in msccl-tools), 150 GB/s per GPU; it is modelled as one ring in the order of the device ids. The four EDR
    NICs are assumed.
    """
    return Hierarchy(
        "dgx-1-v100",
        (
            Level("node", nodes, 12.5e9, _NETWORK_LATENCY_S, uplinks=4),
            Level("gpu", 8, 150e9, _NVLINK_LATENCY_S, network="ring"),
        ),
        (_STAS00, _NCCL, "adjacency: microsoft/msccl-tools, topologies", "4 x EDR 12.5 GB/s a node: assumed"),
    )


def dgx_2(nodes: int) -> Hierarchy:
    """Return DGX-2: 16 V100 on NVSwitch, measured at 125 GB/s each, and eight NICs of 100 Gb/s."""
    return Hierarchy(
        "dgx-2",
        (
            Level("node", nodes, 12.5e9, _NETWORK_LATENCY_S, uplinks=8),
            Level("gpu", 16, 125e9, _NVLINK_LATENCY_S),
        ),
        ("125 GB/s, 8 NICs: microsoft/taccl, taccl/examples/topo/topo-dgx2-1MB.json", _STAS00, _NCCL),
    )


def dgx_a100(nodes: int) -> Hierarchy:
    """Return DGX A100: eight A100 on NVSwitch, 300 GB/s each, and an HDR NIC of 25 GB/s for every GPU."""
    return Hierarchy(
        "dgx-a100",
        (
            Level("node", nodes, 25e9, _NETWORK_LATENCY_S, uplinks=8),
            Level("gpu", 8, 300e9, _NVLINK_LATENCY_S),
        ),
        (_STAS00, _NCCL, "a NIC of 25 GB/s per GPU: ForestColl, arXiv:2402.06787"),
    )


def dgx_h100(nodes: int) -> Hierarchy:
    """Return DGX H100: eight H100 on NVSwitch, 450 GB/s each, and an NDR NIC of 50 GB/s for every GPU."""
    return Hierarchy(
        "dgx-h100",
        (
            Level("node", nodes, 50e9, _NETWORK_LATENCY_S, uplinks=8),
            Level("gpu", 8, 450e9, _NVLINK_LATENCY_S),
        ),
        (_STAS00, _NCCL, "8 x NDR a node: stas00/ml-engineering, quoting NVIDIA"),
    )


def gb200_nvl72(nodes: int) -> Hierarchy:
    """Return racks of GB200 NVL72: 72 GPUs in one NVLink domain, 900 GB/s each, and a NIC for every GPU.

    ``nodes`` is the number of racks. The 18 trays of four GPUs are not a level, because the same switches
    join all 72. The NIC of 50 GB/s (400 Gb/s) for each GPU is assumed.
    """
    return Hierarchy(
        "gb200-nvl72",
        (
            Level("rack", nodes, 50e9, _NETWORK_LATENCY_S, uplinks=72),
            Level("gpu", 72, 900e9, _NVLINK_LATENCY_S),
        ),
        (_STAS00, _NCCL, "a NIC of 50 GB/s per GPU: assumed"),
    )


def tpu_v3(nodes: int) -> Hierarchy:
    """Return a 2-D torus of TPU v3 with rows of eight, 80 GB/s and 1 us per link.

    ``nodes`` is the number of rows. Every device has two links in its row and two in its column; the columns,
    each a separate ring, are the rows' uplinks. The bandwidth of a ring is what a device can send to both
    neighbours together, twice that of a link.
    """
    return Hierarchy(
        "tpu-v3",
        (
            Level("row", nodes, 160e9, 1e-6, uplinks=8, network="ring"),
            Level("tpu", 8, 160e9, 1e-6, network="ring"),
        ),
        ("80 GB/s, 1 us a link: astra-sim/astra-sim, inputs/network/tpu_v3_32_2dtorus.yml",),
    )


def single(nodes: int) -> Hierarchy:
    """Return one device, the smallest hierarchy, in which nothing is sent."""
    if nodes != 1:
        raise ScenarioError("<hierarchy single>", "nodes", nodes, "one: the preset is a single device")
    return Hierarchy("single", (Level("gpu", 1, 300e9, _NVLINK_LATENCY_S),), (_STAS00, _NCCL))


PRESETS: dict[str, Callable[[int], Hierarchy]] = {
    "p2-a100": p2_a100,
    "p2-v100": p2_v100,
    "dgx-1-v100": dgx_1_v100,
    "dgx-2": dgx_2,
    "dgx-a100": dgx_a100,
    "dgx-h100": dgx_h100,
    "gb200-nvl72": gb200_nvl72,
    "tpu-v3": tpu_v3,
    "single": single,
}
"""Name -> function from the number of nodes to the hierarchy."""
