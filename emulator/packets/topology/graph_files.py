"""Networks in files of others: GraphML and GML, as of the Topology Zoo, networkx's JSON, and SNDlib's format.

Delays are those of light in fibre along great circles, where nodes have coordinates in degrees. Rates are
read where a file has them in bit/s, as the Topology Zoo's ``LinkSpeedRaw``; SNDlib's modules have no unit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sysgym.scenarios.errors import MissingExtra, SysgymError
from sysgym.scenarios.files import read_limited

FIBRE_M_PER_S = 2e8
"""Speed of light in fibre, two thirds of that in vacuum."""
EARTH_RADIUS_M = 6.371e6
LARGEST_FILE_BYTES = 50_000_000
SUFFIXES = (".graphml", ".gml", ".json", ".txt")

_LATITUDE, _LONGITUDE = ("Latitude", "latitude", "lat"), ("Longitude", "longitude", "lon")
_RATE, _DELAY = ("LinkSpeedRaw", "rate_bps"), ("delay_s",)
_NAME_AND_PAIR = r"\s*([^\s()]+)\s*\(\s*([^\s()]+)\s+([^\s()]+)\s*\)"
"""Name and two values of SNDlib; as no part can match where another does, matching takes linear time."""

_SNDLIB_NODE = re.compile(rf"{_NAME_AND_PAIR}\s*$")
_SNDLIB_LINK = re.compile(rf"{_NAME_AND_PAIR}\s+\S")


class FileCable(NamedTuple):
    """Cable of a file.

    Attributes:
        ends: Names of its two switches.
        rate_bps: Rate, bit/s; None if the file has none.
        delay_s: Propagation delay, s; None if it is not known.
    """

    ends: tuple[str, str]
    rate_bps: float | None
    delay_s: float | None


class FileGraph(NamedTuple):
    """Network of a file.

    Attributes:
        switches: Names of the switches.
        cables: Cables between them, one for each pair; rates of parallel ones are added.
    """

    switches: list[str]
    cables: list[FileCable]


class _Node(NamedTuple):
    name: str
    latitude: float | None
    longitude: float | None


def read_graph(path: Path) -> FileGraph:
    """Return the network of a file.

    Args:
        path: ``.graphml`` or ``.gml``, networkx's node-link ``.json``, or SNDlib's native ``.txt``.

    Raises:
        MissingExtra: If networkx is needed and not installed.
        SysgymError: If the file cannot be read, or has no network.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise SysgymError(f"{path}: expected a graph with one of the suffixes {', '.join(SUFFIXES)}")
    content = read_limited(path, LARGEST_FILE_BYTES)
    try:
        nodes, edges = _of_sndlib(content) if suffix == ".txt" else _of_networkx(content, suffix)
    except MissingExtra:
        raise
    except Exception as error:  # readers of others' formats raise anything
        raise SysgymError(f"{path}: not a graph that can be read: {type(error).__name__}: {error}") from error
    if not nodes or not edges:
        raise SysgymError(f"{path}: expected nodes and links, got {len(nodes)} and {len(edges)}")
    return _joined(nodes, edges)


def _of_networkx(content: bytes, suffix: str) -> tuple[dict[Any, _Node], list[tuple[Any, Any, Any]]]:
    try:
        import networkx
    except ImportError as error:
        raise MissingExtra("graphs", "reading a graph") from error
    if suffix == ".graphml":
        graph = networkx.parse_graphml(content.decode("utf-8-sig"))
    elif suffix == ".gml":
        graph = networkx.parse_gml(content.decode("utf-8-sig"), label="id")
    else:
        data = json.loads(content)
        graph = networkx.node_link_graph(data, edges="links" if "links" in data else "edges")
    nodes = {
        node: _Node(
            str(values.get("label", values.get("name", node))),
            _number(values, _LATITUDE),
            _number(values, _LONGITUDE),
        )
        for node, values in graph.nodes(data=True)
    }
    return nodes, list(graph.edges(data=True))


