"""Import of networks from other tools' files: ASTRA-sim's network YAML and TACCL's topology JSON."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sysgym.emulator.collectives.generators import Cable, dgx1_cables, grid_cables, network_of, nic_cables
from sysgym.emulator.collectives.network import Link, Network
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
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.collectives import MOST_DEVICES

ASTRA_NETWORKS = ("Ring", "FullyConnected", "Switch")


def read_astra_sim(path: FilePath) -> Network:
    """Read a network file of ASTRA-sim's analytical backends.

    Devices lie on a grid whose first listed dimension varies fastest. In each dimension, the devices that
    differ only in it are joined by a ring, by a link between each two, or by a switch. ``bandwidth`` is per
    link and direction, in units of 2^30 bytes per second as ASTRA-sim computes them; ``latency`` is per link
    in ns.

    Args:
        path: YAML with the lists topology, npus_count, bandwidth and latency.

    Raises:
        ScenarioError: The file cannot be read, a value is missing or not a number (``tbd``), lists differ in
            length, a dimension is of another kind, or there are too many devices.
        MissingExtra: PyYAML is not installed.
    """
    data = checked_table(path, parse_yaml(path))
    kinds, counts, bandwidths, latencies = (checked_list(path, data, key) for key in ASTRA_KEYS)
    for key in ASTRA_KEYS[1:]:
        if len(data[key]) != len(kinds):
            raise file_error(
                path, key, data[key], f"{len(kinds)} values, one for each dimension of the topology"
            )
    sizes = [checked_whole(path, f"npus_count[{index}]", count) for index, count in enumerate(counts)]
    n_devices = math.prod(sizes)
    if not 2 <= n_devices <= MOST_DEVICES:
        raise file_error(path, "npus_count", counts, f"2 to {MOST_DEVICES} devices in all")
    switches: list[str] = []
    cables: list[Cable] = []
    inside = 1
    for index, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
        if kind not in ASTRA_NETWORKS:
            expected = " or ".join(f'"{name}"' for name in ASTRA_NETWORKS)
            raise file_error(path, f"topology[{index}]", kind, expected)
        bandwidth = checked_number(path, f"bandwidth[{index}]", bandwidths[index], positive=True) * ASTRA_GB
        latency_s = checked_number(path, f"latency[{index}]", latencies[index]) * 1e-9
        for number, line in enumerate(_lines(n_devices, inside, size)):
            if kind == "Switch":
                switch = n_devices + len(switches)
                switches.append(f"switch {index + 1}.{number}")
                cables += [(device, switch, bandwidth, latency_s) for device in line]
            elif kind == "Ring":
                ends = grid_cables((size,), True, bandwidth, latency_s)
                cables += [(line[one], line[other], bandwidth, latency_s) for one, other, _, _ in ends]
            else:
                pairs = itertools.combinations(line, 2)
                cables += [(*pair, bandwidth, latency_s) for pair in pairs]
        inside *= size
    return network_of(Path(path).stem, _names(n_devices), switches, cables)


def read_taccl(path: FilePath, nodes: int) -> Network:
    """Read a topology file of TACCL.

    Betas are microseconds for the message size in the file's ``name`` (``DGX2_1MB``), alphas microseconds.
    A single beta in ``node_betas_list`` is a switch that every GPU reaches with that bandwidth. Two betas are
    an NDv2: the link table of a DGX-1, whose double NVLinks have the first and single ones the second beta.
    Otherwise ``links`` and ``betas`` are matrices ``[target][source]``: the number of links, and the beta of
    each.
    NICs are vertices that serve an equal block of GPUs each, joined by one switch.

    Args:
        path: JSON with name, gpus_per_node, alpha and the betas, and for several nodes nics_per_node,
            remote_alpha and remote_beta.
        nodes: Number of nodes.

    Raises:
        ScenarioError: The file cannot be read, or a value is missing or not valid.
    """
    data = checked_table(path, parse_json(path))
    for key in ("name", "gpus_per_node", "alpha"):
        require(path, data, key)
    size_bytes = taccl_size_bytes(path, data["name"])
    gpus = checked_whole(path, "gpus_per_node", data["gpus_per_node"])
    latency_s = checked_number(path, "alpha", data["alpha"]) * 1e-6
    n_devices = nodes * gpus
    if not 2 <= n_devices <= MOST_DEVICES:
        raise file_error(path, "gpus_per_node", gpus, f"2 to {MOST_DEVICES} devices in all")

    def bytes_per_s(key: str, beta: Any) -> float:
        return size_bytes / (checked_number(path, key, beta, positive=True) * 1e-6)

    switches: list[str] = []
    links: list[Link] = []
    cables: list[Cable] = []
    if "links" in data:
        for source, target, count, beta in _pairs(path, data, gpus):
            bandwidth = count * bytes_per_s(f"betas[{target}][{source}]", beta)
            links += [
                Link(first + source, first + target, bandwidth, latency_s)
                for first in range(0, n_devices, gpus)
            ]
    else:
        betas = checked_list(path, data, "node_betas_list")
        speeds = [bytes_per_s(f"node_betas_list[{index}]", beta) for index, beta in enumerate(betas)]
        if len(speeds) == 1:
            switches = [f"nvswitch {node}" for node in range(nodes)]
            cables = [
                (device, n_devices + device // gpus, speeds[0], latency_s / 2) for device in range(n_devices)
            ]
        elif len(speeds) == 2 and gpus == 8:
            cables = list(dgx1_cables(nodes, speeds[1], speeds[0], latency_s))
        else:
            expected = "one beta, or two and eight GPUs per node (NDv2), or links and betas as matrices"
            raise file_error(path, "node_betas_list", betas, expected)
    if nodes > 1:
        for key in ("nics_per_node", "remote_alpha", "remote_beta"):
            require(path, data, key)
        nics = checked_whole(path, "nics_per_node", data["nics_per_node"])
        if gpus % nics:
            raise file_error(path, "nics_per_node", nics, f"a divisor of {gpus}, the GPUs of a node")
        remote_s = checked_number(path, "remote_alpha", data["remote_alpha"]) * 1e-6
        remote = bytes_per_s("remote_beta", data["remote_beta"])
        names, more = nic_cables(nodes, gpus, nics, n_devices + len(switches), remote, remote_s)
        switches += names
        cables += more
    joined = [Link(*ends) for cable in cables for ends in (cable, (cable[1], cable[0], *cable[2:]))]
    vertices = (*_names(n_devices), *switches)
    try:
        return Network(Path(path).stem, vertices, n_devices, (*links, *joined))
    except SysgymError as error:
        raise file_error(
            path, "links", str(error), "links over which every GPU reaches every other"
        ) from None


def _names(n_devices: int) -> list[str]:
    return [f"device {index}" for index in range(n_devices)]


def _lines(n_devices: int, inside: int, size: int) -> Iterator[list[int]]:
    """Yield the devices that differ only in one dimension, whose neighbours are ``inside`` apart."""
    for first in range(n_devices):
        if first // inside % size == 0:
            yield list(range(first, first + size * inside, inside))


def _pairs(path: FilePath, data: Mapping[str, Any], gpus: int) -> Iterator[tuple[int, int, float, Any]]:
    """Yield source, target, number of links and beta of each linked pair of a node."""
    matrices = {key: _matrix(path, data, key, gpus) for key in ("links", "betas")}
    for target, source in itertools.product(range(gpus), repeat=2):
        joined = checked_number(path, f"links[{target}][{source}]", matrices["links"][target][source])
        if joined and source == target:
            raise file_error(path, f"links[{target}][{source}]", joined, "0: a GPU has no link to itself")
        if joined:
            yield source, target, joined, matrices["betas"][target][source]


def _matrix(path: FilePath, data: Mapping[str, Any], key: str, gpus: int) -> Sequence[Sequence[Any]]:
    rows = checked_list(path, data, key)
    if len(rows) != gpus or any(not isinstance(row, list) or len(row) != gpus for row in rows):
        raise file_error(path, key, rows, f"{gpus} lists of {gpus} numbers, one for each pair of GPUs")
    return rows
