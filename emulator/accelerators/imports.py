"""Import of hierarchies from other tools' files: ASTRA-sim's network YAML and TACCL's topology JSON.

Both formats describe links, while a hierarchy has uplinks into networks that are a switch or a ring. Single
links between pairs cannot be expressed and are refused.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level, Network
from sysgym.scenarios.errors import NOTHING, MissingExtra, ScenarioError
from sysgym.scenarios.reading import check_shape, read_text

Path_ = str | PathLike[str]

LARGEST_NETWORK_FILE_BYTES = 1 << 16
"""A hundred times the longest of both tools' own files; PyYAML reads this much in a second."""

_ASTRA_GB = 2**30
"""Bytes per GB in ASTRA-sim's analytical network (astra-network-analytical, NetworkFunction.cpp)."""

_ASTRA_KEYS = ("topology", "npus_count", "bandwidth", "latency")
_ASTRA_NETWORKS: dict[str, Network] = {"Switch": "switch", "Ring": "ring"}

_TACCL_KEYS = ("name", "gpus_per_node", "alpha", "node_betas_list")
_TACCL_REMOTE_KEYS = ("nics_per_node", "remote_alpha", "remote_beta")
_TACCL_UNITS = {"KB": 1e6 / 1024, "MB": 1e6, "GB": 1e6 * 1024}
"""Bytes of a unit in the name of a file: 1e6 for MB (8 us/MB is 125 GB/s), 1/1024 of it for KB."""


def read_astra_sim(path: Path_) -> Hierarchy:
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
    data = _table(path, _parse_yaml(path))
    topology, counts, bandwidths, latencies = (_list(path, data, key) for key in _ASTRA_KEYS)
    for key in _ASTRA_KEYS[1:]:
        if len(data[key]) != len(topology):
            expected = f"{len(topology)} values, one for each dimension of the topology"
            raise _error(path, key, data[key], expected)
    levels: list[Level] = []
    devices = 1
    for index, word in enumerate(topology):
        count = _whole(path, f"npus_count[{index}]", counts[index])
        if word == "FullyConnected" and count == 2:
            word = "Ring"  # two members and the link between them are the same network
        if not isinstance(word, str) or word not in _ASTRA_NETWORKS:
            advice = "a hierarchy has no links of single pairs" if word == "FullyConnected" else ""
            raise _error(path, f"topology[{index}]", word, '"Switch" or "Ring"', advice)
        network = _ASTRA_NETWORKS[word]
        link = _number(path, f"bandwidth[{index}]", bandwidths[index], positive=True) * _ASTRA_GB
        latency_s = _number(path, f"latency[{index}]", latencies[index]) * 1e-9
        links = 2 if network == "ring" and count > 2 else 1
        hops = 2 if network == "switch" else 1
        levels.append(
            Level(f"dim{index + 1}", count, links * link, hops * latency_s, uplinks=devices, network=network)
        )
        devices *= count
    return Hierarchy(Path(path).stem, tuple(reversed(levels)), (f"ASTRA-sim network file {Path(path).name}",))