def _of_sndlib(content: bytes) -> tuple[dict[Any, _Node], list[tuple[Any, Any, Any]]]:
    lines = [line.partition("#")[0] for line in content.decode("utf-8-sig").split("\n")]
    nodes: dict[Any, _Node] = {}
    for found in filter(None, map(_SNDLIB_NODE.match, _section(lines, "NODES"))):
        name, x, y = found.groups()
        place = {"x": x, "y": y}
        longitude, latitude = _number(place, ("x",)), _number(place, ("y",))
        if longitude is None or latitude is None:
            raise ValueError(f"node {name} is at ({x} {y}); expected two finite numbers")
        nodes[name] = _Node(name, latitude, longitude)
    edges: list[tuple[Any, Any, Any]] = []
    for found in filter(None, map(_SNDLIB_LINK.match, _section(lines, "LINKS"))):
        name, one, other = found.groups()
        if unknown := [end for end in (one, other) if end not in nodes]:
            raise ValueError(f"link {name} ends at {unknown[0]}; expected one of the nodes of section NODES")
        edges.append((one, other, {}))
    if any(abs(node.latitude or 0.0) > 90.0 or abs(node.longitude or 0.0) > 180.0 for node in nodes.values()):
        nodes = {name: _Node(name, None, None) for name in nodes}  # pixels, not degrees
    return nodes, edges


def _section(lines: Sequence[str], name: str) -> list[str]:
    """Return the lines between ``NAME (`` and the closing bracket on a line of its own."""
    # Line by line: a regular expression over all lines takes quadratic time where sections are not closed.
    inside: list[str] | None = None
    for line in lines:
        if inside is None:
            if re.fullmatch(rf"{name}\s*\(\s*", line):
                inside = []
        elif line.rstrip() == ")":
            return inside
        else:
            inside.append(line)
    raise ValueError(f"no section {name} ( ... ) with the closing bracket on a line of its own")


def _joined(nodes: Mapping[Any, _Node], edges: list[tuple[Any, Any, Any]]) -> FileGraph:
    names = _names(nodes)
    cables: dict[tuple[str, str], FileCable] = {}
    for one, other, values in edges:
        if one == other:
            continue
        ends = tuple(sorted((names[one], names[other])))
        rate_bps = _number(values, _RATE)
        delay_s = _number(values, _DELAY)
        if delay_s is None:
            delay_s = _delay_s(nodes[one], nodes[other])
        before = cables.get((ends[0], ends[1]))
        if before is not None and before.rate_bps is not None and rate_bps is not None:
            rate_bps += before.rate_bps
        cables[ends[0], ends[1]] = FileCable((ends[0], ends[1]), rate_bps, delay_s)
    joined = {name for cable in cables.values() for name in cable.ends}
    return FileGraph([name for name in names.values() if name in joined], list(cables.values()))


def _names(nodes: Mapping[Any, _Node]) -> dict[Any, str]:
    """Return names that a scenario accepts, without repetitions."""
    found: dict[Any, str] = {}
    taken: set[str] = set()
    numbers: dict[str, int] = {}  # the last one of each name: earlier ones are taken
    for key, node in nodes.items():
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", node.name).strip("-._")[:30].lower() or "switch"
        if re.fullmatch(r"h[0-9]+", name):
            name = f"s-{name}"
        number = numbers.get(name, 1)
        unique = name if number == 1 else f"{name}-{number}"
        while unique in taken:
            number += 1
            unique = f"{name}-{number}"
        numbers[name] = number
        taken.add(unique)
        found[key] = unique
    return found


def _number(values: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        try:
            number = float(values[name])
        except (KeyError, TypeError, ValueError):
            continue
        if math.isfinite(number):
            return number
    return None


def _delay_s(one: _Node, other: _Node) -> float | None:
    """Return the delay along the great circle between two nodes, or None if one has no place."""
    if one.latitude is None or one.longitude is None or other.latitude is None or other.longitude is None:
        return None
    places = (one.latitude, one.longitude, other.latitude, other.longitude)
    la, lo, other_la, other_lo = (math.radians(degrees) for degrees in places)
    # Haversine formula.
    square = math.sin(0.5 * (other_la - la)) ** 2
    square += math.cos(la) * math.cos(other_la) * math.sin(0.5 * (other_lo - lo)) ** 2
    return 2.0 * EARTH_RADIUS_M * math.asin(math.sqrt(min(square, 1.0))) / FIBRE_M_PER_S
