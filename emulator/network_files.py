"""Reading of other tools' network files: ASTRA-sim's YAML and TACCL's JSON, checked value by value."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from sysgym.scenarios.errors import NOTHING, MissingExtra, ScenarioError
from sysgym.scenarios.reading import check_shape, read_text

FilePath = str | PathLike[str]

LARGEST_NETWORK_FILE_BYTES = 1 << 16
"""A hundred times the longest of both tools' own files; PyYAML reads this much in a second."""

ASTRA_GB = 2**30
"""Bytes per GB in ASTRA-sim's analytical network (astra-network-analytical, NetworkFunction.cpp)."""

ASTRA_KEYS = ("topology", "npus_count", "bandwidth", "latency")

_TACCL_UNITS = {"KB": 1e6 / 1024, "MB": 1e6, "GB": 1e6 * 1024}
"""Bytes of a unit in the name of a file: 1e6 for MB (8 us/MB is 125 GB/s), 1/1024 of it for KB."""


def parse_yaml(path: FilePath) -> Any:
    """Return the data of a YAML file.

    Raises:
        ScenarioError: The file cannot be read or is not YAML.
        MissingExtra: PyYAML is not installed.
    """
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
        raise file_error(path, "", str(error), "YAML") from None
    except RecursionError:
        raise file_error(path, "", "lists or tables nested a thousand times", "YAML") from None


def parse_json(path: FilePath) -> Any:
    """Return the data of a JSON file.

    Raises:
        ScenarioError: The file cannot be read or is not JSON.
    """
    text = read_text(path, "JSON file", most_bytes=LARGEST_NETWORK_FILE_BYTES)
    try:
        return json.loads(text)
    except ValueError as error:
        raise file_error(path, "", str(error), "JSON") from None
    except RecursionError:
        raise file_error(path, "", "lists or tables nested a thousand times", "JSON") from None


def checked_table(path: FilePath, data: Any) -> Mapping[str, Any]:
    """Return data that must be a table."""
    if not isinstance(data, Mapping):
        raise file_error(path, "", data, "a table of keys and values")
    check_shape(data, fspath(path))
    return data


def require(path: FilePath, data: Mapping[str, Any], key: str) -> None:
    """Raise ScenarioError unless a table has a key."""
    if key not in data:
        raise file_error(path, key, NOTHING, "a value", f"add the key {key}")


def checked_list(path: FilePath, data: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Return the value of a key, which must be a list that is not empty."""
    require(path, data, key)
    if not isinstance(data[key], list) or not data[key]:
        raise file_error(path, key, data[key], "a list with at least one value")
    return list(data[key])


def checked_number(path: FilePath, key: str, value: Any, *, positive: bool = False) -> float:
    """Return a value that must be a finite number, at least 0."""
    if isinstance(value, str):  # PyYAML reads 1e3 as a text, ASTRA-sim's reader as a number
        with contextlib.suppress(ValueError):
            value = float(value)
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value < 0 or (positive and value == 0):
        expected = "a finite number, " + ("more than 0" if positive else "at least 0")
        advice = "the file's author has not filled it in" if value == "tbd" else ""
        raise file_error(path, key, value, expected, advice)
    return float(value)


def checked_whole(path: FilePath, key: str, value: Any) -> int:
    """Return a value that must be a whole number, at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise file_error(path, key, value, "a whole number, at least 1")
    return value


def taccl_size_bytes(path: FilePath, name: Any) -> float:
    """Return the message size in the name of a TACCL file, for which its betas are."""
    found = re.search(r"(\d+(?:\.\d+)?)\s*([KMG]B)", str(name), re.IGNORECASE)
    if found is None or float(found[1]) == 0:
        expected = "a name with the message size that the betas are for, such as DGX2_1MB"
        raise file_error(path, "name", name, expected)
    return float(found[1]) * _TACCL_UNITS[found[2].upper()]


def file_error(path: FilePath, key: str, got: Any, expected: str, advice: str = "") -> ScenarioError:
    """Return the error for a value of a file."""
    return ScenarioError(path, key, got, expected, advice=advice)