def read_taccl(path: Path_, nodes: int, *, factor: float = 1.0) -> Hierarchy:
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
    data = _table(path, _parse_json(path))
    for key in ("links", "betas"):
        if key in data:
            expected = "no such key: a hierarchy has no links of single pairs"
            raise _error(path, key, data[key], expected, "give node_betas_list")
    if not (math.isfinite(factor) and factor > 0):
        raise _error(path, "factor", factor, "a finite number, more than 0")
    for key in _TACCL_KEYS:
        _require(path, data, key)
    size_bytes = _taccl_size(path, data["name"])
    gpus = _whole(path, "gpus_per_node", data["gpus_per_node"])

    def bytes_per_s(key: str, beta: Any) -> float:
        return size_bytes * factor / (_number(path, key, beta, positive=True) * 1e-6)

    def seconds(key: str) -> float:
        return _number(path, key, data[key]) * 1e-6 / factor

    betas = _list(path, data, "node_betas_list")
    links = [bytes_per_s(f"node_betas_list[{index}]", beta) for index, beta in enumerate(betas)]
    if len(links) == 1:
        inside = Level("gpu", gpus, links[0], seconds("alpha"))
    elif len(links) == 2 and gpus == 8:
        inside = Level("gpu", gpus, 2 * sum(links), seconds("alpha"), network="ring")
    else:
        expected = "one beta, or two and eight GPUs per node (NDv2)"
        raise _error(path, "node_betas_list", betas, expected)
    levels = [inside]
    if nodes > 1 or "nics_per_node" in data:
        for key in _TACCL_REMOTE_KEYS:
            _require(path, data, key)
        levels.insert(
            0,
            Level(
                "node",
                nodes,
                bytes_per_s("remote_beta", data["remote_beta"]),
                seconds("remote_alpha"),
                uplinks=_whole(path, "nics_per_node", data["nics_per_node"]),
            ),
        )
    return Hierarchy(Path(path).stem, tuple(levels), (f"TACCL topology file {Path(path).name}",))


def _parse_yaml(path: Path_) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtra("placement", "reading ASTRA-sim's YAML") from None

    class WithoutAliases(yaml.SafeLoader):  # type: ignore[misc]
        """YAML loader that refuses aliases: ten aliases of ten aliases expand to a million values."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                mark = self.peek_event().start_mark
                raise yaml.composer.ComposerError(None, None, "aliases (*name) are not read here", mark)
            return super().compose_node(parent, index)

    text = read_text(path, "YAML file", most_bytes=LARGEST_NETWORK_FILE_BYTES)
    try:
        return yaml.load(text, WithoutAliases)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: an invalid date, thousands of digits
        raise _error(path, "", str(error), "YAML") from None
    except RecursionError:
        raise _error(path, "", "lists or tables nested a thousand times", "YAML") from None


def _parse_json(path: Path_) -> Any:
    text = read_text(path, "JSON file", most_bytes=LARGEST_NETWORK_FILE_BYTES)
    try:
        return json.loads(text)
    except ValueError as error:
        raise _error(path, "", str(error), "JSON") from None
    except RecursionError:
        raise _error(path, "", "lists or tables nested a thousand times", "JSON") from None


def _table(path: Path_, data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise _error(path, "", data, "a table of keys and values")
    check_shape(data, fspath(path))
    return data


def _require(path: Path_, data: Mapping[str, Any], key: str) -> None:
    if key not in data:
        raise _error(path, key, NOTHING, "a value", f"add the key {key}")


def _list(path: Path_, data: Mapping[str, Any], key: str) -> Sequence[Any]:
    _require(path, data, key)
    if not isinstance(data[key], list) or not data[key]:
        raise _error(path, key, data[key], "a list with at least one value")
    return list(data[key])


def _number(path: Path_, key: str, value: Any, *, positive: bool = False) -> float:
    if isinstance(value, str):  # PyYAML reads 1e3 as a text, ASTRA-sim's reader as a number
        with contextlib.suppress(ValueError):
            value = float(value)
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value < 0 or (positive and value == 0):
        expected = "a finite number, " + ("more than 0" if positive else "at least 0")
        advice = "the file's author has not filled it in" if value == "tbd" else ""
        raise _error(path, key, value, expected, advice)
    return float(value)


def _whole(path: Path_, key: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _error(path, key, value, "a whole number, at least 1")
    return value


def _taccl_size(path: Path_, name: Any) -> float:
    found = re.search(r"(\d+(?:\.\d+)?)\s*([KMG]B)", str(name), re.IGNORECASE)
    if found is None or float(found[1]) == 0:
        expected = "a name with the message size that the betas are for, such as DGX2_1MB"
        raise _error(path, "name", name, expected)
    return float(found[1]) * _TACCL_UNITS[found[2].upper()]


def _error(path: Path_, key: str, got: Any, expected: str, advice: str = "") -> ScenarioError:
    return ScenarioError(path, key, got, expected, advice=advice)
