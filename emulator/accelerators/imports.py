"""Import of hierarchies from other tools' files: ASTRA-sim's network YAML and TACCL's topology JSON.

Both formats describe links, while a hierarchy has uplinks into networks that are a switch or a ring. Single
links between pairs cannot be expressed and are refused.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level, Network
from sysgym.emulator.network_files import (
    ASTRA_GB,
    ASTRA_KEYS,
    FilePath,
    checked_list,
    checked_number,
    checked_table,
    checked_whole,
    file_error,
    parse_json,
    parse_yaml,
    require,
    taccl_size_bytes,
)

_ASTRA_NETWORKS: dict[str, Network] = {"Switch": "switch", "Ring": "ring"}

_TACCL_KEYS = ("name", "gpus_per_node", "alpha", "node_betas_list")
_TACCL_REMOTE_KEYS = ("nics_per_node", "remote_alpha", "remote_beta")


def read_astra_sim(path: FilePath) -> Hierarchy:
    """Read a network file of ASTRA-sim's analytical backends.

    Dimensions are listed innermost first in the file and outermost first here. Every NPU has its own links in
    every dimension, so a level has as many uplinks as devices inside an instance. ``bandwidth`` is per link
    and direction, in units of 2^30 bytes per second as ASTRA-sim computes them; a member of a ring has two
    such links (one if the ring has two members). ``latency`` is per link in ns; a hop through a switch takes
    two links.

    Args:
        path: YAML with the lists topology, npus_count, bandwidth and latency.

    Returns:
        Levels named ``dim1`` (innermost in the file), ``dim2`` and so on.

    Raises:
        ScenarioError: The file cannot be read, a value is missing or not a number (``tbd``), lists differ in
            length, or a dimension is neither a Switch nor a Ring.
        MissingExtra: PyYAML is not installed.
    """
    data = checked_table(path, parse_yaml(path))
    topology, counts, bandwidths, latencies = (checked_list(path, data, key) for key in ASTRA_KEYS)
    for key in ASTRA_KEYS[1:]:
        if len(data[key]) != len(topology):
            expected = f"{len(topology)} values, one for each dimension of the topology"
            raise file_error(path, key, data[key], expected)
    levels: list[Level] = []
    devices = 1
    for index, word in enumerate(topology):
        count = checked_whole(path, f"npus_count[{index}]", counts[index])
        if word == "FullyConnected" and count == 2:
            word = "Ring"  # two members and the link between them are the same network
        if not isinstance(word, str) or word not in _ASTRA_NETWORKS:
            advice = "a hierarchy has no links of single pairs" if word == "FullyConnected" else ""
            raise file_error(path, f"topology[{index}]", word, '"Switch" or "Ring"', advice)
        network = _ASTRA_NETWORKS[word]
        link = checked_number(path, f"bandwidth[{index}]", bandwidths[index], positive=True) * ASTRA_GB
        latency_s = checked_number(path, f"latency[{index}]", latencies[index]) * 1e-9
        links = 2 if network == "ring" and count > 2 else 1
        hops = 2 if network == "switch" else 1
        levels.append(
            Level(f"dim{index + 1}", count, links * link, hops * latency_s, uplinks=devices, network=network)
        )
        devices *= count
    return Hierarchy(Path(path).stem, tuple(reversed(levels)), (f"ASTRA-sim network file {Path(path).name}",))


def read_taccl(path: FilePath, nodes: int, *, factor: float = 1.0) -> Hierarchy:
    """Read a topology file of TACCL.

    Its betas are microseconds for the message size in the file's ``name`` (``DGX2_1MB``). A single beta is
    read as a switch that every GPU reaches with that bandwidth. Two betas are an NDv2, in which every GPU has
    two links of each kind, read as a ring of their sum (double and single NVLinks each close a ring over the
    eight GPUs). NICs are uplinks of the node.

    Args:
        path: JSON with name, gpus_per_node, alpha and node_betas_list, and for several nodes nics_per_node,
            remote_alpha and remote_beta.
        nodes: Number of nodes.
        factor: Factor by which all times in the file were multiplied. TACCL needs numbers that survive
            rounding, so its files for 1 KB and 32 KB hold times multiplied by 100 and 10.

    Returns:
        Levels ``node`` and ``gpu``; with one node and no NICs in the file, ``gpu`` alone.

    Raises:
        ScenarioError: The file cannot be read, a value is missing or not a number, or links are given pair by
            pair.
    """
    data = checked_table(path, parse_json(path))
    for key in ("links", "betas"):
        if key in data:
            expected = "no such key: a hierarchy has no links of single pairs"
            raise file_error(path, key, data[key], expected, "give node_betas_list")
    if not (math.isfinite(factor) and factor > 0):
        raise file_error(path, "factor", factor, "a finite number, more than 0")
    for key in _TACCL_KEYS:
        require(path, data, key)
    size_bytes = taccl_size_bytes(path, data["name"])
    gpus = checked_whole(path, "gpus_per_node", data["gpus_per_node"])

    def bytes_per_s(key: str, beta: Any) -> float:
        return size_bytes * factor / (checked_number(path, key, beta, positive=True) * 1e-6)

    def seconds(key: str) -> float:
        return checked_number(path, key, data[key]) * 1e-6 / factor

    betas = checked_list(path, data, "node_betas_list")
    links = [bytes_per_s(f"node_betas_list[{index}]", beta) for index, beta in enumerate(betas)]
    if len(links) == 1:
        inside = Level("gpu", gpus, links[0], seconds("alpha"))
    elif len(links) == 2 and gpus == 8:
        inside = Level("gpu", gpus, 2 * sum(links), seconds("alpha"), network="ring")
    else:
        expected = "one beta, or two and eight GPUs per node (NDv2)"
        raise file_error(path, "node_betas_list", betas, expected)
    levels = [inside]
    if nodes > 1 or "nics_per_node" in data:
        for key in _TACCL_REMOTE_KEYS:
            require(path, data, key)
        levels.insert(
            0,
            Level(
                "node",
                nodes,
                bytes_per_s("remote_beta", data["remote_beta"]),
                seconds("remote_alpha"),
                uplinks=checked_whole(path, "nics_per_node", data["nics_per_node"]),
            ),
        )
    return Hierarchy(Path(path).stem, tuple(levels), (f"TACCL topology file {Path(path).name}",))
